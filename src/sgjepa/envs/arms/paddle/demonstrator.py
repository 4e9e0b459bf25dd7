"""The demonstrator of Arm Paddle Ball: it keeps the ball bouncing, or moves aside to let it drop."""

from __future__ import annotations

import math

import numpy as np

from sgjepa.envs.arms.paddle.scene import BOUNCE, CENTRE, RADIUS, STEEPEST, STEP, TOUCH, WORKSPACE


class Juggler:
    """It knows in closed form when, where and how fast the ball will be back at the paddle's height.

    Across: the blade goes under that place. Tilt: as much as sends the ball, friction and spin included, back to the middle
    with the bounce after. Up: it waits, and in the frame in which the ball arrives it rises with the speed that gives the
    wanted apex, since the ball leaves with e times its speed plus (1 + e) times the paddle's; between touches it returns.
    The apex is 0.35 m, less where a flight would outlast the episode, and more where it would be too short to count. Noise
    is added, and now and then a slip of one frame. To fail on purpose, it moves aside from some frame on, tipped.
    """

    def __init__(self, rng: np.random.Generator, resting: bool, drop: bool):
        self._rng = rng
        self._hold = 5 if resting else 0  # frames to keep still
        self._leave = int(rng.integers(5, 11)) + 12 * resting if drop else 1000
        self._aside = rng.choice([-1.0, 1.0])
        self._slips = set(rng.integers(9, 55, int(rng.integers(2, 4))).tolist()) if not drop else set()
        self._known = -1, np.zeros(5, np.float32)

    def forget(self) -> None:
        """The ball was put elsewhere: think again."""
        self._known = -1, self._known[1]

    def act(
        self, t: int, place: np.ndarray, speed: np.ndarray, spin: np.ndarray, target: np.ndarray, gravity: float
    ) -> np.ndarray:
        """The control at frame t; asked twice, it answers the same."""
        if self._known[0] != t:
            self._known = t, self._act(t, place, speed, spin, target, gravity).astype(np.float32)
        return self._known[1]

    def _act(
        self, t: int, place: np.ndarray, speed: np.ndarray, spin: np.ndarray, target: np.ndarray, gravity: float
    ) -> np.ndarray:
        noise = self._rng.normal(0, (0.05, 0.05, 0.03, 0.04, 0.01))
        slip = self._rng.uniform(0, 2 * math.pi), self._rng.uniform(-0.15, 0.15)
        if t < self._hold:
            return np.zeros(5)
        if t >= self._leave:
            step = np.array([self._aside * 0.9, -0.2, -0.3])
            # tipped away from where it goes, or a ball that it drags along may come to rest on it
            return np.array([*np.clip(step + noise[:3], -1, 1), 0.0 if self._aside < 0 else math.pi, 0.35])
        ready = 0.09
        frame = 1 / 16
        gap = place[2] - target[2] - TOUCH
        if gap < 0.001 and abs(speed[2]) > 0.25:  # in the middle of a touch: go on as before, with a still hand
            return self._known[1] * (0, 0, speed[2] < 0, 1, 1)
        seconds = _fall_time(gap, speed[2], gravity)
        away = min(seconds, 0.6)
        down = abs(speed[2] - gravity * min(seconds, 4.0))  # speed of arrival
        contact = target[2] + TOUCH
        apex = max(0.347 if gravity > 1.5 else 0.30, contact + gravity * 0.37**2 / 8)
        leave = math.sqrt(2 * max(gravity, 0.0) * max(apex - contact, 0.0))
        rise = min(max((leave - BOUNCE * down) / (1 + BOUNCE), -0.3), 0.33)
        pumping = down < 0.4 * leave  # a resting ball, or a low hop
        rise = max(rise, 0.5) if pumping else rise

        where = np.clip(place[:2] + speed[:2] * away, *WORKSPACE[:, :2])
        if pumping and target[2] > 0.12 and gap < 0.02:
            climb = -0.4 * STEP[2]  # too high to pump from: take the ball down first
        elif seconds <= 1.5 * frame:
            climb = min(rise, (WORKSPACE[1, 2] - target[2]) / frame) * frame
        else:
            climb = (ready - target[2]) / max(math.floor(seconds / frame), 1)
            climb = min(max(climb, -0.4 * STEP[2]), 0.3 * STEP[2])  # gently, and never up into a ball that is not due
        # after this touch the ball should land in the middle again; from a low hop, not at once
        flight = max(2 * leave / max(gravity, 0.5), 0.5)
        wish = (CENTRE - where) / flight
        wish *= min(1.0, 0.14 / max(float(np.linalg.norm(wish)), 1e-9))
        drag = 5 / 7 * speed[:2] + 2 / 7 * RADIUS * np.array([spin[1], -spin[0]])
        lean = (wish - drag) / max((5 / 7 + BOUNCE) * down + (1 + BOUNCE) * max(rise, 0), 0.5)
        phi, theta = math.atan2(lean[1], lean[0]), min(math.asin(min(float(np.linalg.norm(lean)), 0.4)), math.radians(20))
        theta *= min(max(down / max(leave, 1e-3) - 0.3, 0.0) / 0.3, 1.0)  # a low hop is left alone
        control = np.array([*(where - target[:2]) / STEP[:2], climb / STEP[2], phi, theta])
        last = self._known[1][:3]
        most, more = (0.7, 0.5) if pumping else (0.6, 0.4)  # of a step, and how much from one frame to the next
        control[:3] = np.clip(control[:3], np.maximum(last - more, -most), np.minimum(last + more, most))
        due = seconds <= 2 * frame  # steady when it matters: a blade that moves sideways drags the ball along
        control += noise * (0.3 if due else 1.0)
        if t in self._slips and not due:
            control[:3] += 0.3 * math.cos(slip[0]), 0.3 * math.sin(slip[0]), slip[1]
        control[3] = math.remainder(control[3], 2 * math.pi)
        control[4] = min(max(control[4], 0.0), STEEPEST)
        return np.clip(control, (-1, -1, -1, -math.pi, 0), (1, 1, 1, math.pi, STEEPEST))


def _fall_time(gap: float, climb: float, gravity: float) -> float:
    """Seconds until a ball that is `gap` above the paddle comes down to it; 10 if it never does."""
    if gap <= 0:
        return 0.0
    under = climb * climb + 2 * gravity * gap
    if gravity > 1e-9:
        return min((climb + math.sqrt(under)) / gravity, 10.0)
    return min(gap / -climb, 10.0) if climb < 0 else 10.0
