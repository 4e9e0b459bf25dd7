"""The scripted behaviour of OGBench's play data: pick the cube, carry it over, put it down, and so on.

A script goes through key poses, some 0.4 s from one to the next, with smooth noise; the hand follows it as it can. Plan
"play" picks new places all the time; plan "place" brings the cube to the goal, and from then on moves the hand alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.envs.conventional.cube.hand import ACTION, Hand
from sgjepa.envs.conventional.cube.scene import HALF
from sgjepa.envs.conventional.two_links import wrapped

SEGMENT = 0.4  # s from one key pose to the next, and a fifth more or less
CONTROL_DT = 0.05  # s
NOISE = 0.1  # of the largest action
ABOVE = (0.1, 0.2)  # m over the cube before and after it is held
HANDS = np.array([[0.25, -0.35, 0.20], [0.6, 0.35, 0.35]])  # m: where the hand starts and ends
CUBES = np.array([[0.3, -0.3], [0.55, 0.3]])  # m: where cubes and goals lie
_SMOOTH = np.array([0.1, 0.8, 0.1])  # a Gaussian of half a control step


@dataclass
class Script:
    """Where the hand should be at every control step from `start` on: (N, 5) as x, y, z, yaw, closed."""

    start: int
    poses: np.ndarray

    def at(self, step: int) -> np.ndarray:
        pose: np.ndarray = self.poses[step - self.start]
        return pose

    def covers(self, step: int) -> bool:
        return self.start <= step < self.start + len(self.poses)


@dataclass
class Player:
    """Follows scripts, one after the other. chance: what they are drawn from; goal: (3,), or None to play."""

    hand: Hand
    chance: int
    goal: np.ndarray | None
    _script: Script | None = None
    _last: int = -1

    def act(self, data: Any, cube: np.ndarray, yaw: float, step: int) -> np.ndarray:
        """The action, (5,), at a control step of the episode. cube: (3,) and its yaw"""
        if self._script is None or not self._script.covers(step) or step != self._last + 1:
            rng = np.random.default_rng((self.chance, step))
            self._script = Script(step, self._write(self.hand.pose(data), cube, yaw, rng))
        self._last = step
        off = self._script.at(step) - self.hand.pose(data)
        off[3] = wrapped(off[3])
        return off / ACTION

    def _write(self, hand: np.ndarray, cube: np.ndarray, yaw: float, rng: np.random.Generator) -> np.ndarray:
        """The poses of one placement, or of a walk of the hand once the goal is met."""
        if self.goal is not None and math.dist(cube, self.goal) < HALF:
            return _path([(0.0, *hand), (2.0, *rng.uniform(*HANDS), hand[3] + _angle(rng), 0.0)], rng)
        goal = np.array([*rng.uniform(*CUBES), HALF]) if self.goal is None else self.goal
        turn = _nearest_quarter(hand[3], yaw)
        turned = _nearest_quarter(turn, _angle(rng))
        up, over = np.eye(3)[2] * rng.uniform(*ABOVE, (2, 1))
        between = (cube[:2] + goal[:2]) / 2 + rng.uniform(-0.1, 0.1, 2)
        keys = [
            (0.0, *hand[:4], 0.0),
            (1.0, *(cube + up), turn, 0.0),
            (1.5, *cube, turn, 0.0),
            (1.0, *cube, turn, 1.0),
            (1.0, *(cube + up), turn, 1.0),
            (1.0, *between, hand[2] + rng.uniform(0, 0.2), (turn + turned) / 2, 1.0),
            (1.0, *(goal + over), turned, 1.0),
            (1.5, *goal, turned, 1.0),
            (1.0, *goal, turned, 0.0),
            (1.0, *(goal + over), turned, 0.0),
            (1.0, *rng.uniform(*HANDS), turned + _angle(rng), 0.0),
        ]
        return _path(keys, rng)


def _path(keys: list[tuple[float, ...]], rng: np.random.Generator) -> np.ndarray:
    """Key poses, each with the segments that lead to it, as a pose for every control step, with noise: (N, 5)."""
    rows = np.array(keys)
    times = np.cumsum(rows[:, 0]) * SEGMENT
    times[1:] += rng.uniform(-0.2, 0.2, len(rows) - 1) * SEGMENT
    steps = np.arange(0, times[-1], CONTROL_DT)
    path = np.column_stack([np.interp(steps, times, column) for column in rows[:, 1:].T])
    noise = rng.normal(0, NOISE, path.shape) * ACTION
    for i in range(path.shape[1]):
        path[:, i] += np.convolve(noise[:, i], _SMOOTH, mode="same")
    return path


def _angle(rng: np.random.Generator) -> float:
    return float(rng.uniform(-math.pi, math.pi))


def _nearest_quarter(near: float, yaw: float) -> float:
    """The yaw nearest to another at which a cube looks the same."""
    quarter = math.pi / 2
    return yaw + quarter * round((near - yaw) / quarter)
