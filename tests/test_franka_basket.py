"""Facts of Franka Paddle-to-Basket: the stroke, its momentum, the plans and the labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_arms import make, play

from sgjepa.envs.basket_scene import BASKET, INSIDE, OPENING, RADIUS, facing
from sgjepa.envs.franka_basket import FAILURES, PLANS

pytestmark = pytest.mark.opengl
WORLD = "franka_basket"


def test_plans_are_seventy_percent_successes_and_six_failures_at_five() -> None:
    assert len(PLANS) == 20
    assert PLANS.count("success") == 14
    assert all(PLANS.count(failure) == 1 for failure in FAILURES)


@pytest.mark.parametrize("gravity", [2.0, 9.8])
def test_a_planned_success_is_one_and_the_record_agrees(gravity: float) -> None:
    env = make(WORLD)
    seen = play(env, 0, gravity, "success")
    assert env.success()
    # an independent reading: after the first frame with a blade contact, the ball comes down inside the rim
    struck = next(t for t, frame in enumerate(seen) if frame["contact"][0])
    state = np.array([frame["state"] for frame in seen])
    down = next(t for t in range(struck + 1, 64) if state[t - 1, 2] > BASKET[2] >= state[t, 2])
    share = (state[down - 1, 2] - BASKET[2]) / (state[down - 1, 2] - state[down, 2])
    place = state[down - 1, :2] + share * (state[down, :2] - state[down - 1, :2])
    assert math.hypot(*(place - BASKET[:2])) <= INSIDE
    assert max(frame["tracking"][0] for frame in seen) < 0.005
    assert max(frame["tracking"][1] for frame in seen) < math.radians(5)
    strike = seen[-1]["strike"]
    normal = strike[18:21]
    before, after, blade = strike[6:9] @ normal, strike[9:12] @ normal, strike[21:24] @ normal
    # the moving wall: the blade gives way a little, and gravity has acted for 30 ms
    assert after == pytest.approx(1.92 * blade - 0.92 * before, rel=0.2)
    assert blade > 0.3


@pytest.mark.parametrize("plan", FAILURES)
def test_planned_failures_fail_in_the_planned_way(plan: str) -> None:
    env = make(WORLD)
    seen = play(env, 0, 9.8, plan)
    assert not env.success()
    assert env.labels() == {"plan": plan, "failure": plan}
    assert max(frame["tracking"][0] for frame in seen) < 0.005
    assert max(frame["tracking"][1] for frame in seen) < math.radians(5)


@pytest.mark.parametrize(("seed", "gravity"), [(3, 14.0), (0, 12.7), (5, 10.0)])
def test_the_arm_follows_the_longest_throws_too(seed: int, gravity: float) -> None:
    env = make(WORLD)
    seen = play(env, seed, gravity, "overshoot")
    assert env.labels()["failure"] == "overshoot"
    assert max(frame["tracking"][0] for frame in seen) < 0.005
    assert max(frame["tracking"][1] for frame in seen) < math.radians(5)


def test_an_arm_that_rests_does_not_succeed() -> None:
    env = make(WORLD)
    env.reset(seed=0, options={"law": {"gravity": 9.8}, "plan": "success"})
    for _ in range(63):
        env.step(np.zeros(5, np.float32))
    assert not env.success()


def test_facing_is_a_rotation_whose_x_axis_is_the_normal() -> None:
    for phi, theta in ((0.5, 0.3), (math.pi / 2, 0.7), (-1.0, 1.2)):
        rotation = facing(phi, theta)
        assert rotation @ rotation.T == pytest.approx(np.eye(3), abs=1e-12)
        assert np.linalg.det(rotation) == pytest.approx(1)
        assert rotation[0, 0] == pytest.approx(-math.cos(theta))


def test_the_ball_does_not_start_under_the_basket() -> None:
    env = make(WORLD)
    for seed in range(5):
        env.reset(seed=seed)
        assert env.state()[0] - RADIUS > BASKET[0] + OPENING
