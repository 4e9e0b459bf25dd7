"""Facts that hold in every world with an arm: the interface, the records, the tool that follows, bad input."""

from __future__ import annotations

import ast
import inspect
import math

import numpy as np
import pytest
from fixtures.arms import WORLDS, column, make, play, rest

from sgjepa.core.errors import InputError
from sgjepa.envs import ENVS, arm_physics, arm_world
from sgjepa.envs.arm_catcher import CatcherExpert
from sgjepa.envs.arm_paddle import PaddleExpert
from sgjepa.envs.franka_basket_expert import BasketExpert

mujoco = pytest.importorskip("mujoco")
pytestmark = pytest.mark.opengl


@pytest.mark.parametrize("world", ["arm_catcher_ball", "arm_paddle_ball"])
def test_a_posture_is_searched_for_once_and_belongs_to_nobody(world: str) -> None:
    arm_world._posture_cache.clear()
    first, second = make(world), make(world)
    found = first._rest.copy()  # type: ignore[attr-defined]
    first._rest += 1.0  # type: ignore[attr-defined]
    assert len(arm_world._posture_cache) == 1
    assert np.array_equal(second._rest, found)  # type: ignore[attr-defined]
    assert np.array_equal(make(world)._rest, found)  # type: ignore[attr-defined]


# --- the interface -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_no_command_asks_a_joint_for_more_than_its_published_speed(world: str) -> None:
    env, rng = make(world), np.random.default_rng(0)
    joints = len(env.robot.joints)

    def fastest(speeds: np.ndarray) -> float:
        return float((np.abs(speeds) / env.arm.fastest).max())

    env.reset(seed=0)
    for _ in range(63):  # from one end of the range to the other, which no expert does
        control = np.where(rng.uniform(size=env.action_space.shape) < 0.5, env.action_space.low, env.action_space.high)
        env.step(control.astype(np.float32))
        assert fastest(env.command.speeds) <= 1.02
        assert fastest(env.records()["arm"][joints : 2 * joints]) <= 1.2, "a joint that lagged catches up"
    for plan in dict.fromkeys(env.env_spec.expert_plans):
        seen = play(env, 3, env.env_spec.nominal_law["gravity"] * 1.4, plan)
        assert max(fastest(frame["arm"][joints : 2 * joints]) for frame in seen) <= 1.05, plan


@pytest.mark.parametrize("world", WORLDS)
def test_ball_and_arm_move_and_records_are_what_they_say(world: str) -> None:
    env = make(world)
    seen = play(env, 1, env.env_spec.nominal_law["gravity"])
    state = np.array([frame["state"] for frame in seen])
    assert np.ptp(state[:, :3], axis=0).max() > 0.2
    assert np.linalg.norm(state[:, 6:10], axis=1) == pytest.approx(np.ones(64))
    assert (state[:, 13:] == env.anchor).all()
    joints = len(env.robot.joints)
    arm = np.array([frame["arm"] for frame in seen])
    assert arm.shape == (64, 3 * joints)
    assert np.ptp(arm[:, :joints], axis=0).max() > 0.05
    assert np.abs(arm[:, joints : 2 * joints]).max() > 0.05, "speeds are real"
    for i, joint in enumerate(env.robot.joints):
        assert joint.range[0] - 0.01 <= arm[:, i].min() <= arm[:, i].max() <= joint.range[1] + 0.01


@pytest.mark.parametrize("world", WORLDS)
def test_frames_are_not_black_and_show_motion(world: str) -> None:
    env = make(world, image_size=64)
    first, _ = env.reset(seed=2)
    assert first.mean() > 60
    assert first.std() > 10
    for _ in range(20):
        last, *_ = env.step(env.expert())
    assert (np.abs(last.astype(int) - first).max(axis=-1) > 40).sum() > 20
    env.close()


@pytest.mark.parametrize("world", WORLDS)
def test_the_red_ball_is_drawn_where_the_state_says(world: str) -> None:
    env = make(world, image_size=128)
    forward = np.subtract(env.look.target, env.look.location)
    forward = forward / np.linalg.norm(forward)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    focal = 64 / np.tan(np.radians(env.look.fovy / 2))
    frame, info = env.reset(seed=3)
    rows, columns = np.mgrid[:128, :128] + 0.5
    for _ in range(6):
        ray = np.array([info["state"][name] for name in "xyz"]) - env.look.location
        place = focal * np.array([ray @ right, -(ray @ np.cross(right, forward))]) / (ray @ forward) + 64
        near = np.hypot(columns - place[0], rows - place[1]) < 12
        red = np.clip(frame[..., 0].astype(float) - 1.6 * frame[..., 1] - 30, 0, None) * near
        assert red.sum() > 0
        assert (red * columns).sum() / red.sum() == pytest.approx(place[0], abs=2.0)
        assert (red * rows).sum() / red.sum() == pytest.approx(place[1], abs=2.0)
        frame, *_, info = env.step(env.expert())
    env.close()


@pytest.mark.parametrize("world", WORLDS)
def test_no_plan_shows_in_the_first_frame(world: str) -> None:
    """One seed, all plans: the same picture, records and ball. Only the catcher's ball is thrown otherwise to be missed."""
    env = make(world, image_size=32)
    known = 3 if world == "arm_catcher_ball" else len(env.env_spec.state)
    for gravity in (0.0, 4.0, 9.8):
        frames, states, records = [], [], []
        for plan in dict.fromkeys(env.env_spec.expert_plans):
            frame, info = env.reset(seed=4, options={"law": {"gravity": gravity}, "plan": plan})
            frames.append(frame)
            states.append(env.state()[:known])
            records.append(np.concatenate([info["records"][name] for name in env.env_spec.records]))
        assert np.ptp(states, axis=0).max() == 0
        assert np.ptp(records, axis=0).max() == 0
        assert np.ptp(frames, axis=0).max() == 0
    env.close()


@pytest.mark.parametrize("world", WORLDS)
def test_the_start_posture_does_not_tell_gravity(world: str) -> None:
    env = make(world)
    arms = []
    for gravity in (2.0, 4.0, 9.8):  # below, the paddle's ball never starts at rest
        env.reset(seed=4, options={"law": {"gravity": gravity}})
        arms.append(env.records()["arm"])
    assert np.ptp(arms, axis=0).max() == 0


@pytest.mark.parametrize("world", WORLDS)
def test_gravity_changes_only_gravity(world: str) -> None:
    """A ball in flight gains g t and nothing sideways."""
    env = make(world)
    name = {"x": 0.0, "y": 0.3, "z": 0.9, "vx": 0.1, "vy": 0.05, "vz": 0.2}
    for gravity in (-1.0, 0.0, 4.0, 20.0):
        env.reset(seed=4, options={"law": {"gravity": gravity}, "state": name})
        for _ in range(3):
            env.step(rest(env))
        t = 3 / 16
        # the semi-implicit steps are exact flight with the velocity half a step late
        fall = gravity * t * (t + arm_physics.TIMESTEP) / 2
        expected = [0.1 * t, 0.3 + 0.05 * t, 0.9 + 0.2 * t - fall, 0.1, 0.05, 0.2 - gravity * t]
        assert env.state()[:6] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("world", WORLDS)
def test_recorded_velocities_are_those_with_which_positions_change(world: str) -> None:
    """Tool and joints, waved about. A speed changes evenly in the first half of a frame and is then kept."""
    env = make(world)
    away = {"x": 0.0, "y": 0.3, "z": 0.9, "vx": 0.0, "vy": 0.0, "vz": 0.0}
    env.reset(seed=0, options={"law": {"gravity": 0.0}, "state": away})
    seen = [env.records()]
    for t in range(20):
        control = rest(env)
        control[:3] += 0.4 * np.sin(0.6 * t + np.arange(3))
        env.step(control)
        seen.append(env.records())
    tool = "catcher" if "catcher" in env.env_spec.records else "paddle"
    joints = [joint.name for joint in env.robot.joints]
    for record, places, speeds in (
        (tool, [f"{tool}_{axis}" for axis in "xyz"], [f"{tool}_v{axis}" for axis in "xyz"]),
        ("arm", [f"angle_{joint}" for joint in joints], [f"speed_{joint}" for joint in joints]),
    ):
        place, speed = column(env, seen, record, *places), column(env, seen, record, *speeds)
        mean = np.diff(place, axis=0) * 16
        assert np.abs(mean).max() > 0.05
        assert np.abs(mean - speed[:-1] / 4 - speed[1:] * 3 / 4).max() < 0.05 * np.abs(mean).max(), record


@pytest.mark.parametrize("world", WORLDS)
def test_spin_is_recorded_in_the_worlds_axes(world: str) -> None:
    """A ball on its side, spun about the vertical: the record says so, keeps saying so, and the ball turns that way."""
    env = make(world)
    start = {"qx": 0.6, "qy": 0.0, "qz": 0.0, "qw": 0.8, "wx": 0.0, "wy": 0.0, "wz": 3.0}
    place = {"x": 0.0, "y": 0.3, "z": 0.9, "vx": 0.0, "vy": 0.0, "vz": 0.0}
    env.reset(seed=0, options={"law": {"gravity": 0.0}, "state": {**place, **start}})
    for t in range(5):
        qx, qy, qz, qw, *spin = env.state()[6:13]
        assert spin == pytest.approx([0, 0, 3], abs=1e-6)
        half = 3 * t / 16 / 2
        # the quaternion of a turn about z, times the one at the start
        turned = [0.6 * math.cos(half), 0.6 * math.sin(half), 0.8 * math.sin(half), 0.8 * math.cos(half)]
        assert [qx, qy, qz, qw] == pytest.approx(turned, abs=1e-3)
        env.step(rest(env))


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_imagined_leaves_no_trace(world: str) -> None:
    """A expert plays ahead, to the end and with events; the episode goes on as if it had not."""
    env, other = make(world), make(world)
    env.action_space.seed(0)
    for each in (env, other):
        each.reset(seed=2, options={"plan": env.env_spec.expert_plans[0]})
    for t in range(63):
        if t == 10:
            with env.lookahead() as play:
                for _ in range(53):
                    play(env.action_space.sample().astype(float))
            run = env.free_run()
            assert not np.array_equal(run(100)[0], run(100)[0]), "the copy goes on"
        if t > 10:
            control = env.expert()
            assert np.array_equal(control, other.expert())
        else:
            control = rest(env)
        env.step(control)
        other.step(control)
        assert np.array_equal(env.state(), other.state())
    assert env.labels() == other.labels()
    for name, values in env.records().items():
        assert np.array_equal(values, other.records()[name])


@pytest.mark.parametrize("expert", [CatcherExpert, PaddleExpert, BasketExpert])
def test_an_expert_asks_its_world_only_what_anybody_may(expert: type) -> None:
    private = [
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(expert)))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and getattr(node.value, "id", "") != "self"
    ]
    assert private == []


@pytest.mark.parametrize("world", WORLDS)
def test_contact_pairs_have_five_friction_numbers_and_the_tool_is_part_of_the_arm(world: str) -> None:
    model = make(world).model
    assert model.npair > 0
    friction = model.pair_friction
    assert np.array_equal(friction[:, 0], friction[:, 1]), "sliding is the same along both tangents"
    assert np.array_equal(friction[:, 3], friction[:, 4])
    assert model.nmocap == 0
    body, chain = model.site("tool").bodyid[0], []
    while body:
        chain.append(model.body(body).name)
        body = model.body_parentid[body]
    assert chain[-1] in ("z1_link00", "panda_link0")


# --- bounces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", [1.0, 0.92, 0.72, 0.5])
def test_restitution_is_the_one_asked_for(e: float) -> None:
    """A ball on a fixed floor at several speeds and phases of the time step."""
    soft = arm_physics.softness(e)
    spec = mujoco.MjSpec()
    spec.option.timestep, spec.option.gravity = arm_physics.TIMESTEP, [0, 0, 0]
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 1])
    ball = spec.worldbody.add_body(name="ball")
    ball.add_freejoint()
    ball.add_geom(name="ball", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.05, 0, 0], mass=0.7)
    spec.add_pair(geomname1="ball", geomname2="floor", condim=1, **soft)
    model = spec.compile()
    ratios = []
    for speed in (0.5, 1.0, 3.0):
        for phase in np.linspace(0, 1, 8, endpoint=False):
            data = mujoco.MjData(model)
            data.qpos[2], data.qvel[2] = 0.06 + phase * speed * arm_physics.TIMESTEP, -speed
            while data.qvel[2] < 0 or data.qpos[2] < 0.055:
                mujoco.mj_step(model, data)
            ratios.append(data.qvel[2] / speed)
    assert np.mean(ratios) == pytest.approx(e, abs=0.01)
    assert np.std(ratios) < 0.02


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_bad_input_is_one_clear_line_and_the_world_stays_usable(world: str) -> None:
    env = make(world)
    still = np.zeros(len(env.env_spec.control), np.float32)
    bad_resets = [
        ({"law": {"gravity": float("nan")}}, "finite number"),
        ({"law": {"gravity": float("inf")}}, "finite number"),
        ({"plan": "catch"}, "unknown plan 'catch'"),
        ({"gravity": 4.0}, "unknown reset option 'gravity'"),
        ({"state": {"theta": 1.0}}, "unknown state quantity"),
        ({"state": {"z": 0.0}}, "into the floor"),
        ({"state": {"qw": 3.0}}, "must have length 1"),
        ({"state": {"anchor_x": 7.0}}, "is fixed at"),
    ]
    for options, words in bad_resets:
        with pytest.raises(InputError, match=words) as caught:
            env.reset(seed=0, options=options)
        assert "\n" not in str(caught.value)
        with pytest.raises(InputError, match="call reset before step"):
            env.step(still)
    env.reset(seed=0)
    before = env.state()
    for control, words in [
        (np.zeros(len(still) + 1), "must have the shape"),
        (np.full(len(still), np.nan), "must be finite"),
        (np.full(len(still), 50.0), "must lie within"),
    ]:
        with pytest.raises(InputError, match=words):
            env.step(control)
    assert np.array_equal(env.state(), before)
    env.step(still)
    with pytest.raises(TypeError):
        ENVS[world](contact="elastic")  # type: ignore[call-arg, unused-ignore]
    with pytest.raises(InputError, match="image_size"):
        ENVS[world](image_size=2)


@pytest.mark.parametrize("world", WORLDS)
def test_any_control_keeps_the_arm_in_its_limits_and_finite(world: str) -> None:
    """Full commands in random directions for two seconds: targets stay reachable, nothing blows up."""
    env, rng = make(world), np.random.default_rng(0)
    env.reset(seed=0)
    limit = np.broadcast_to(env.env_spec.control_limit, len(env.env_spec.control))
    for step in range(32):
        if step % 8 == 0:
            control = (rng.choice([-1, 1], len(limit)) * limit).astype(np.float32)
        env.step(control)
        arm = env.records()["arm"]
        assert np.isfinite(arm).all()
        joints = arm[: len(env.robot.joints)]
        assert all(j.range[0] - 0.02 <= q <= j.range[1] + 0.02 for q, j in zip(joints, env.robot.joints, strict=True))
