"""The four planar bodies as polygons in (x, z) about their centre of mass. All are convex.

square       side 2                            right triangle   hypotenuse 2, right angle at the lower left
pentagon     regular, circumradius 1.1         house            the triangle's hypotenuse flush on the square's top
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shape:
    """A uniform convex polygon, counter-clockwise, its centre of mass at the origin."""

    name: str
    shape_id: int  # 1 and 4 are the reference's; it has no pentagon and no house
    size: float  # the paper's record: the square's half side, else the largest distance from centre to vertex
    symmetry: int
    vertices: tuple[tuple[float, float], ...]
    parts: tuple[tuple[int, ...], ...]  # convex pieces by vertex number, as the reference would build them

    @property
    def radius(self) -> float:
        """The largest distance from the centre of mass to a vertex."""
        return max(math.hypot(x, z) for x, z in self.vertices)

    @property
    def gyration(self) -> float:
        """Moment of inertia about the y axis for unit mass, I_yy / m."""
        area = inertia = 0.0
        for (x0, z0), (x1, z1) in zip(self.vertices, self.vertices[1:] + self.vertices[:1], strict=True):
            cross = x0 * z1 - x1 * z0
            area += cross / 2
            inertia += cross * (x0 * x0 + x0 * x1 + x1 * x1 + z0 * z0 + z0 * z1 + z1 * z1) / 12
        return inertia / area

    def turned(self, theta: float) -> np.ndarray:
        """Vertices (V, 2) after a turn by theta about +y, which is clockwise in the picture."""
        c, s = math.cos(theta), math.sin(theta)
        return np.asarray(self.vertices) @ np.array([[c, -s], [s, c]])


def _centred(points: list[tuple[float, float]], shift: float) -> tuple[tuple[float, float], ...]:
    return tuple((x, z - shift) for x, z in points)


_LEG = math.sqrt(2.0)
_HOUSE_CENTRE = 4.0 / 15.0  # above the square's centre: roof area 1 at height 4/3, square area 4 at height 0
_FIFTHS = [math.pi / 2 + 2 * math.pi * k / 5 for k in range(5)]

SQUARE = Shape("square", 1, 1.0, 4, ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)), ((0, 1, 2, 3),))
RIGHT_TRIANGLE = Shape(
    "right_triangle",
    4,
    math.sqrt(5) * _LEG / 3,
    1,
    ((-_LEG / 3, -_LEG / 3), (2 * _LEG / 3, -_LEG / 3), (-_LEG / 3, 2 * _LEG / 3)),
    ((0, 1, 2),),
)
PENTAGON = Shape("pentagon", 5, 1.1, 5, tuple((1.1 * math.cos(a), 1.1 * math.sin(a)) for a in _FIFTHS), ((0, 1, 2, 3, 4),))
HOUSE = Shape(
    "house",
    6,
    2.0 - _HOUSE_CENTRE,
    1,
    _centred([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (0.0, 2.0), (-1.0, 1.0)], _HOUSE_CENTRE),
    ((0, 1, 2, 4), (4, 2, 3)),
)
