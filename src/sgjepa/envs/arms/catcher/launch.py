"""How a ball is thrown at the catcher: in the picture all the way, to cross the box's opening where the plan asks."""

from __future__ import annotations

import math

import numpy as np

from sgjepa.envs.arms.catcher.scene import GRAB, LOOK, RADIUS, START
from sgjepa.envs.arms.flight import Flight

CROSSING = (
    (3.0, 3.6),
    (2.2, 3.0),
    (1.5, 2.2),
    (1.0, 1.5),
    (0.5, 1.0),
    (0.25, 0.5),
)  # s; the first range in which the scene allows a launch
NEAR_X, FAR_X = (0.11333, 0.30), ((-0.29333, -0.22667), (0.36, 0.42667))  # m; where a ball crosses: catch, miss
HEIGHT_CATCH, HEIGHT_MISS = (0.26, 0.40), (0.17333, 0.43067)  # m, there
SLOW = 2.2  # m^2/s^3; over gravity, how fast a ball that should be caught may climb or fall there
PEAK = 0.624  # m
DRAWS = 512  # velocities that are drawn at once
TRAVEL = 0.05333  # m; the arm must move at least this far


def throw(rng: np.random.Generator, gravity: float, catch: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where the ball starts, which does not depend on the plan, and how fast, which does.

    Both a ball to catch and one to miss can be thrown from there, and both are drawn, so that a seed gives the same start
    for either. Far outside the gravities of the paper no ball comes by like that: it is then thrown level, towards the box,
    and no plan can be kept.
    """
    for crossing in CROSSING:
        for _ in range(12):
            starts = rng.uniform((-0.21333, 1.01333, RADIUS + 0.11333), (0.56, 1.28, RADIUS + 0.36267), (DRAWS, 3))
            start = starts[_in_picture(starts).argmax()]
            caught, missed = (_velocity(rng, start, gravity, crossing, plan) for plan in (True, False))
            if caught is not None and missed is not None:
                return start, caught if catch else missed
    return start, (np.array([START[0], START[1] + GRAB, start[2]]) - start) / CROSSING[-1][1]


def _velocity(
    rng: np.random.Generator, start: np.ndarray, gravity: float, crossing: tuple[float, float], catch: bool
) -> np.ndarray | None:
    """A velocity with which the whole way is in the picture and crosses the opening's plane where and as the plan asks.

    Many are drawn at once and the first that will do is taken; the ball's height follows in closed form.
    """
    x, y, height = start
    low, high = HEIGHT_CATCH if catch else HEIGHT_MISS
    until, aim = rng.uniform(*crossing, DRAWS), rng.uniform(*(NEAR_X if catch else FAR_X[rng.integers(2)]), DRAWS)
    if gravity > 0:
        climb = rng.uniform(-1, 1, DRAWS) * math.sqrt(2 * gravity * (PEAK - height))
    else:  # straight at the height it should have
        climb = (rng.uniform(low, high, DRAWS) - height + gravity * until**2 / 2) / until
    flight = Flight(np.full(DRAWS, height), climb, gravity, RADIUS)
    z, vz = flight.at(until)
    good = (low <= z) & (z <= high) & (flight.peak(until) <= PEAK)
    if catch:
        # near the apex of its bounce, or a ball that climbs under the box would hit its rim from below
        good &= np.abs(vz) <= (0.65 if gravity < 0 else SLOW / max(gravity, 5.0))
        good &= np.hypot(aim - START[0], z - START[2]) >= TRAVEL
    if gravity <= 0:
        good &= flight.landing >= until
    plane = START[1] + GRAB
    for i in np.flatnonzero(good)[:20].tolist():
        velocity = np.array([(aim[i] - x) / until[i], (plane - y) / until[i], climb[i]])
        times = np.arange(0, until[i], 1 / 16)
        heights = flight.pick(i).at(times)[0]
        if _in_picture(np.stack([x + velocity[0] * times, y + velocity[1] * times, heights], axis=1)).all():
            return velocity
    return None


def _in_picture(points: np.ndarray) -> np.ndarray:
    """Whether a ball at each of these points, (N, 3), is seen whole: (N,)."""
    forward = np.subtract(LOOK.target, LOOK.location)
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    rays = points - LOOK.location
    depth = rays @ forward
    scale = depth * math.tan(math.radians(LOOK.fovy / 2))
    edge = RADIUS / scale + np.maximum(np.abs(rays @ right), np.abs(rays @ np.cross(right, forward))) / scale
    seen: np.ndarray = edge <= 0.92
    return seen
