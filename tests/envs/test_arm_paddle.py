"""Facts of Arm Paddle Ball: momentum at the moving blade, tilt, the gates of success, the expert that juggles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fixtures.arms import column, make, play

from sgjepa.envs.arm_paddle import flights, leaning, onsets

pytestmark = pytest.mark.opengl
WORLD = "arm_paddle_ball"
TOUCH = 0.04315  # m between the middles of blade and ball when they touch


@pytest.mark.parametrize("climb", [-0.4, 0.0, 0.6])
def test_the_ball_leaves_a_moving_blade_as_from_a_moving_wall(climb: float) -> None:
    """v' = (1 + e) v_blade - e v: the sign and size of the momentum exchange, with the blade rising, still or falling."""
    env = make(WORLD)
    fall, drop = 2.0, 0.10
    env.reset(seed=3, options={"law": {"gravity": 0.0}, "plan": "success"})
    x, y, z = env.tool()[0]
    still = {"vx": 0.0, "vy": 0.0, "wx": 0.0, "wy": 0.0, "wz": 0.0}
    env.reset(
        seed=3, options={"law": {"gravity": 0.0}, "state": {"x": x, "y": y, "z": z + TOUCH + drop, "vz": -fall, **still}}
    )
    seen: list[tuple[float, float]] = []
    env._after_substep = lambda: seen.append((env.tool_velocity()[5], env.ball()[1][2]))  # type: ignore[method-assign]
    for _ in range(3):
        env.step(np.array([0, 0, climb, 0, 0], np.float32))
    blade, ball = np.array(seen).T
    first = int(np.flatnonzero(ball > -fall + 1e-6)[0])
    assert ball[-1] == pytest.approx(1.92 * blade[first - 1] + 0.92 * fall, rel=0.05)


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


def flight(
    begin: int = 20, frames: int = 8, top: int = 4, apex: float = 0.30, paddle: float = 0.10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One flight from touch to touch, as frames see it: touched, heights of ball and paddle, (64,) each."""
    touched, ball = np.zeros(64, bool), np.full(64, paddle + TOUCH)
    touched[[begin, begin + frames]] = True
    ball[begin + top] = apex
    return touched, ball, np.full(64, paddle)


@pytest.mark.parametrize(
    ("enough", "too_little"),
    [
        ({"begin": 17}, {"begin": 16}),  # after the first second
        ({"frames": 5}, {"frames": 4, "top": 2}),
        ({"apex": 0.28}, {"apex": 0.279}),  # m over the floor
        ({"apex": 0.33, "paddle": 0.179}, {"apex": 0.33, "paddle": 0.181}),  # 0.15 m over the paddle
        ({"top": 1}, {"top": 0}),  # the highest point is between the touches
        ({"top": 7}, {"top": 8}),
    ],
)
def test_the_gates_of_success(enough: dict[str, float], too_little: dict[str, float]) -> None:
    assert flights(*flight(**enough))  # type: ignore[arg-type]
    assert not flights(*flight(**too_little))  # type: ignore[arg-type]


def test_a_touch_begins_once_and_not_again_within_three_frames() -> None:
    touched = np.zeros(64, bool)
    touched[[5, 20, 30, 31, 33, 40, 42]] = True
    assert onsets(touched) == [5, 20, 30, 33, 40]


def test_a_high_flight_counts_whichever_it_is() -> None:
    early, late = flight(begin=5), flight(begin=40)
    assert not flights(*early)
    touched, ball = early[0] | late[0], np.maximum(early[1], late[1])
    assert flights(touched, ball, early[2])


def test_success_follows_from_the_recorded_states() -> None:
    """An independent reading of the record: walk through the frames, keep the last touch, judge each flight."""
    env = make(WORLD)
    for seed, plan in ((1, "success"), (0, "failure"), (2, "success")):
        seen = play(env, seed, 9.8, plan)
        good, last, frames = False, None, len(seen)
        paddle, floor = column(env, seen, "contact", "ball_paddle", "ball_floor").T > 0
        for t in range(1, frames):
            if not paddle[t] or paddle[t - 1] or (last is not None and t - last < 3):
                continue
            if last is not None and last > 16 and t - last >= 5:
                heights = [seen[k]["state"][2] for k in range(last, t + 1)]
                over = max(seen[k]["state"][2] - seen[k]["paddle"][2] for k in range(last, t + 1))
                top = last + int(np.argmax(heights))
                good |= last < top < t and max(heights) >= 0.28 and over >= 0.15
            last = t
        assert env.success() == (good and not floor.any())
        assert (env.labels()["outcome"] == "floor") == floor.any()


def test_the_expert_mostly_juggles_and_drops_when_told() -> None:
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
    assert len(onsets(column(env, seen, "contact", "ball_paddle")[:, 0] > 0)) <= 1


def test_a_ball_that_is_put_up_has_not_flown_up() -> None:
    env = make(WORLD)
    env.reset(seed=3, options={"law": {"gravity": 9.8}})
    still = dict.fromkeys(("vx", "vy", "vz", "wx", "wy", "wz"), 0.0)
    for t in range(63):
        if t in (40, 56):  # first to dribble, then high up, to fall on the blade once more
            x, y, z = env.tool()[0]
            env.put({"x": x, "y": y, "z": z + (0.08 if t == 40 else 0.30), **still})
        env.step(np.zeros(5, np.float32))
    touched, ball, paddle = np.array(env.events.history).T
    assert flights(touched > 0, ball, paddle), "read without the marks it would count"
    assert not env.success()
