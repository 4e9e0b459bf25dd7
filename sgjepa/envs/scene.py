"""MuJoCo's own pictures: a renderer that can stand beside others, with the GL backend proved once a process."""

from __future__ import annotations

import atexit
import weakref
from functools import cache
from typing import Any

import mujoco
import numpy as np

from sgjepa.envs import gl

_open: weakref.WeakSet[Painter] = weakref.WeakSet()


@cache
def _start() -> str:
    """Prove the backend once. Registered after MuJoCo's own exit hook, ours runs before the display is gone."""
    backend = gl.prove()
    atexit.register(_close_all)
    return backend


def _close_all() -> None:
    for painter in list(_open):
        painter.close()


class Painter:
    """Draws a model's camera at one size. `supersample` renders larger and averages, the cheapest antialiasing on a CPU."""

    def __init__(self, model: Any, size: int, camera: str, supersample: int = 1):
        _start()
        self._size, self._camera, self._supersample = size, camera, supersample
        self._renderer: Any = mujoco.Renderer(model, size * supersample, size * supersample)
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        _open.add(self)

    def draw(self, data: Any) -> np.ndarray:
        """The frame (H, W, 3) uint8 of the state that `data` was last brought forward to."""
        self._renderer.update_scene(data, camera=self._camera)
        picture: np.ndarray = self._renderer.render()
        s, n = self._supersample, self._size
        if s == 1:
            return picture
        blocks = picture.reshape(n, s, n, s, 3).astype(np.float32)
        return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)

    def close(self) -> None:
        renderer, self._renderer = self._renderer, None
        if renderer is not None:
            # MuJoCo frees its buffers in whatever context is current: without this, closing one renderer
            # destroys the textures of another and its frames turn to noise
            renderer._gl_context.make_current()
            renderer.close()

    def __del__(self) -> None:
        if getattr(self, "_renderer", None) is not None:
            self.close()
