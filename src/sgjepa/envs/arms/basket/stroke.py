"""The shape of a stroke: where the blade is and looks while it waits, draws back, swings through the ball and slows down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SLOWING = 0.25  # s after the strike


@dataclass(frozen=True)
class Style:
    """How to swing. The arm turns its blade as it swings it, which is less work for its wrist."""

    late: float  # s after the ball's top, on Earth; a falling ball asks for a slower blade
    turn: tuple[float, float, float] = (0.0, 1.0, -1.0)  # rad/m
    swing: float = 0.25  # m of way before the strike

    @staticmethod
    def draw(rng: np.random.Generator) -> Style:
        """Any style that may do."""
        return Style(rng.uniform(0.12, 0.22), (0.0, rng.uniform(1.2, 1.8), rng.uniform(-1.5, -1.0)), rng.uniform(0.24, 0.34))


@dataclass(frozen=True)
class Swing:
    """Wait, draw back, swing along the normal, slow down."""

    touch: np.ndarray  # m; where the blade's middle is when it strikes
    normal: np.ndarray
    pace: float  # m/s, at the strike
    hit: float  # s
    style: Style
    start: tuple[np.ndarray, np.ndarray]  # where the blade waits and looks

    def pose(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Where the blade is and looks at a time."""
        pace, hit = self.pace, self.hit
        swing = min(2 * self.style.swing / pace, 0.55 * hit)  # s
        t -= hit
        if t < -swing:  # from rest to the point where the swing begins, in good time
            share = smooth((t + hit - 0.1) / max(hit - swing - 0.1, 1e-3))
            (place, look), (back, turned) = self.start, self._along(-pace * swing / 2)
            look = look + share * (turned - look)
            return place + share * (back - place), look / np.linalg.norm(look)
        if t <= 0:
            return self._along(pace * ((t + swing) ** 2 / (2 * swing) - swing / 2))
        s = min(t, SLOWING)
        return self._along(pace * (s - s * s / (2 * SLOWING)))

    def _along(self, far: float) -> tuple[np.ndarray, np.ndarray]:
        """`far` metres before (negative) or behind the strike."""
        look = self.normal + far * np.cross(self.style.turn, self.normal)
        return self.touch + self.normal * far, look / np.linalg.norm(look)


def smooth(share: float) -> float:
    """From 0 to 1 without a jerk at either end, as the share runs from 0 to 1."""
    s = min(max(share, 0.0), 1.0)
    return s * s * (3 - 2 * s)
