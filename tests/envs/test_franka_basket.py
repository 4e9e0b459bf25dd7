"""Facts of Franka Paddle-to-Basket: the stroke, its momentum, the plans and the labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from fixtures.arms import column, make, play, rest

from sgjepa.envs.arm_world import ArmWorld
from sgjepa.envs.franka_basket import PLANS
from sgjepa.envs.franka_basket_scene import FAILURES, facing

pytestmark = pytest.mark.opengl
WORLD = "franka_basket"


def test_plans_are_seventy_percent_successes_and_six_failures_at_five() -> None:
    assert len(PLANS) == 20
    assert PLANS.count("success") == 14
    assert all(PLANS.count(failure) == 1 for failure in FAILURES)


def reading(env: ArmWorld, seen: list[dict[str, Any]]) -> str:
    """What failed, from the frames alone: the first touch of the robot, then where the ball comes down past the rim."""
    blade, robot, rim = column(env, seen, "contact", "ball_blade", "ball_robot", "ball_rim").T > 0
    if not (blade | robot).any():
        return "no_paddle_contact"
    first = int((blade | robot).argmax())
    assert not (blade & robot)[first], "frames cannot tell which was first"
    if robot[first]:
        return "invalid_robot_contact"
    place = np.array([frame["state"][:3] for frame in seen])[first:]
    down = np.flatnonzero((place[:-1, 2] > 0.80) & (place[1:, 2] <= 0.80))
    x = y = math.nan
    if len(down):
        before, after = place[down[0]], place[down[0] + 1]
        x, y, _ = before + (before[2] - 0.80) / (before[2] - after[2]) * (after - before) - np.array([-0.59, 0, 0.80])
    if math.hypot(x, y) <= 0.17:
        return "none"
    if rim.any():
        return "rim_hit"
    if not len(down) or x > 0.17:
        return "undershoot"
    if x < -0.17:
        return "overshoot"
    return "left_right_miss" if abs(y) > 0.17 else "other"


@pytest.mark.parametrize("gravity", [2.0, 9.8])
def test_a_planned_success_is_one_and_the_record_agrees(gravity: float) -> None:
    env = make(WORLD)
    seen = play(env, 0, gravity, "success")
    assert env.success()
    assert reading(env, seen) == env.labels()["failure"] == "none"
    assert max(frame["tracking"][0] for frame in seen) < 0.005
    assert max(frame["tracking"][1] for frame in seen) < math.radians(5)


@pytest.mark.parametrize("gravity", [2.0, 9.8])
def test_the_ball_leaves_the_blade_as_from_a_moving_wall(gravity: float) -> None:
    """v' = (1 + e) v_blade - e v along the normal, less what gravity takes in the 30 ms until the record is made."""
    env = make(WORLD)
    seen = play(env, 0, gravity, "success")

    def strike(name: str, *suffixes: str) -> np.ndarray:
        return column(env, seen, "strike", *(f"{name}_{suffix}" for suffix in suffixes))[-1]

    normal = strike("normal", "x", "y", "z")
    before, after, blade = (strike(name, "vx", "vy", "vz") @ normal for name in ("incoming", "outgoing", "paddle"))
    assert blade > 0.3
    assert after + 0.03 * gravity * normal[2] == pytest.approx(1.92 * blade - 0.92 * before, rel=0.06)


@pytest.mark.parametrize("plan", FAILURES)
def test_planned_failures_fail_in_the_planned_way_and_the_record_agrees(plan: str) -> None:
    env = make(WORLD)
    seen = play(env, 0, 9.8, plan)
    assert not env.success()
    assert env.labels() == {"plan": plan, "failure": plan}
    assert reading(env, seen) == plan
    assert max(frame["tracking"][0] for frame in seen) < 0.005
    assert max(frame["tracking"][1] for frame in seen) < math.radians(5)


@pytest.mark.parametrize("angle", [0.0, 0.9, 2.5, -1.6])
@pytest.mark.parametrize(("off", "entered"), [(0.162, True), (0.185, False)])
def test_a_struck_ball_has_entered_where_it_comes_down_within_17_cm_of_the_middle(
    angle: float, off: float, entered: bool
) -> None:
    env = make(WORLD)
    env.reset(seed=0)
    place, normal = env.tool()[0].copy(), env.tool()[1][:, 0].copy()
    ahead = dict(zip(("x", "y", "z", "vx", "vy", "vz"), [*(place + 0.12 * normal), *(-2 * normal)], strict=True))
    env.reset(seed=0, options={"law": {"gravity": 0.0}, "state": ahead})
    env.step(rest(env))
    assert env.records()["contact"][0] == 1
    # a rim this near pushes, so it starts just above the rim's height
    x, y = -0.59 + off * math.cos(angle), off * math.sin(angle)
    env.put({"x": x, "y": y, "z": 0.803, "vx": 0.0, "vy": 0.0, "vz": -2.0})
    env.step(rest(env))
    assert env.success() == entered


def test_the_basket_is_recorded_where_it_is() -> None:
    env = make(WORLD)
    env.reset(seed=0)
    names = [f"basket_{name}" for name in ("x", "y", "z", "radius", "depth", "tube")]
    assert column(env, [env.records()], "basket", *names)[0] == pytest.approx([-0.59, 0, 0.80, 0.245, 0.25, 0.018])
    rim = [i for i in range(env.model.ngeom) if env.model.geom(i).name.startswith("rim")]
    assert env.data.geom_xpos[rim].mean(axis=0) == pytest.approx([-0.59, 0, 0.80])
    assert env.model.geom_size[rim, 0] == pytest.approx(np.full(20, 0.018))


@pytest.mark.parametrize(("seed", "gravity"), [(3, 14.0), (0, 12.7), (5, 10.0)])
def test_the_arm_follows_the_longest_throws_too(seed: int, gravity: float) -> None:
    env = make(WORLD)
    seen = play(env, seed, gravity, "overshoot")
    assert env.labels()["failure"] == "overshoot"
    assert max(frame["tracking"][0] for frame in seen) < 0.005
    assert max(frame["tracking"][1] for frame in seen) < math.radians(5)


def test_a_ball_that_is_put_elsewhere_has_not_flown_there() -> None:
    env = make(WORLD)
    env.reset(seed=0, options={"law": {"gravity": 9.8}, "plan": "success"})
    env.events.struck = True
    still = {"x": -0.59, "y": 0.0, "vx": 0.0, "vy": 0.0, "vz": 0.0}
    env.put({**still, "z": 0.9})
    env.step(np.array([0, 0, 0, math.pi / 2, math.radians(25)], np.float32))
    env.put({**still, "z": 0.7})
    env.step(np.array([0, 0, 0, math.pi / 2, math.radians(25)], np.float32))
    assert not env.success(), "it did not come down through the rim"


@pytest.mark.parametrize("wait", [1, 5])
def test_the_expert_plans_from_the_present_state(wait: int) -> None:
    env = make(WORLD)
    env.reset(seed=0, options={"law": {"gravity": 9.8}, "plan": "success"})
    for t in range(63):
        env.step(np.array([0, 0, 0, *env.records()["tilt"]], np.float32) if t < wait else env.expert())
    assert env.success()


def test_an_arm_that_rests_does_not_succeed() -> None:
    env = make(WORLD)
    env.reset(seed=0, options={"law": {"gravity": 9.8}, "plan": "success"})
    for _ in range(63):
        env.step(rest(env))
        assert env.tool()[0] == pytest.approx([0.6, 0, 0.5], abs=0.02), "it rests"
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
        assert env.state()[0] - 0.075 > -0.59 + 0.245
