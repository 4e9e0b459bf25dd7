"""The robots against their published figures; inverse kinematics against forward; servos that keep up with a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sgjepa.envs  # noqa: F401  # chooses the OpenGL backend before mujoco is imported
from sgjepa.core.errors import InputError
from sgjepa.envs.robots import MENAGERIE
from sgjepa.envs.robots.kinematics import Arm, rotation_vector
from sgjepa.envs.robots.panda import PANDA
from sgjepa.envs.robots.robot import Robot, add_robot
from sgjepa.envs.robots.z1 import Z1

mujoco = pytest.importorskip("mujoco")
BOTH = [Z1, PANDA]


def build(robot: Robot, **place: Any) -> Any:
    spec = mujoco.MjSpec()
    spec.option.timestep = 5e-4
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    add_robot(spec, robot, **place).add_site(name="tool")
    return spec.compile()


@pytest.mark.parametrize(
    ("robot", "body", "joints", "position", "quat"),
    [
        (
            Z1,
            "z1_link06",
            (0.717, 0.8, -2.762, -1.468, 0.842, 2.305),
            (-0.38457, -0.28656, 0.50514),
            (0.01496, -0.11851, -0.49351, 0.8615),
        ),
        (
            Z1,
            "z1_link06",
            (0.558, 2.164, -1.314, 1.321, 0.849, -2.777),
            (0.25569, 0.20313, 0.18295),
            (0.19061, -0.32658, -0.13809, 0.91539),
        ),
        (
            PANDA,
            "panda_flange",
            (0.794, -0.812, -2.66, -3.022, 1.815, 3.424, 0.618),
            (-0.04418, -0.03163, 0.07831),
            (0.31725, -0.93387, 0.13951, -0.08817),
        ),
        (
            PANDA,
            "panda_flange",
            (1.33, 0.154, 2.521, -0.623, -2.881, 3.215, -2.703),
            (-0.24039, -0.15326, 1.07694),
            (-0.31078, -0.27093, -0.07815, 0.90769),
        ),
        (Z1, "z1_link06", Z1.home, (0.0889, 0, 0.2910), (1, 0, 0, 0)),
        (PANDA, "panda_flange", PANDA.home, (0.5545, 0, 0.6245), None),
    ],
)
def test_forward_kinematics_is_menageries(
    robot: Robot, body: str, joints: tuple[float, ...], position: tuple[float, ...], quat: tuple[float, ...] | None
) -> None:
    model = build(robot)
    data = mujoco.MjData(model)
    data.qpos[:] = joints
    mujoco.mj_forward(model, data)
    assert data.body(body).xpos == pytest.approx(position, abs=1e-4)  # the issue asks for 1 mm
    if quat is not None:
        assert abs(data.body(body).xquat @ np.array(quat)) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("robot", "mass"), [(Z1, 4.418719), (PANDA, 16.691901)])
def test_masses_limits_and_servos_are_the_published_ones(robot: Robot, mass: float) -> None:
    model = build(robot)
    assert model.body_mass.sum() == pytest.approx(mass, abs=1e-6)
    assert model.nu == model.nv == len(robot.joints) == len(robot.home)
    for i, joint in enumerate(robot.joints):
        assert model.jnt_range[i] == pytest.approx(joint.range)
        assert model.actuator_gainprm[i, 0] == joint.kp
        assert model.actuator_biasprm[i, :3] == pytest.approx([0, -joint.kp, -joint.kv])
        assert model.actuator_forcerange[i] == pytest.approx([-joint.torque, joint.torque])
        assert joint.range[0] <= robot.home[i] <= joint.range[1]
    assert not model.geom_contype.any(), "links are for looks; only tools collide"


def test_the_panda_balances_gravity_with_the_published_torques() -> None:
    """Static torque of joint 2 at home, by hand from the table's masses and centres of mass."""
    model = build(PANDA)
    data = mujoco.MjData(model)
    data.qpos[:] = PANDA.home
    mujoco.mj_forward(model, data)
    axis_point, axis = data.xanchor[1], data.xaxis[1]
    lever = 0.0
    for name in [f"panda_link{i}" for i in range(2, 8)]:
        weight = np.array([0, 0, -9.81]) * model.body(name).mass[0]
        lever += axis @ np.cross(data.body(name).xipos - axis_point, weight)
    assert data.qfrc_bias[1] == pytest.approx(-lever, rel=1e-6)


@pytest.mark.parametrize("robot", BOTH)
def test_inverse_kinematics_inverts_forward_kinematics(robot: Robot) -> None:
    """From a posture nearby, as along a path; every pose here is reachable, because a posture made it."""
    arm = Arm(build(robot, pos=(0.3, -0.2, 0.1), quat=(0.8, 0, 0, 0.6)), robot, "tool")
    rng = np.random.default_rng(0)
    solved = 0
    for _ in range(50):
        joints = rng.uniform(0.9 * arm.low + 0.1 * arm.high, 0.1 * arm.low + 0.9 * arm.high)
        position, rotation = arm.pose(joints)
        found = arm.solve(position, rotation, joints + rng.uniform(-0.15, 0.15, len(joints)))
        here, axes = arm.pose(found.joints)
        assert np.linalg.norm(here - position) == pytest.approx(found.position_error, abs=1e-9)
        assert np.linalg.norm(rotation_vector(axes @ rotation.T)) == pytest.approx(found.angle_error, abs=1e-6)
        assert (arm.low <= found.joints).all()
        assert (found.joints <= arm.high).all()
        solved += found.within(1e-3, 1e-2)
    assert solved >= 48


@pytest.mark.parametrize("robot", BOTH)
def test_inverse_kinematics_says_how_far_off_an_impossible_pose_is(robot: Robot) -> None:
    arm = Arm(build(robot), robot, "tool")
    found = arm.search(np.array([3.0, 0, 0.5]), np.eye(3), tries=3)
    assert found.position_error > 1.5
    assert not found.within(0.005, 0.1)


@pytest.mark.parametrize("robot", BOTH)
@pytest.mark.parametrize("gravity", [-1.0, 9.8, 20.0])
def test_servos_keep_up_with_a_moving_command(robot: Robot, gravity: float) -> None:
    """A sine of 1 Hz in three joints: the tool stays within 3 mm, where the bare servo would lag by 0.1 s, centimetres."""
    model = build(robot)
    model.opt.gravity[2] = -gravity
    arm, data = Arm(model, robot, "tool"), mujoco.MjData(model)
    data.qpos[:] = arm.home
    size = np.zeros(len(arm.home))
    size[[0, 2, 4]] = -0.15
    mujoco.mj_forward(model, data)
    worst = bare = 0.0
    for step in range(2000):
        t = step * model.opt.timestep
        # starts and ends at rest
        joints = arm.home + size * (1 - np.cos(2 * np.pi * t)) / 2
        speeds = size * np.pi * np.sin(2 * np.pi * t)
        arm.follow(data, joints, speeds)
        mujoco.mj_step(model, data)
        tool, _ = arm.pose(data.qpos[arm.qpos])
        worst = max(worst, float(np.linalg.norm(tool - arm.pose(joints)[0])))
        bare = max(bare, float(np.linalg.norm(arm.pose(joints + 0.1 * speeds)[0] - arm.pose(joints)[0])))
    assert worst < 0.003
    assert bare > 0.02


# --- Menagerie's meshes, for looks only ----------------------------------------------------------------------------


@pytest.fixture
def menagerie(tmp_path: Path) -> Path:
    """A folder with Menagerie's layout: two links of the Z1, with a mesh each, one of them for collisions."""
    home = tmp_path / "unitree_z1"
    (home / "assets").mkdir(parents=True)
    (home / "assets" / "stone.obj").write_text("v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    (home / "z1.xml").write_text(
        """<mujoco><compiler meshdir="assets"/><asset><mesh name="stone" file="stone.obj"/></asset><worldbody>
        <body name="link00"><geom type="mesh" mesh="stone" group="2"/><geom type="mesh" mesh="stone" group="3"/>
        <body name="link01"><joint axis="0 0 1"/><geom type="mesh" mesh="stone" group="2"/></body></body></worldbody>
        </mujoco>"""
    )
    return tmp_path


def test_menagerie_changes_the_picture_and_nothing_else(menagerie: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = build(Z1)
    monkeypatch.setenv(MENAGERIE, str(menagerie))
    dressed = build(Z1)
    mesh = mujoco.mjtGeom.mjGEOM_MESH
    assert (plain.geom_type == mesh).sum() == 0
    assert (dressed.geom_type == mesh).sum() == 2
    for name in ("body_mass", "body_inertia", "body_ipos", "jnt_range", "body_pos"):
        assert np.array_equal(getattr(plain, name), getattr(dressed, name))


def test_a_folder_that_is_not_menagerie_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MENAGERIE, str(tmp_path))
    with pytest.raises(InputError, match=r"SGJEPA_MENAGERIE=.*z1\.xml cannot be read") as caught:
        build(Z1)
    assert "\n" not in str(caught.value)
