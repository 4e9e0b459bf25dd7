"""The demonstrator of Franka Paddle-to-Basket: it plans one stroke with a copy of the world, then plays it.

1. Watch: the copy runs without the arm's help until the ball is a little past the top of the flight in which it is struck.
2. Aim: from there a throw to the rim's height at the aim takes about 0.42 s on Earth, longer where things fall slower. The
   face looks along the change of velocity that asks for, and the blade arrives with the speed of the moving-wall formula,
   (v_out + e v_in) / (1 + e) along the normal. A falling ball brings speed of its own, so that the blade needs less.
3. Swing: wait in the rest posture, which is the same for every plan, go to the point from which a quarter of a metre of
   even acceleration ends at the ball, strike, slow down. The blade turns on the way, as the arm turns that swings it.
4. Correct: play the stroke in the copy, see how the ball left and where it comes down through the rim's height, change the
   stroke by the error and try again, until the outcome is the planned one.

The six failures: aims short of the middle, beyond it, beside it (to the far wall), or on the rim; the blade 0.27 m beside
the ball, on the arm's side; and the blade swept low under the ball and past it, so that the ball comes down on the handle.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

import mujoco
import numpy as np

if TYPE_CHECKING:
    from sgjepa.envs.franka_basket import FrankaPaddleToBasket

FLIGHT = 0.42  # s on Earth from strike to rim
SWING, SLOWING = 0.25, 0.25  # m of way before the strike, s after it
TURN = np.array([0.0, 1.0, -1.0])  # rad/m; the arm turns its blade as it swings it, which is less work for its wrist
BOUNCE = 0.92
LOSS = np.array([1.09, 1.0, 0.98])  # friction and a blade that gives way take some of the speed towards the basket
TRIES = 4
_FIELDS = (
    *("_struck", "_spoiled", "_entered", "_crossed", "_rim", "_relaxed", "_crossing", "_strike", "_strike_time", "_before"),
    *("_leftmost", "_tilt", "_target", "_joints", "_speeds", "touched"),
)
AIMS = {"success": (0.0, 0.0), "undershoot": (0.42, 0.0), "overshoot": (-0.46, 0.0), "rim_hit": (0.23, 0.0)}


class Striker:
    """One stroke for one plan. `when`: seconds until the ball is at the top of its flight."""

    def __init__(self, rng: np.random.Generator, plan: str, when: float):
        self._plan, self._when = plan, when
        spread = rng.uniform(-0.03, 0.03, 2) if plan == "success" else np.zeros(2)
        self._goal = np.array([0.0, 0.40]) if plan == "left_right_miss" else np.array(AIMS.get(plan, (0.0, 0.0))) + spread
        # s after the top, on Earth: a falling ball asks for a slower blade, and a long throw for the slowest
        self._late = rng.uniform(0.09, 0.13) + 0.04 * (plan == "overshoot")
        self._flight = FLIGHT * (1.06 if plan == "overshoot" else 1.0)  # steeper, to clear the far rim
        self._way: tuple[np.ndarray, np.ndarray] | None = None
        self._summary = np.zeros(9)

    def summary(self) -> np.ndarray:
        """Predicted intercept, wanted velocity after the strike, aim: (9,)."""
        return self._summary

    def act(self, env: FrankaPaddleToBasket) -> np.ndarray:
        """The control of the present frame."""
        if self._way is None:
            self._way = self._search(env)
        places, normals = self._way
        t = min(env.t + 1, len(places) - 1)
        return _control(places[t], normals[t], env._target[0])

    def _search(self, env: FrankaPaddleToBasket) -> tuple[np.ndarray, np.ndarray]:
        hit = self._when + self._late * math.sqrt(9.8 / max(env.law["gravity"], 0.3))
        place, speed = _watch_ball(env, hit)
        if self._plan == "invalid_robot_contact":
            return self._under_handle(env)
        boost = np.zeros(3)
        best: tuple[float, tuple[np.ndarray, np.ndarray]] | None = None
        for attempt in range(TRIES):
            way = self._stroke(env, place, speed, hit, boost)
            if self._plan == "no_paddle_contact":
                return way
            outcome, crossing, gone = _play(env, way)
            wanted = "none" if self._plan == "success" else self._plan
            out, flight = self._summary[3:6], self._flight * math.sqrt(9.8 / max(env.law["gravity"], 0.3))
            error = self._goal - crossing if crossing is not None else np.ones(2)
            miss = float(np.linalg.norm(error))
            score = miss + (0.0 if outcome == wanted else 10.0)
            if best is None or score < best[0]:
                best = score, way
            if outcome == wanted and (miss < 0.08 or self._plan != "success"):
                break
            if outcome == "rim_hit" and self._plan != "success":  # meant to miss it altogether: farther out
                boost[:2] += 0.15 * self._goal / flight
            elif crossing is not None and attempt > 0 and outcome != "rim_hit":  # the rim turns a ball away from its course
                boost[:2] += 0.8 * error / flight
            elif gone is not None:
                boost += 0.8 * (out - gone)
        assert best is not None
        return best[1]

    def _stroke(
        self, env: FrankaPaddleToBasket, place: np.ndarray, speed: np.ndarray, hit: float, boost: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Poses by frame of a stroke that meets the ball at `place`; a boost of the wanted velocity makes up for losses."""
        g = env.law["gravity"]
        target = np.array([-0.59 + self._goal[0], self._goal[1], 0.80])
        flight = self._flight * math.sqrt(9.8 / max(g, 0.3) * max(place[0] - target[0], 0.1))  # shorter throws, flatter
        out = (target - place + np.array([0, 0, g * flight**2 / 2])) / flight
        self._summary = np.concatenate([place, out, target])
        out = out * LOSS + boost
        normal = out - speed
        normal[0] = min(normal[0], -0.3 * np.linalg.norm(normal))
        normal /= np.linalg.norm(normal)
        pace = max((out @ normal + BOUNCE * speed @ normal) / (1 + BOUNCE), 0.05)
        touch = place - normal * (0.018 + 0.075)
        if self._plan == "no_paddle_contact":
            touch, pace = touch + np.array([0.0, 0.27, 0.0]), 0.7 * pace
        start = env._target[0], env._target[1][:, 0]
        return _frames(env, lambda t: _swing(t - hit, touch, normal, pace, start, hit))

    def _under_handle(self, env: FrankaPaddleToBasket) -> tuple[np.ndarray, np.ndarray]:
        """Hold the paddle level and low, so that the ball, past its top, comes down on the handle behind the blade."""
        g, low = env.law["gravity"], 0.26
        place, speed = _watch_ball(env, self._when)
        fall = math.sqrt(max(2 * (place[2] - low - 0.093) / max(g, 0.05), 0.0))
        spot = np.array([place[0] + speed[0] * fall - 0.15, place[1], low])
        self._summary = np.concatenate([place, np.zeros(3), spot])
        (start, axes), beside, level = env._target, spot + np.array([0.0, 0.27, 0.0]), np.array([-1.0, 0.0, 0.0])
        before = axes[:, 0]
        slow = math.sqrt(9.8 / max(g, 0.3))

        def pose(t: float) -> tuple[np.ndarray, np.ndarray]:
            # beside the ball's way until its last flight, then under it while it is up
            aside = _smooth((t - 0.05) / max(self._when - 0.3 * slow - 0.05, 0.4))
            under = _smooth((t - self._when + 0.3 * slow) / (0.57 * slow))
            look = before + aside * (level - before)
            return start + aside * (beside - start) + under * (spot - beside), look / np.linalg.norm(look)

        return _frames(env, pose)


def _swing(
    t: float, touch: np.ndarray, normal: np.ndarray, pace: float, start: tuple[np.ndarray, np.ndarray], hit: float
) -> tuple[np.ndarray, np.ndarray]:
    """Where the blade is and looks, t seconds after the strike."""
    swing = min(2 * SWING / pace, 0.55 * hit)  # s
    if t < -swing:  # from rest to the point where the swing begins, in good time
        share = _smooth((t + hit - 0.1) / (hit - swing - 0.1))
        (place, look), (back, turned) = start, _along(-pace * swing / 2, touch, normal)
        look = look + share * (turned - look)
        return place + share * (back - place), look / np.linalg.norm(look)
    if t <= 0:
        return _along(pace * ((t + swing) ** 2 / (2 * swing) - swing / 2), touch, normal)
    s = min(t, SLOWING)
    return _along(pace * (s - s * s / (2 * SLOWING)), touch, normal)


def _along(far: float, touch: np.ndarray, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The blade `far` metres before (negative) or behind the strike: it goes along its normal there and turns on the way."""
    look = normal + far * np.cross(TURN, normal)
    return touch + normal * far, look / np.linalg.norm(look)


def _smooth(share: float) -> float:
    s = min(max(share, 0.0), 1.0)
    return s * s * (3 - 2 * s)


def _frames(env: FrankaPaddleToBasket, pose: object) -> tuple[np.ndarray, np.ndarray]:
    count = env.world.frames
    poses = [pose(i / env.world.fps) for i in range(count)]  # type: ignore[operator]
    return np.array([p for p, _ in poses]), np.array([n for _, n in poses])


def _control(place: np.ndarray, normal: np.ndarray, target: np.ndarray) -> np.ndarray:
    step = np.clip((place - target) / 0.04, -4, 4)
    phi = math.atan2(normal[2], normal[1]) if math.hypot(normal[1], normal[2]) > 1e-9 else 0.0
    theta = math.acos(min(max(-normal[0], 0.0), 1.0))
    return np.array([*step, phi, theta], np.float32)


def _watch_ball(env: FrankaPaddleToBasket, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """The ball after some time if nobody touches it."""
    twin = copy.copy(env.data)
    mujoco.mj_step(env.model, twin, round(seconds / env.model.opt.timestep))
    return twin.qpos[env._ball][:3].copy(), twin.qvel[env._ball_v][:3].copy()


def _play(env: FrankaPaddleToBasket, way: tuple[np.ndarray, np.ndarray]) -> tuple[str, np.ndarray | None, np.ndarray | None]:
    """The outcome of a stroke, where the ball came down relative to the basket, and its velocity just after the strike.

    The world is as before afterwards.
    """
    kept = {name: copy.deepcopy(getattr(env, name)) for name in _FIELDS}
    data, env.data = env.data, copy.copy(env.data)
    for t in range(1, env.world.frames):
        env._advance(_control(way[0][t], way[1][t], env._target[0]).astype(float))
        if env._crossed and env.plan == "success":  # a ball that should miss may still come to the rim
            break
    outcome = env._failure()
    crossing = env._crossing - np.array([-0.59, 0.0]) if env._crossed else None
    gone = env._strike[9:12] + np.array([0, 0, 0.03 * env.law["gravity"]]) if env._struck else None
    env.data = data
    for name, value in kept.items():
        setattr(env, name, value)
    return outcome, crossing, gone
