"""The expert of Franka Paddle-to-Basket: plans one stroke by simulating several, and plays the best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sgjepa.envs.franka_basket_scene import BASKET, BLADE, FASTEST, LEAVING, RADIUS, STEP, SURFACES, facing, tilt_of

if TYPE_CHECKING:
    from sgjepa.envs.franka_basket import FrankaPaddleToBasket


NEAR = 0.15  # m, x; a ball that has its top here or nearer to the arm is struck after it
FLIGHT = 0.42  # s on Earth from strike to rim
SLOWING = 0.25  # s after the strike
BOUNCE = SURFACES["blade"][0]
LOSS = np.array([1.09, 1.0, 0.98])  # friction and a blade that gives way take some of the speed towards the basket
TRIES = 8
STRAY = 0.004  # m; a blade farther from its way cannot follow it
DRAWS = 12  # other strokes that are compared when the arm cannot follow one
BEHIND = (0.15, 0.20, 0.25, 0.30)  # m; how far behind the blade a ball may come down on the handle or the hand
Way = tuple[np.ndarray, np.ndarray]  # by frame: positions (T, 3) and normals (T, 3) of the blade
AIMS = {"success": (0.0, 0.0), "undershoot": (0.42, 0.0), "overshoot": (-0.42, 0.0), "rim_hit": (0.23, 0.0)}


class BasketExpert:
    """One stroke for one plan, planned at the first call of `act`. All times are seconds from then."""

    def __init__(self, rng: np.random.Generator, plan: str):
        self._rng, self._plan, self._when = rng, plan, 0.0  # when the ball is at its top
        spread = rng.uniform(-0.03, 0.03, 2) if plan == "success" else np.zeros(2)
        self._goal = np.array([0.0, 0.40]) if plan == "left_right_miss" else np.array(AIMS.get(plan, (0.0, 0.0))) + spread
        self._style = Style(rng.uniform(0.09, 0.13) + 0.04 * (plan == "overshoot"))
        self._flight = FLIGHT * (1.06 if plan == "overshoot" else 1.0)  # steeper, to clear the far rim
        self._way: Way | None = None
        self._summary = np.zeros(9)

    def summary(self) -> np.ndarray:
        """Predicted intercept, wanted velocity after the strike, aim: (9,)."""
        return self._summary

    def act(self, env: FrankaPaddleToBasket) -> np.ndarray:
        """The control of the present frame."""
        if self._way is None:
            self._way = self._plan_from(env)
        positions, normals = self._way
        t = min(env.t + 1, len(positions) - 1)
        return _control(positions[t], normals[t], env.command.position)

    def forget(self) -> None:
        """Plan again, after the ball was moved."""
        self._way = None

    def _plan_from(self, env: FrankaPaddleToBasket) -> Way:
        top = _top(env)
        if top is None:  # no ball comes down in front of the arm in the time that is left: hold still
            still = env.command.position, env.command.rotation[:, 0]
            return _frames(env, lambda t: still)
        self._when = top
        return self._under_handle(env) if self._plan == "invalid_robot_contact" else self._search(env)

    def _search(self, env: FrankaPaddleToBasket) -> Way:
        wanted = "none" if self._plan == "success" else self._plan
        best: tuple[float, Way, np.ndarray] | None = None
        style, boost, flight = self._style, np.zeros(3), self._flight * _slowness(env)
        hopeless = self._hit(env, style) <= self._when  # the ball cannot come down in the time that is left
        for attempt in range(1 if hopeless else TRIES):
            way = self._stroke(env, style, boost)
            result = _play(env, way)
            error = self._goal - result.crossing if result.crossing is not None else np.ones(2)
            miss = float(np.linalg.norm(error)) if self._plan == "success" else 0.0
            score = miss + result.fault(wanted)
            if best is None or score < best[0]:
                best = score, way, self._summary
            if score < 0.08:
                break
            if result.strayed > STRAY:
                style, boost = self._easier(env), np.zeros(3)
            elif result.outcome == "rim_hit" and self._plan != "success":  # it should miss the rim: farther out
                boost[:2] += 0.15 * self._goal / flight
            elif result.crossing is not None and attempt > 0 and result.outcome != "rim_hit":  # the rim turns a ball away
                boost[:2] += 0.8 * error / flight
            elif result.outgoing is not None:
                boost += 0.8 * (self._summary[3:6] - result.outgoing)
        assert best is not None
        self._summary = best[2]
        return best[1]

    def _easier(self, env: FrankaPaddleToBasket) -> Style:
        """The style with the lowest effort of the joints among several random ones."""
        best, lowest = self._style, math.inf
        for style in [Style.draw(self._rng) for _ in range(DRAWS)]:
            effort = _effort(env, self._stroke(env, style, np.zeros(3)), self._hit(env, style), lowest)
            if effort < lowest:
                best, lowest = style, effort
        return best

    def _hit(self, env: FrankaPaddleToBasket, style: Style) -> float:
        """The time of the strike: after the ball's top, early enough for the ball to come down within the episode."""
        left = (env.env_spec.frames - 1 - env.t) / env.env_spec.fps - 1.25 * self._flight * _slowness(env)
        return max(min(self._when + style.late * _slowness(env), left), self._when)

    def _stroke(self, env: FrankaPaddleToBasket, style: Style, boost: np.ndarray) -> Way:
        """Poses by frame of a stroke that meets the ball. boost: added to the wanted velocity, to make up for losses"""
        g, hit = env.law["gravity"], self._hit(env, style)
        position, speed = _watch_ball(env, hit)
        target = BASKET + np.array([*self._goal, 0.0])
        flight = self._flight * _slowness(env) * math.sqrt(max(position[0] - target[0], 0.1))  # shorter throws, flatter
        out = (target - position + np.array([0, 0, g * flight**2 / 2])) / flight
        self._summary = np.concatenate([position, out, target])
        out = out * LOSS + boost
        normal = out - speed
        normal[0] = min(normal[0], -0.3 * np.linalg.norm(normal))
        normal /= np.linalg.norm(normal)
        pace = max((out @ normal + BOUNCE * speed @ normal) / (1 + BOUNCE), 0.05)
        touch = position - normal * (BLADE[0] + RADIUS)
        if self._plan == "no_paddle_contact":
            touch, pace = touch + np.array([0.0, 0.27, 0.0]), 0.7 * pace
        swing = Swing(touch, normal, pace, hit, style, (env.command.position, env.command.rotation[:, 0]))
        return _frames(env, swing.pose)

    def _under_handle(self, env: FrankaPaddleToBasket) -> Way:
        """Hold the paddle level and low, so that the ball, past its top, comes down behind the blade."""
        best: tuple[float, Way, np.ndarray] | None = None
        for behind in BEHIND:
            way = self._level(env, behind)
            score = _play(env, way).fault(self._plan)
            if best is None or score < best[0]:
                best = score, way, self._summary
            if score == 0:
                break
        assert best is not None
        self._summary = best[2]
        return best[1]

    def _level(self, env: FrankaPaddleToBasket, behind: float) -> Way:
        g, low, slow = env.law["gravity"], 0.26, _slowness(env)
        position, speed = _watch_ball(env, self._when)
        fall = math.sqrt(max(2 * (position[2] - low - BLADE[0] - RADIUS) / max(g, 0.05), 0.0))
        spot = np.array([position[0] + speed[0] * fall - behind, position[1], low])
        self._summary = np.concatenate([position, np.zeros(3), spot])
        start, before = env.command.position, env.command.rotation[:, 0]
        sideways, level = spot + np.array([0.0, 0.27, 0.0]), np.array([-1.0, 0.0, 0.0])

        def pose(t: float) -> tuple[np.ndarray, np.ndarray]:
            # next to the ball's path until its last flight, then under it while it is up
            aside = smooth((t - 0.05) / max(self._when - 0.3 * slow - 0.05, 0.7))
            under = smooth((t - self._when + 0.3 * slow) / (0.57 * slow))
            look = before + aside * (level - before)
            return start + aside * (sideways - start) + under * (spot - sideways), look / np.linalg.norm(look)

        return _frames(env, pose)


# --- the stroke -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Style:
    """The style of a swing. The arm turns its blade as it swings it, which is less work for its wrist."""

    late: float  # s after the ball's top, on Earth; a falling ball asks for a slower blade
    turn: tuple[float, float, float] = (0.0, 1.0, -1.0)  # rad/m
    swing: float = 0.25  # m of way before the strike

    @staticmethod
    def draw(rng: np.random.Generator) -> Style:
        """A random style."""
        return Style(rng.uniform(0.12, 0.22), (0.0, rng.uniform(1.2, 1.8), rng.uniform(-1.5, -1.0)), rng.uniform(0.24, 0.34))


@dataclass(frozen=True)
class Swing:
    """Wait, draw back, swing along the normal, slow down."""

    touch: np.ndarray  # m; where the blade's middle is when it strikes
    normal: np.ndarray
    pace: float  # m/s, at the strike
    hit: float  # s
    style: Style
    start: tuple[np.ndarray, np.ndarray]  # position and normal in which the blade waits

    def pose(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Position and normal of the blade at a time, (3,) each."""
        pace, hit = self.pace, self.hit
        swing = min(2 * self.style.swing / pace, 0.55 * hit)  # s
        t -= hit
        if t < -swing:  # from rest to the point where the swing begins, in good time
            share = smooth((t + hit - 0.1) / max(hit - swing - 0.1, 1e-3))
            (ready, look), (back, turned) = self.start, self._along(-pace * swing / 2)
            look = look + share * (turned - look)
            return ready + share * (back - ready), look / np.linalg.norm(look)
        if t <= 0:
            return self._along(pace * ((t + swing) ** 2 / (2 * swing) - swing / 2))
        s = min(t, SLOWING)
        return self._along(pace * (s - s * s / (2 * SLOWING)))

    def _along(self, far: float) -> tuple[np.ndarray, np.ndarray]:
        """`far` metres before (negative) or behind the strike."""
        look = self.normal + far * np.cross(self.style.turn, self.normal)
        return self.touch + self.normal * far, look / np.linalg.norm(look)


def smooth(share: float) -> float:
    """A smooth step from 0 to 1 without a jerk at either end, as the share runs from 0 to 1."""
    s = min(max(share, 0.0), 1.0)
    return s * s * (3 - 2 * s)


def _frames(env: FrankaPaddleToBasket, pose: Callable[[float], tuple[np.ndarray, np.ndarray]]) -> Way:
    poses = [pose((frame - env.t) / env.env_spec.fps) for frame in range(env.env_spec.frames)]
    return np.array([p for p, _ in poses]), np.array([n for _, n in poses])


def _control(position: np.ndarray, normal: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.array([*np.clip((position - target) / STEP, -FASTEST, FASTEST), *tilt_of(normal)], np.float32)


def _effort(env: FrankaPaddleToBasket, way: Way, hit: float, limit: float) -> float:
    """The highest speed of a joint, over the published one; far more if a pose is out of reach. It stops at `limit`."""
    joints, effort, last = env.command.joints, 0.0, env.t + math.ceil((hit + SLOWING) * env.env_spec.fps)
    for t in range(env.t + 1, min(last, env.env_spec.frames - 1) + 1):
        solution = env.arm.solve(way[0][t], facing(*tilt_of(way[1][t])), joints)
        speed = float((np.abs(solution.joints - joints) / env.arm.fastest).max()) * env.env_spec.fps
        effort = max(effort, speed, 1e3 * solution.cost)
        if effort >= limit:
            break
        joints = solution.joints
    return effort


def _slowness(env: FrankaPaddleToBasket) -> float:
    """The ratio of flight times to those on Earth."""
    return math.sqrt(9.8 / max(env.law["gravity"], 0.3))


# --- looking ahead ----------------------------------------------------------------------------------------------------


def _top(env: FrankaPaddleToBasket) -> float | None:
    """The time of the top of the first flight that comes near enough to the arm; None if none does."""
    run, before, left = env.free_run(), env.ball()[1][2], env.env_spec.frames - env.t
    for frame in range(left):
        position, speed = run(env.substeps)
        if before > 0 >= speed[2] and position[0] > NEAR:
            return (frame + before / (before - speed[2])) / env.env_spec.fps
        before = speed[2]
    return None


def _watch_ball(env: FrankaPaddleToBasket, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Position and velocity of the ball after some time, if the arm does not move."""
    return env.free_run()(max(round(seconds / env.model.opt.timestep), 1))


@dataclass(frozen=True)
class _Result:
    """The result of a simulated stroke."""

    outcome: str  # the label
    crossing: np.ndarray | None  # (2,) m, where the ball came down relative to the basket
    outgoing: np.ndarray | None  # (3,) m/s, as it left the blade
    strayed: float  # m; the farthest the blade was from its way

    def fault(self, wanted: str) -> float:
        """0 for the wanted outcome with a blade that could follow; a wrong outcome weighs most."""
        return 100.0 * (self.outcome != wanted) + 1000.0 * max(self.strayed - STRAY, 0.0)


def _play(env: FrankaPaddleToBasket, way: Way) -> _Result:
    """Simulate a stroke on a copy of the world."""
    strayed = 0.0
    with env.lookahead() as play:
        for t in range(env.t + 1, env.env_spec.frames):
            play(_control(way[0][t], way[1][t], env.command.position).astype(float))
            strayed = max(strayed, float(np.linalg.norm(env.tool()[0] - way[0][t])))
            if env.events.crossed and env.plan == "success":  # a ball that should miss may still come to the rim
                break
        events = env.events
    crossing = events.crossing - BASKET[:2] if events.crossed else None
    outgoing = events.outgoing + np.array([0, 0, LEAVING * env.law["gravity"]]) if events.struck else None
    return _Result(events.failure(), crossing, outgoing, strayed)
