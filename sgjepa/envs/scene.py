"""MuJoCo's own pictures: one renderer for each environment, with the GL backend proved once a process."""

from __future__ import annotations

from functools import cache
from typing import Any

import mujoco
import numpy as np

from sgjepa.envs import gl


@cache
def _proved() -> str:
    return gl.prove()


class Painter:
    """Draws a model's camera at one size. `supersample` renders larger and averages, the cheapest antialiasing on a CPU."""

    def __init__(self, model: Any, size: int, camera: str, supersample: int = 1):
        _proved()
        self._size, self._camera, self._supersample = size, camera, supersample
        self._renderer = mujoco.Renderer(model, size * supersample, size * supersample)
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0

    def draw(self, data: Any) -> np.ndarray:
        """The frame (H, W, 3) uint8 of the state that `data` was last brought forward to."""
        self._renderer.update_scene(data, camera=self._camera)
        picture = self._renderer.render()
        s, n = self._supersample, self._size
        if s == 1:
            return picture
        blocks = picture.reshape(n, s, n, s, 3).astype(np.float32)
        return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)

    def close(self) -> None:
        self._renderer.close()
