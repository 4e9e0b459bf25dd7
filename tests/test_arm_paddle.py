"""Facts of Arm Paddle Ball: momentum at the moving blade, tilt, the gates of success, the demonstrator that juggles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_arms import make, play

from sgjepa.envs import arm_paddle
from sgjepa.envs.arm_paddle import BOUNCE, MASS, TOUCH, leaning, onsets, qualified

pytestmark = pytest.mark.opengl
WORLD = "arm_paddle_ball"


@pytest.mark.parametrize("climb", [-0.4, 0.0, 0.6])
def test_the_ball_leaves_a_moving_blade_as_from_a_moving_wall(climb: float) -> None:
    """v' = (1 + e) v_blade - e v: the sign and size of the momentum exchange, with the blade rising, still or falling."""
    env = make(WORLD)
    fall, drop = 2.0, 0.10
    above = arm_paddle.START_HEIGHT + TOUCH + drop
    env.reset(seed=3, options={"law": {"gravity": 0.0}, "plan": "success"})
    x, y, _ = env.tool()[0]
    still = {"vx": 0.0, "vy": 0.0, "wx": 0.0, "wy": 0.0, "wz": 0.0}
    env.reset(seed=3, options={"law": {"gravity": 0.0}, "state": {"x": x, "y": y, "z": above, "vz": -fall, **still}})
    seen: list[tuple[float, float]] = []
    env._watch = lambda: seen.append((env.tool_velocity()[5], env.ball()[1][2]))  # type: ignore[method-assign]
    for _ in range(3):
        env.step(np.array([0, 0, climb, 0, 0], np.float32))
    blade, ball = np.array(seen).T
    first = int(np.flatnonzero(ball > -fall + 1e-6)[0])
    assert ball[-1] == pytest.approx((1 + BOUNCE) * blade[first - 1] + BOUNCE * fall, rel=0.05)
    impulse = MASS * (ball[-1] + fall)
    assert impulse > MASS * fall


def test_a_tilted_blade_sends_the_ball_where_it_leans() -> None:
    env = make(WORLD)
    for phi in (0.0, math.pi / 2, math.pi):
        env.reset(seed=3, options={"law": {"gravity": 0.0}})
        x, y, z = env.tool()[0]
        state = {"x": x, "y": y, "z": z + TOUCH + 0.25, "vx": 0.0, "vy": 0.0, "vz": -1.5}
        env.reset(seed=3, options={"law": {"gravity": 0.0}, "state": state})
        for _ in range(5):
            env.step(np.array([0, 0, 0, phi, 0.2], np.float32))
        vx, vy, vz = env.state()[3:6]
        assert vz > 0
        assert math.remainder(math.atan2(vy, vx) - phi, 2 * math.pi) == pytest.approx(0, abs=0.25)


def test_leaning_is_a_rotation_without_twist() -> None:
    for phi, theta in ((0.3, 0.4), (-2.0, 0.1), (1.0, 0.0)):
        rotation = leaning(phi, theta)
        assert rotation @ rotation.T == pytest.approx(np.eye(3), abs=1e-12)
        normal = [math.sin(theta) * math.cos(phi), math.sin(theta) * math.sin(phi), math.cos(theta)]
        assert rotation[:, 2] == pytest.approx(normal)
        assert rotation[1, 0] == pytest.approx(rotation[0, 1]), "no twist about the vertical"


def test_the_gates_of_success() -> None:
    touched = np.zeros(64, bool)
    touched[[5, 20, 30, 31, 40]] = True
    assert onsets(touched) == [5, 20, 30, 40]
    ball, paddle = np.full(64, 0.15), np.full(64, 0.10)
    assert not qualified(touched, ball, paddle), "too low"
    ball[25] = 0.30
    assert qualified(touched, ball, paddle)
    early = np.roll(touched, -15)
    assert not qualified(early[:20], ball[:20], paddle[:20]), "in the first second"
    ball[25], ball[10] = 0.15, 0.30
    assert not qualified(touched, ball, paddle), "that flight began too early"
    short = np.zeros(64, bool)
    short[[20, 24]] = True
    ball[22] = 0.30
    assert not qualified(short, ball, paddle), "too short"


def test_success_follows_from_the_recorded_states() -> None:
    """An independent reading of the record: walk through the frames, keep the last touch, judge each flight."""
    env = make(WORLD)
    for seed, plan in ((1, "success"), (0, "failure"), (2, "success")):
        seen = play(env, seed, 9.8, plan)
        good, last, frames = False, None, len(seen)
        for t in range(1, frames):
            starts = seen[t]["contact"][0] > 0 and seen[t - 1]["contact"][0] == 0
            if not starts or (last is not None and t - last < 3):
                continue
            if last is not None and last > 16 and t - last >= 5:
                heights = [seen[k]["state"][2] for k in range(last, t + 1)]
                over = max(seen[k]["state"][2] - seen[k]["paddle"][2] for k in range(last, t + 1))
                top = last + int(np.argmax(heights))
                good |= last < top < t and max(heights) >= 0.28 and over >= 0.15
            last = t
        floor = any(frame["contact"][1] for frame in seen)
        assert env.success() == (good and not floor)
        assert (env.labels()["outcome"] == "floor") == floor


def test_the_demonstrator_mostly_juggles_and_drops_when_told() -> None:
    env = make(WORLD)
    won = 0
    for seed in range(5):
        play(env, seed, 9.8, "success")
        won += env.success()
    assert won >= 3
    play(env, 0, 9.8, "failure")
    assert env.labels()["outcome"] == "floor"


def test_nobody_can_succeed_without_gravity() -> None:
    """A ball that leaves the paddle at zero gravity does not come back."""
    env = make(WORLD)
    seen = play(env, 1, 0.0, "success")
    assert not env.success()
    assert len(onsets(np.array([frame["contact"][0] for frame in seen]) > 0)) <= 1
