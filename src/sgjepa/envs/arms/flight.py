"""A ball's height in closed form: free flight over a floor that gives back all speed, under any gravity.

The simulator's floor is a stiff spring, so a bounce takes half a period of it; its steps are semi-implicit, which is exact
flight with the velocity half a step later. Both are small, and both would add up to centimetres over six bounces.
"""

from __future__ import annotations

import math

import numpy as np

from sgjepa.envs.arms.bounce import STIFFNESS, TIMESTEP

DWELL = math.pi / math.sqrt(STIFFNESS)  # s on the floor
Heights = float | np.ndarray


class Flight:
    """Height and climb now, (N,) or scalars; gravity downward positive; `radius` is the height of a ball on the floor."""

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
        """One of N flights."""
        return Flight(float(self._h[i]) + self._radius, float(self._v[i]) + self._g * TIMESTEP / 2, self._g, self._radius)
