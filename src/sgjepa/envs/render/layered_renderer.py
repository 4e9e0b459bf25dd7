"""Pictures of a 3-D world in two layers: a fine backdrop, drawn once, and the moving geoms of each frame.

backdrop   the geoms and sites of group BACKDROP, drawn once, with 16 x 16 points per pixel. They must stand still and never
           hide anything that moves
moving     every other visible geom, drawn for each frame inside the rectangle it can reach, with 4 x 4 points
shadows    of spheres, on the floor z = 0, from a round lamp overhead: a function of the floor point, so exact and cheap.
           Shadows of the backdrop's own shapes are a part of it (shadows.py)

A CPU spends most of a MuJoCo picture on shadow maps and on drawing and reading what has not changed. Compared with MuJoCo's
own renderer in benchmarks/rendering.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.envs.render.gl_renderer import ALL_GROUPS, Canvas, reduce
from sgjepa.envs.render.shadows import Floor, Lamp, hidden_lamp, standing

BACKDROP = 1
_MOVING = tuple(group for group in ALL_GROUPS if group != BACKDROP)
SAMPLES = 4  # points per pixel in each direction
_FINER = 4  # times as many for the backdrop: thin lines far away need them
_LEVEL = 0.005  # m: a surface this near to z = 0 is the floor, or a line on it
_COARSE = 1024  # pixels; shadows of a fine picture this large are computed on every other point
_AWAY = np.float32(100)  # m: no shadow gets so far
_LARGEST = 2048  # pixels of a fine picture; a larger frame gets fewer samples
_RIM = 20  # points of an outline


@dataclass(frozen=True)
class Box:
    """A rectangle of pixels."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> slice:
        return slice(self.top, self.bottom)

    @property
    def columns(self) -> slice:
        return slice(self.left, self.right)

    def of(self, patch: np.ndarray, top: int, left: int) -> np.ndarray:
        """This rectangle in a patch of the picture that begins at (top, left)."""
        return patch[self.top - top : self.bottom - top, self.left - left : self.right - left]


class View:
    """A fixed perspective camera: maps points of the world to a picture of side x side pixels."""

    def __init__(self, model: Any, data: Any, camera: str, side: int):
        number = model.camera(camera).id
        self.position: np.ndarray = data.cam_xpos[number].copy()
        self.axes: np.ndarray = data.cam_xmat[number].reshape(3, 3).T.copy()  # rows: right, up, backward
        self.side = side
        self.focal = side / 2 / math.tan(math.radians(float(model.cam_fovy[number])) / 2)  # in pixels
        self._near, self._far = (end * float(model.stat.extent) for end in (model.vis.map.znear, model.vis.map.zfar))

    def project(self, points: np.ndarray) -> np.ndarray:
        """World points (..., 3) -> pixels (..., 2) as column, row from the top left corner."""
        right, up, backward = np.moveaxis((np.asarray(points, float) - self.position) @ self.axes.T, -1, 0)
        return np.stack([self.side / 2 - self.focal * right / backward, self.side / 2 + self.focal * up / backward], axis=-1)

    def rim(self, centre: np.ndarray, radius: float) -> np.ndarray:
        """Spheres (..., 3) -> closed curves (..., K, 2) across the line of sight; NaN behind the camera."""
        turn = np.linspace(0, 2 * np.pi, _RIM, endpoint=False)[:, None]
        rim = np.asarray(centre, float)[..., None, :] + radius * (np.cos(turn) * self.axes[0] + np.sin(turn) * self.axes[1])
        forward = (self.position - rim) @ self.axes[2]
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = self.project(rim)
        return np.where((forward > radius)[..., None], seen, np.nan)

    def box(self, spheres: np.ndarray) -> Box | None:
        """The rectangle of pixels that spheres, (N, 4) as x, y, z, radius, can touch; None if they are out of sight."""
        if not len(spheres):
            return None
        angles, near = self._angles(spheres)
        if near.any():
            return Box(0, self.side, 0, self.side)
        return self._within(*(float(end) for low, high in angles for end in (low.min(), high.max())))

    def boxes(self, spheres: np.ndarray) -> list[Box | None]:
        """The rectangle of each sphere by itself."""
        angles, near = self._angles(spheres)
        ends = zip(*(end.tolist() for pair in angles for end in pair), near.tolist(), strict=True)
        return [Box(0, self.side, 0, self.side) if close else self._within(*angle) for *angle, close in ends]

    def _angles(self, spheres: np.ndarray) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """Bounds of the angles of each sphere, down and to the right; and which spheres are too near to have bounds."""
        right, up, backward = ((spheres[:, :3] - self.position) @ self.axes.T).T
        near = -backward <= spheres[:, 3]  # around the camera, or behind it
        bounds = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for across in (-up, right):
                middle, reach = np.arctan2(across, -backward), np.arcsin(spheres[:, 3] / np.hypot(across, backward))
                bounds.append((middle - reach, middle + reach))
        return bounds, near

    def _within(self, top: float, bottom: float, left: float, right: float) -> Box | None:
        """The whole pixels between angles from the middle of the picture; None if there are none."""
        half, focal = self.side / 2, self.focal
        box = Box(
            max(math.floor(half + focal * math.tan(top)), 0),
            min(math.ceil(half + focal * math.tan(bottom)), self.side),
            max(math.floor(half + focal * math.tan(left)), 0),
            min(math.ceil(half + focal * math.tan(right)), self.side),
        )
        return box if box.top < box.bottom and box.left < box.right else None

    def rays(self) -> np.ndarray:
        """The rays from the camera through the pixels' centres, (side, side, 3), each 1 m long in the forward direction."""
        middle = (np.arange(self.side) + 0.5 - self.side / 2) / self.focal
        column, row = np.meshgrid(middle, middle)
        rays: np.ndarray = column[..., None] * self.axes[0] - row[..., None] * self.axes[1] - self.axes[2]
        return rays

    def on_floor(self) -> np.ndarray:
        """The point at which the ray through each pixel's centre meets z = 0: (side, side, 2) as x, y; NaN if it goes up."""
        rays = self.rays()
        with np.errstate(divide="ignore"):
            far = np.where(rays[..., 2] < 0, -self.position[2] / rays[..., 2], np.nan)
        return (self.position[:2] + far[..., None] * rays[..., :2]).astype(np.float32)

    def height(self, depth: np.ndarray) -> np.ndarray:
        """The height in m of the surface at each pixel; depth: (side, side) as `Canvas.paint` gives it."""
        forward = self._near / (1 - depth * (1 - self._near / self._far))
        seen: np.ndarray = self.position[2] + forward * self.rays()[..., 2]
        return seen


class LayeredPainter:
    """Draws a camera of a model with a backdrop. The camera must be fixed and in perspective."""

    def __init__(self, model: Any, size: int, camera: str, lamp: Lamp, floor: Floor):
        self._model, self._camera, self._lamp, self._ground = model, camera, lamp, floor
        self._samples = max(1, min(SAMPLES, _LARGEST // size))
        self._canvas = Canvas(model, size * self._samples, camera)
        self._geoms = np.flatnonzero(np.isin(model.geom_group, _MOVING) & (model.geom_rgba[:, 3] > 0))
        self._view: View | None = None

    def draw(self, data: Any, casters: np.ndarray) -> np.ndarray:
        """The frame (H, W, 3) uint8 of the state that `data` was last brought forward to; casters: spheres (N, 4)."""
        view = self._view or self._prepare(data)
        frame: np.ndarray = self._still.copy()
        moving = np.column_stack([data.geom_xpos[self._geoms], self._model.geom_rbound[self._geoms]])
        casters = casters[casters[:, 2] < 0.9 * self._lamp.position[2]]  # a caster above the lamp shades nothing
        shadows = self._shadows(casters)
        body, shade = view.box(moving), view.box(shadows)
        boxes = [box for box in (body, shade) if box]
        if not boxes:
            return frame
        s = self._samples
        top, bottom = min(box.top for box in boxes) // s, -(-max(box.bottom for box in boxes) // s)
        left, right = min(box.left for box in boxes) // s, -(-max(box.right for box in boxes) // s)
        # the rectangle of whole pixels of the frame that anything touches, finely
        patch = self._fine[top * s : bottom * s, left * s : right * s].copy()
        if shade:
            self._darken(shade.of(patch, top * s, left * s), shade, casters.astype(np.float32), shadows)
        if body:
            colours, depth = self._canvas.paint_part(data, body.rows, body.columns, _MOVING, sky=False)
            _lay(body.of(patch, top * s, left * s), colours, depth < 1)
        frame[top:bottom, left:right] = reduce(patch, s)
        return frame

    def close(self) -> None:
        self._canvas.close()

    def _prepare(self, data: Any) -> View:
        """Draw the backdrop, and compute the position of each of its points on the floor."""
        side = self._canvas.side
        self._fine = np.empty((side, side, 3), np.uint8)
        part = side // _FINER
        for top in range(0, side, part):
            for left in range(0, side, part):
                rows, columns = slice(top, min(top + part, side)), slice(left, min(left + part, side))
                colours, _ = self._canvas.paint_part(data, rows, columns, (BACKDROP,), zoom=_FINER)
                self._fine[rows, columns] = reduce(colours, _FINER)
        view = self._view = View(self._model, data, self._camera, side)
        points = view.on_floor()
        with np.errstate(invalid="ignore"):
            seen = np.abs(view.height(self._canvas.paint(data, (BACKDROP,))[1])) < _LEVEL  # not a shape before it
            self._lit = seen & self._ground.holds(points)
        points[~self._lit] = _AWAY
        # a soft shadow in a large picture is as good on every other point
        self._step = 2 if side >= _COARSE and self._samples % 2 == 0 else 1
        self._coarse = View(self._model, data, self._camera, side // self._step)
        floor = points if self._step == 1 else np.nan_to_num(self._coarse.on_floor(), nan=float(_AWAY))
        (x, y), (lx, ly, lz) = np.moveaxis(floor, -1, 0), self._lamp.position
        nx, ny = lx - x, ly - y
        # of each point of the floor: its position, the vector from it to the lamp, and that vector's square; (5, h, w)
        self._rays = np.stack([x, y, nx, ny, nx * nx + ny * ny + lz * lz])
        if shapes := standing(self._model, data, self._ground, ALL_GROUPS):
            left_over = 1 - self._lamp.darkness * hidden_lamp(shapes, self._lamp, points)
            self._fine = np.rint(self._fine * left_over[..., None]).astype(np.uint8)
        self._still = reduce(self._fine, self._samples)
        return view

    def _soft_edge(self, height: Any) -> Any:
        """Half the width of the soft edge, in m, of the shadow of a caster at that height."""
        return self._lamp.radius * height / (self._lamp.position[2] - height) + 0.002

    def _shadows(self, casters: np.ndarray) -> np.ndarray:
        """Spheres on the floor that contain the casters' shadows, (N, 4)."""
        lamp, height = np.array(self._lamp.position), casters[:, 2]
        stretch = lamp[2] / (lamp[2] - height)
        centres = lamp + (casters[:, :3] - lamp) * stretch[:, None]
        return np.column_stack([centres, 1.1 * stretch * (casters[:, 3] + self._soft_edge(height))])

    def _darken(self, patch: np.ndarray, box: Box, casters: np.ndarray, shadows: np.ndarray) -> None:
        """Put the casters' shadows on a rectangle of the backdrop, in place."""
        k = self._step
        rows, columns = slice(box.top // k, -(-box.bottom // k)), slice(box.left // k, -(-box.right // k))
        light = np.ones((rows.stop - rows.start, columns.stop - columns.start), np.float32)
        for caster, part in zip(casters, self._coarse.boxes(shadows), strict=True):
            if part:
                shaded = part.of(light, rows.start, columns.start)
                shaded *= self._light(caster, part)
        if k > 1:
            light = light.repeat(k, axis=0).repeat(k, axis=1)
            light = light[box.top - rows.start * k :, box.left - columns.start * k :][: patch.shape[0], : patch.shape[1]]
            light = np.where(self._lit[box.rows, box.columns], light, np.float32(1))
        numbers = _rows(patch)
        numbers[:] = (numbers * np.rint(256 * light).astype(np.uint16).repeat(3, axis=1)) >> 8

    def _light(self, caster: np.ndarray, box: Box) -> np.ndarray:
        """The share of the light that a caster leaves at the floor's points in a rectangle, (h, w)."""
        cx, cy, cz, radius = caster
        x, y, nx, ny, n2 = self._rays[:, box.rows, box.columns]
        # the distance of the caster's centre from the line between floor point and lamp: |d|^2 - (d . n)^2 / |n|^2
        dx, dy = cx - x, cy - y
        along = dx * nx + dy * ny + cz * self._lamp.position[2]
        distance = np.sqrt(np.maximum(dx * dx + dy * dy + cz * cz - along * along / n2, 0))
        edge = np.float32(self._soft_edge(cz))
        covered = np.clip((radius + edge - distance) / (2 * edge), 0, 1)
        covered *= covered * (3 - 2 * covered)  # smooth at both ends
        left: np.ndarray = 1 - np.float32(self._lamp.darkness) * covered
        return left


def _lay(patch: np.ndarray, colours: np.ndarray, where: np.ndarray) -> None:
    """Copy colours (h, w, 3) to a patch under a mask (h, w), by rows of numbers: much faster than pixel by pixel."""
    np.copyto(_rows(patch), colours.reshape(len(patch), -1), where=where.repeat(3, axis=1))


def _rows(patch: np.ndarray) -> np.ndarray:
    """A view of a patch (h, w, 3) of a larger picture as rows (h, 3 * w)."""
    height, width, _ = patch.shape
    return np.lib.stride_tricks.as_strided(patch, (height, 3 * width), (patch.strides[0], 1))
