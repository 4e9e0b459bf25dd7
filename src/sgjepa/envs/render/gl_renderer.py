"""MuJoCo's own pictures, on canvases that do not disturb each other; the backend is tested once per process."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from sgjepa.envs.headless import mujoco
from sgjepa.envs.render import opengl

ALL_GROUPS = (0, 1, 2)  # of geoms and sites; MuJoCo leaves out the higher ones, where collision shapes hide
_open: weakref.WeakSet[Canvas] = weakref.WeakSet()


@cache
def _start() -> str:
    """Test the backend once. An exit hook registered after MuJoCo's own runs before the display is closed."""
    backend = opengl.prove()
    atexit.register(_close_all)
    return backend


def _close_all() -> None:
    for canvas in list(_open):
        canvas.close()


class Canvas:
    """A square OpenGL picture of a model, `side` pixels wide, without shadow maps: on a CPU they are most of the cost."""

    def __init__(self, model: Any, side: int, camera: str):
        opengl.check_process()
        _start()
        self._context: Any = None
        self.model, self.side = model, side
        model.vis.global_.offwidth, model.vis.global_.offheight = side, side
        model.vis.quality.shadowsize = 0  # else the context takes memory for shadow maps, and half a second
        self._gl: Any = opengl.context(side, side)
        with self._current():
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(model, 2000)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(camera).id
        _open.add(self)

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Make the context current, and release it afterwards: it can be current in one thread only."""
        self._gl.make_current()
        try:
            yield
        finally:
            opengl.release(self._gl)

    def paint(self, data: Any, groups: Sequence[int] = ALL_GROUPS, sky: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The whole picture, of geoms and sites of these groups, in the state that `data` was last brought forward to."""
        whole = slice(0, self.side)
        return self.paint_part(data, whole, whole, groups, sky)

    def paint_part(
        self, data: Any, rows: slice, columns: slice, groups: Sequence[int] = ALL_GROUPS, sky: bool = True, zoom: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """A rectangle of the picture, and only the work for it. Enlarged by `zoom` it must still fit on the canvas.

        Returns colours (h * zoom, w * zoom, 3) uint8, and depth (h * zoom, w * zoom) float32, 1 where nothing was drawn.
        """
        for flags in (self._option.geomgroup, self._option.sitegroup):
            flags[:] = 0
            flags[list(groups)] = 1
        opengl.check_process()
        scene, everything = self._scene, mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self.model, data, self._option, None, self._camera, everything, scene)
        scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = sky
        self._aim(rows, columns)
        height, width = (rows.stop - rows.start) * zoom, (columns.stop - columns.start) * zoom
        viewport = mujoco.MjrRect(0, 0, width, height)
        colours, depth = np.empty((height, width, 3), np.uint8), np.empty((height, width), np.float32)
        with self._current():
            mujoco.mjr_render(viewport, scene, self._context)
            mujoco.mjr_readPixels(colours, depth, viewport, self._context)
        return colours[::-1], depth[::-1]  # OpenGL counts rows from the bottom

    def _aim(self, rows: slice, columns: slice) -> None:
        """Narrow the camera's frustum, which is that of the whole picture, to a rectangle of it."""
        for camera in self._scene.camera:  # two, for stereo
            pixel = (camera.frustum_top - camera.frustum_bottom) / self.side
            top = camera.frustum_top
            camera.frustum_center += ((columns.start + columns.stop) / 2 - self.side / 2) * pixel
            camera.frustum_bottom, camera.frustum_top = top - rows.stop * pixel, top - rows.start * pixel
            camera.frustum_width = 0.0  # from the height and the rectangle's shape

    def close(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            # MuJoCo frees its buffers in whatever context is current: without this, closing one canvas
            # destroys the textures of another and its frames turn to noise
            with self._current():
                context.free()
            self._gl.free()

    def __del__(self) -> None:
        if getattr(self, "_context", None) is not None:
            self.close()


class Painter:
    """Draws a model's camera at a fixed size, the whole picture every time. supersample: paint larger and average"""

    def __init__(self, model: Any, size: int, camera: str, supersample: int = 1):
        self._canvas = Canvas(model, size * supersample, camera)
        self._supersample = supersample

    def draw(self, data: Any) -> np.ndarray:
        """The frame (H, W, 3) uint8 of the state that `data` was last brought forward to."""
        return reduce(self._canvas.paint(data)[0], self._supersample)

    def close(self) -> None:
        self._canvas.close()


def reduce(picture: np.ndarray, factor: int) -> np.ndarray:
    """Average blocks of factor x factor pixels, rounding to nearest. (h * factor, w * factor, 3) -> (h, w, 3) uint8"""
    if factor == 1:
        return np.ascontiguousarray(picture)
    height, width = picture.shape[0] // factor, picture.shape[1] // factor
    # sums of strided slices: ten times faster than a mean over two axes
    tall = picture.reshape(height, factor, width * factor * 3)
    rows = tall[:, 0].astype(np.uint16)
    for i in range(1, factor):
        rows += tall[:, i]
    wide = rows.reshape(height, width, factor, 3)
    total = wide[:, :, 0].copy()
    for i in range(1, factor):
        total += wide[:, :, i]
    return ((total + factor * factor // 2) // (factor * factor)).astype(np.uint8)
