"""Frames of the planar worlds without OpenGL: an antialiased raster of a convex polygon in a box, by signed distance.

The picture is MuJoCo's orthographic view of the same scene (white ground, red body, black walls in front of the body);
tests/envs/test_raster.py holds the two against each other.
"""

from __future__ import annotations

import numpy as np

VIEW = 10.4  # metres from edge to edge of the square picture: exactly the outer faces of the walls
CENTRE = (0.0, 4.6)  # (x, z) at the picture's middle; also the box's
HALF_BOX = 4.8  # from the centre to the inner face of each wall
WHITE, BODY, WALL = 255.0, (140.0, 31.0, 31.0), 1.0  # levels that MuJoCo's renderer gives to the scene's colours


class Raster:
    """Draws at one image size; the empty box is prepared once."""

    def __init__(self, size: int):
        self.size = size
        self.scale = size / VIEW  # pixels per metre
        # share of each pixel's width that lies inside the box, exact: the walls are axis-parallel
        edges = (np.arange(size + 1) - size / 2) / self.scale
        inside = np.clip(np.minimum(edges[1:], HALF_BOX) - np.maximum(edges[:-1], -HALF_BOX), 0, None) * self.scale
        self._open = (inside[:, None] * inside[None, :]).astype(np.float32)[:, :, None]  # (H, W, 1)
        empty = WALL + (WHITE - WALL) * self._open
        self._empty_plus_half = np.repeat(empty, 3, axis=2) + np.float32(0.5)  # (H, W, 3)
        self._empty_bytes = self._empty_plus_half.astype(np.uint8)
        self._tint = self._open * (np.asarray(BODY, np.float32) - WHITE)  # what full cover by the body adds
        self._pixels = np.arange(size) + 0.5  # pixel centres

    def draw(self, vertices: np.ndarray) -> np.ndarray:
        """The frame (H, W, 3) uint8 with the polygon `vertices` (V, 2), world (x, z), counter-clockwise."""
        frame = self._empty_bytes.copy()
        # picture coordinates in pixels, x to the right and y down: this turns the polygon clockwise
        px, py = (vertices - CENTRE).T * ((self.scale,), (-self.scale,)) + self.size / 2
        x0, x1 = max(int(px.min()) - 1, 0), min(int(px.max()) + 2, self.size)
        y0, y1 = max(int(py.min()) - 1, 0), min(int(py.max()) + 2, self.size)
        if x0 >= x1 or y0 >= y1:
            return frame
        dx, dy = np.append(px[1:], px[0]) - px, np.append(py[1:], py[0]) - py
        length = np.hypot(dx, dy)
        nx, ny = dy / length, -dx / length  # inward normals, (V,)
        offset = 0.5 - (nx * px + ny * py)
        # 0.5 + distance into the body over each edge's line; the nearest edge decides
        across = (nx[:, None] * self._pixels[x0:x1] + offset[:, None]).astype(np.float32)  # (V, w)
        down = (ny[:, None] * self._pixels[y0:y1]).astype(np.float32)  # (V, h)
        cover = down[0][:, None] + across[0]  # (h, w)
        for d, a in zip(down[1:], across[1:], strict=True):
            np.minimum(cover, d[:, None] + a, out=cover)
        np.maximum(cover, 0.0, out=cover)
        np.minimum(cover, 1.0, out=cover)
        patch = cover[:, :, None] * self._tint[y0:y1, x0:x1]
        patch += self._empty_plus_half[y0:y1, x0:x1]
        frame[y0:y1, x0:x1] = patch  # truncation rounds, thanks to the half
        return frame
