"""The lamp of a 3-D world, the floor below it, and the shadows of shapes that never move: pedestal, basket, pole.

Each standing shape is the hull of spheres. From one point of the lamp, the shadow of a hull is the hull of the spheres'
shadows. How much of the light a point of the floor misses is the share of the lamp's points that are hidden from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from sgjepa.envs.headless import mujoco

_BULBS = 64  # points of the lamp
_WAYS = np.array([(math.cos(a), math.sin(a)) for a in np.arange(48) * math.pi / 24])  # (K, 2): edges of a shadow
_CELL = 0.01  # m, of the floor's map; about a pixel of a 256 px frame
_THIN = 0.005  # m, half: a site that is thinner is a line drawn on something


@dataclass(frozen=True)
class Lamp:
    """A round lamp over the floor. darkness: share of the floor's colour that a full shadow takes away"""

    position: tuple[float, float, float]
    radius: float  # of the lamp: the higher the ball, the softer its shadow
    darkness: float

    def bulbs(self) -> np.ndarray:
        """Points spread evenly over the lamp, (L, 3)."""
        n = np.arange(_BULBS)
        far, angle = self.radius * np.sqrt((n + 0.5) / _BULBS), n * math.pi * (3 - math.sqrt(5))  # a sunflower
        return np.array(self.position) + np.column_stack([far * np.cos(angle), far * np.sin(angle), 0 * far])


@dataclass(frozen=True)
class Floor:
    """The part of the plane z = 0 that shadows fall on."""

    centre: tuple[float, float]
    half: tuple[float, float]

    def holds(self, points: np.ndarray) -> np.ndarray:
        """Whether each of the points (..., 2) lies on the floor; False for NaN."""
        inside: np.ndarray = (np.abs(points - np.array(self.centre)) <= np.array(self.half)).all(axis=-1)
        return inside


def standing(model: Any, data: Any, floor: Floor, groups: tuple[int, ...]) -> list[np.ndarray]:
    """The visible shapes over the floor that never move, each as spheres (P, 4) whose hull it is."""
    shapes = []
    for i in range(model.ngeom):
        plane = model.geom_type[i] == mujoco.mjtGeom.mjGEOM_PLANE  # a floor or a wall: no floor lies behind it
        still = model.body_weldid[model.geom_bodyid[i]] == 0 and not plane
        if still and model.geom_group[i] in groups and model.geom_rgba[i, 3] > 0:
            hull = _hull(model, model.geom_type[i], model.geom_size[i], model.geom_dataid[i])
            shapes.append(_placed(hull, data.geom_xpos[i], data.geom_xmat[i]))
    for i in range(model.nsite):
        position = data.site_xpos[i]
        # floor, walls and the lines on them are sites too
        stands = model.site_size[i].min() > _THIN and position[2] > 0 and floor.holds(position[:2])
        if stands and model.site_group[i] in groups:
            shapes.append(_placed(_hull(model, model.site_type[i], model.site_size[i]), position, data.site_xmat[i]))
    return shapes


def _hull(model: Any, kind: int, size: np.ndarray, mesh: int = -1) -> np.ndarray:
    """The spheres (P, 4) of a shape as x, y, z, radius, in its own axes."""
    geom = mujoco.mjtGeom
    if kind == geom.mjGEOM_MESH:
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        return np.pad(model.mesh_vert[first : first + count], ((0, 0), (0, 1)))
    if kind == geom.mjGEOM_BOX:
        return np.array([[*np.multiply(corner, size), 0.0] for corner in product((-1, 1), repeat=3)])
    if kind == geom.mjGEOM_CYLINDER:
        return np.array([[*(size[0] * way), end * size[1], 0.0] for way in _WAYS for end in (-1, 1)])
    if kind == geom.mjGEOM_CAPSULE:
        return np.array([[0.0, 0.0, end * size[1], size[0]] for end in (-1, 1)])
    if kind == geom.mjGEOM_SPHERE:
        return np.array([[0.0, 0.0, 0.0, size[0]]])
    raise NotImplementedError(f"no shadow for a standing shape of type {geom(kind).name}")


def _placed(spheres: np.ndarray, position: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.column_stack([position + spheres[:, :3] @ axes.reshape(3, 3).T, spheres[:, 3]])


def hidden_lamp(shapes: list[np.ndarray], lamp: Lamp, points: np.ndarray) -> np.ndarray:
    """The share of the lamp that the shapes hide from points of the floor. (H, W, 2) -> (H, W) float32, 0 to 1"""
    edges = [_edges(spheres, lamp.bulbs()) for spheres in shapes]  # (L, K) each
    bounds = np.array([edge.max(axis=0) for edge in edges]).max(axis=0)  # (K,)
    quarter = len(_WAYS) // 4
    high, low = bounds[[0, quarter]] + _CELL, -bounds[[2 * quarter, 3 * quarter]] - _CELL
    columns, rows = (np.arange(a, b + _CELL, _CELL) for a, b in zip(low, high, strict=True))
    dark = np.zeros((_BULBS, len(rows), len(columns)), bool)
    for edge in edges:
        reach = edge.max(axis=0)
        x = slice(*np.searchsorted(columns, (-reach[2 * quarter], reach[0])))
        y = slice(*np.searchsorted(rows, (-reach[3 * quarter], reach[quarter])))
        inside = np.ones((_BULBS, y.stop - y.start, x.stop - x.start), bool)
        for (wx, wy), far in zip(_WAYS, edge.T, strict=True):
            inside &= wx * columns[x] + wy * rows[y, None] <= far[:, None, None]
        dark[:, y, x] |= inside
    return _between(dark.mean(axis=0), (points - low) / _CELL)


def _edges(spheres: np.ndarray, bulbs: np.ndarray) -> np.ndarray:
    """The reach of a hull's shadow in each direction, from each point of the lamp, (L, K)."""
    top = bulbs[:, None, 2]
    stretch = top / (top - spheres[:, 2])  # (L, P)
    centres = bulbs[:, None, :2] + (spheres[:, :2] - bulbs[:, None, :2]) * stretch[..., None]
    wide = stretch * spheres[:, 3]
    # one direction after the other: a mesh has many points
    return np.stack([(centres @ way + wide).max(axis=1) for way in _WAYS], axis=1)


def _between(cells: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Linear interpolation of a map (h, w) at points (..., 2) as column, row; zero outside."""
    out = np.zeros(points.shape[:-1], np.float32)
    limit = np.array(cells.shape[::-1]) - 1
    on = ((points >= 0) & (points < limit)).all(axis=-1)
    (column, row), (u, v) = points[on].astype(int).T, (points[on] % 1).T
    upper = cells[row, column] * (1 - u) + cells[row, column + 1] * u
    lower = cells[row + 1, column] * (1 - u) + cells[row + 1, column + 1] * u
    out[on] = upper * (1 - v) + lower * v
    return out
