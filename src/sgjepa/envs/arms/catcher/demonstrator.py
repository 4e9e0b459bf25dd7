"""The demonstrator of Arm Catcher Ball: it puts the box where the ball will be, early, and waits."""

from __future__ import annotations

import numpy as np

from sgjepa.envs.arms.catcher.scene import GRAB, RADIUS, START, STEP, WORKSPACE
from sgjepa.envs.arms.flight import Flight


class Hand:
    """From the ball's true state it knows, in closed form, where the ball will cross the box's opening.

    A careful hand goes there in even steps, to arrive 0.6 s early, with small noise and a slow tremor that dies away as the
    ball comes near. A careless one sees the ball 3 to 7 frames late and aims 18 cm to the left: it misses.
    """

    def __init__(self, rng: np.random.Generator, careful: bool):
        self._rng, self._careful = rng, careful
        self._noise = 0.0016 if careful else 0.0046667  # m
        self._bias = rng.uniform(-1, 1, 3) * (0.0033, 0.006, 0.0027) if careful else np.array([-0.18, 0.033333, -0.037333])
        self._delay = 0 if careful else int(rng.integers(3, 8))
        self._seen: list[tuple[np.ndarray, np.ndarray]] = []
        self._tremor, self._last = np.zeros(3), np.zeros(3)
        self._known = -1, np.zeros(3, np.float32)

    def forget(self) -> None:
        """The ball was put elsewhere: look again."""
        self._known = -1, self._known[1]
        self._seen.clear()

    def act(self, t: int, place: np.ndarray, speed: np.ndarray, target: np.ndarray, gravity: float) -> np.ndarray:
        """The control at frame t; asked twice, it answers the same."""
        if self._known[0] == t:
            return self._known[1]
        self._seen.append((place, speed))
        position, velocity = self._seen[max(len(self._seen) - 1 - self._delay, 0)]
        self._tremor = 0.933 * self._tremor + 0.36 * self._rng.normal(0, (0.0032, 0.0016, 0.0026667))
        noise = self._rng.normal(0, self._noise, 3) * (1, 0.5, 1)
        away = position[1] - target[1] - GRAB
        seconds = min(max(away / max(-velocity[1], 1e-6), 0.0), 4.5)
        x, z = position[0] + velocity[0] * seconds, Flight(position[2], velocity[2], gravity, RADIUS).at(seconds)[0]
        wanted = np.clip(np.array([x, START[1], z]) + self._bias + noise, *WORKSPACE)
        step = (wanted - target) / max(seconds * 16 - 10, 1.5)
        calm = min(max((seconds - 0.9) / 0.4, 0), 1)
        step = np.clip((step + self._tremor * calm) / STEP, -1, 1)
        step = np.clip(step, self._last - 0.35, self._last + 0.35)
        self._last = step
        self._known = t, step.astype(np.float32)
        return self._known[1]
