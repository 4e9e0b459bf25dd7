"""The physics of the arm worlds: contacts with a wanted restitution, flights of a ball, commands that an arm can follow.

MuJoCo's direct contact parameters (-stiffness, -damping) make the gap x between two bodies obey x'' = -stiffness x - damping
x' whatever their masses, so the relative speed after a touch is e times the one before, also when a ball meets a moving arm.
The contact pushes but never pulls: it ends where the force vanishes, before the spring is back at rest, which the textbook
formula damping = -2 ln(e) sqrt(stiffness) / sqrt(pi^2 + ln(e)^2) overlooks (for 0.72 it gives 0.735).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sgjepa.envs.robots.kinematics import Arm, rotation_of, rotation_vector

STIFFNESS = 6e4  # 1/s^2: a touch lasts 13 ms, and 1 m/s sinks 4 mm in
TIMESTEP = 1 / 1024  # s; restitution is then right to half a percent (tests/envs/test_robots.py), 0.25 and less to 0.03
GRIP = 0.01  # s in which friction stops slip
DWELL = math.pi / math.sqrt(STIFFNESS)  # s on the floor
CLOSE = (0.002, math.radians(1.0))  # m, rad: a command whose pose the arm misses by more is shortened
_IMPEDANCE = 0.95
_HALVINGS = 7  # of the way to a pose that is too far: to within 1 part in 128
Heights = float | np.ndarray


# --- contacts ---------------------------------------------------------------------------------------------------------


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

    By default MuJoCo damps slip as weakly as the bounce, and friction does next to nothing. With a time constant of its own,
    a ball that may grip leaves a touch rolling: 5/7 of its speed along the surface is kept if it came without spin.
    """
    condim = 1 if slide == 0 else 3 if spin == roll == 0 else 6
    return {"condim": condim, "friction": [slide, slide, spin, roll, roll], "solreffriction": [GRIP, 1.0]}


# --- flight -----------------------------------------------------------------------------------------------------------


class Flight:
    """The vertical motion of a ball over a floor, in closed form.

    height, climb: at time 0, (N,) or scalars. gravity: downward positive. radius: height of a ball on the floor.
    """

    def __init__(self, height: Heights, climb: Heights, gravity: float, radius: float):
        self._h, self._v = np.asarray(height, float) - radius, np.asarray(climb, float) - gravity * TIMESTEP / 2
        self._g, self._radius = gravity, radius
        # speed at the floor, if it gets there
        square = self._v**2 + 2 * gravity * self._h
        self._hit = np.sqrt(np.maximum(square, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            if gravity > 0:
                first = (self._v + self._hit) / gravity
            elif gravity == 0:
                first = np.where(self._v < 0, self._h / -self._v, np.inf)
            else:
                first = np.where((self._v < 0) & (square >= 0), (self._v + self._hit) / gravity, np.inf)
        self.landing: np.ndarray = np.maximum(first, 0)  # s until the first bounce

    def at(self, seconds: Heights) -> tuple[np.ndarray, np.ndarray]:
        """Height and climb after some time."""
        t, g = np.asarray(seconds, float), self._g
        late = t > self.landing
        with np.errstate(invalid="ignore"):
            after = np.where(late, t - self.landing, 0.0)
            if g > 0:
                after = np.mod(after, np.maximum(2 * self._hit / g, 1e-9) + DWELL)
            after = np.maximum(after - DWELL, 0)
        height = np.where(late, self._hit * after - g * after**2 / 2, self._h + self._v * t - g * t**2 / 2)
        climb = np.where(late, self._hit - g * after, self._v - g * t)
        return height + self._radius, climb

    def peak(self, seconds: Heights) -> np.ndarray:
        """The highest point up to that time; never less than the truth."""
        if self._g > 0:
            return np.asarray(self._hit**2 / (2 * self._g) + self._radius)
        return np.maximum(self._h, self.at(seconds)[0] - self._radius) + self._radius

    def pick(self, i: int) -> Flight:
        """Flight i of N."""
        return Flight(float(self._h[i]) + self._radius, float(self._v[i]) + self._g * TIMESTEP / 2, self._g, self._radius)


# --- joint commands ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """The last command to the arm: pose of the tool at the end of the interval, and angles and speeds of the joints then."""

    position: np.ndarray  # (3,) m
    rotation: np.ndarray  # (3, 3)
    joints: np.ndarray  # (J,) rad
    speeds: np.ndarray  # (J,) rad/s


def reach(arm: Arm, data: Any, last: Command, position: np.ndarray, rotation: np.ndarray, seconds: float) -> Command:
    """The command that brings the tool to a pose in `seconds`, or as far on the way as the arm can go in that time.

    data: mujoco.MjData, with the present angles of the joints. last: the command before.
    """

    def command_to(position: np.ndarray, rotation: np.ndarray, near: np.ndarray) -> Command | None:
        solution = arm.solve(position, rotation, near)
        speeds = _arriving(solution.joints, data.qpos[arm.qpos], last.speeds, seconds)
        possible = solution.within(*CLOSE) and bool((np.abs(speeds) <= arm.fastest).all())
        return Command(position, rotation, solution.joints, speeds) if possible else None

    if whole := command_to(position, rotation, last.joints):
        return whole
    share, width = 0.0, 1.0
    stay = _arriving(last.joints, data.qpos[arm.qpos], last.speeds, seconds)
    best = Command(last.position, last.rotation, last.joints, stay)
    turn = rotation_vector(rotation @ last.rotation.T)
    for _ in range(_HALVINGS):
        width /= 2
        target = last.position + (share + width) * (position - last.position)
        turned = rotation_of((share + width) * turn) @ last.rotation
        if farther := command_to(target, turned, best.joints):
            share, best = share + width, farther
    return best


def _arriving(goal: np.ndarray, angles: np.ndarray, speeds: np.ndarray, seconds: float) -> np.ndarray:
    """The speeds with which joints arrive at `goal` at the end of the interval, the highest of the interval. (J,) each

    They start from the present angles and the speeds last commanded: in the first half of the interval the speed changes
    evenly to this one, so a lag or a push is corrected at once and nothing jerks.
    """
    early = seconds / 4  # half of the ramp
    return (goal - angles - speeds * early) / (seconds - early)
