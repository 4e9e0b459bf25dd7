"""How balls bounce in the arm worlds: a damped spring whose restitution is the one that was asked for.

MuJoCo's direct contact parameters (-stiffness, -damping) make the gap x between two bodies obey x'' = -stiffness x - damping
x' whatever their masses, so the relative speed after a touch is e times the one before, also when a ball meets a moving arm.
The contact pushes but never pulls: it ends where the force vanishes, before the spring is back at rest, which the textbook
formula damping = -2 ln(e) sqrt(stiffness) / sqrt(pi^2 + ln(e)^2) overlooks (asked for 0.72, it gives 0.735).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

STIFFNESS = 6e4  # 1/s^2: a touch lasts 13 ms, and 1 m/s sinks 4 mm in
TIMESTEP = 1 / 1024  # s; restitution is then right to half a percent (tests/test_robots.py), 0.25 and less to 0.03
GRIP = 0.01  # s in which friction stops slip
_IMPEDANCE = 0.95


def restitution(zeta: float) -> float:
    """Speed after over speed before, for a spring damped with the ratio zeta that cannot pull."""
    if abs(zeta - 1) < 1e-6:
        return math.exp(-2)
    root = math.sqrt(abs(1 - zeta * zeta))
    return math.exp(-2 * zeta / root * (math.atan2(root, zeta) if zeta < 1 else math.atanh(root / zeta)))


@cache
def damping(e: float, stiffness: float = STIFFNESS) -> float:
    """The damping that makes the restitution e: restitution falls steadily with it, so halving finds it."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if restitution(middle) > e else (low, middle)
    return 0.0 if e >= 1 else 2 * low * math.sqrt(stiffness)


def softness(e: float, stiffness: float = STIFFNESS) -> dict[str, Any]:
    """solref and solimp of a contact pair with restitution e."""
    return {"solref": [-stiffness, -damping(e, stiffness)], "solimp": [_IMPEDANCE, _IMPEDANCE, 0.001, 0.5, 2]}


def friction(slide: float, spin: float = 0.0, roll: float = 0.0) -> dict[str, Any]:
    """The five numbers of an explicit pair: two tangents that slide alike, one that spins, two that roll.

    Left to itself MuJoCo damps slip as weakly as the bounce, and friction does next to nothing. With a time of its own, a
    ball that may grip leaves a touch rolling: 5/7 of its speed along the surface is kept if it came without spin.
    """
    condim = 1 if slide == 0 else 3 if spin == roll == 0 else 6
    return {"condim": condim, "friction": [slide, slide, spin, roll, roll], "solreffriction": [GRIP, 1.0]}
