"""Cube: OGBench's UR5e brings a cube to a goal.

The scene is OGBench's files (cube_scene.py); a control holds five of its actions. The goal is not drawn: a policy knows it
from the `goal` record. The expert follows the scripts of OGBench's play data: pick the cube, carry it over, put it down,
through key poses some 0.4 s apart, with smooth noise. Plan "play" picks new targets all the time; plan "place" brings the
cube to the goal, and from then on moves the gripper only.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.envs import world3d
from sgjepa.envs.benchmarks import BLOCK, BenchmarkEnv, action_block, goal_record, reaching_measures
from sgjepa.envs.cube_scene import ACTION, ARM, FINGERS, FLOOR, HALF, HOME, SUBSTEPS, Gripper, build_model
from sgjepa.envs.headless import mujoco
from sgjepa.envs.render.shadows import Lamp
from sgjepa.envs.robots.kinematics import rotate, unit_quaternion, wrap_angle
from sgjepa.envs.spec import BENCHMARK_SIZES, DatasetDefaults, EnvSpec, Quantity

# the task
REACHED = 0.04  # m
WALLS = np.array([[0.223, -0.377], [0.627, 0.377]])  # m: inner faces of invisible walls around the cube
GRIPPERS = np.array([[0.25, -0.35, 0.20], [0.6, 0.35, 0.35]])  # m: the gripper's positions at start and end
CUBES = np.array([[0.3, -0.3], [0.55, 0.3]])  # m: positions of cubes and goals
_LOOSE = 0.1  # rad that joints, whose ends are soft, may be beyond their range
_CUBE = world3d.BALL[:13]  # position, velocity, orientation and spin
_JOINTS = (*ARM, *FINGERS)
# radius in m of the spheres that cast the shadows of bodies
_CASTERS = {
    "cube/object_0": 0.024,
    "ur5e/robotiq/base": 0.04,
    "ur5e/robotiq/right_pad": 0.012,
    "ur5e/robotiq/left_pad": 0.012,
}

# the expert's scripts
SEGMENT = 0.4  # s from one key pose to the next, and a fifth more or less
CONTROL_DT = 0.05  # s
NOISE = 0.1  # of the largest action
ABOVE = (0.1, 0.2)  # m over the cube before and after it is held
_SMOOTH = np.array([0.1, 0.8, 0.1])  # a Gaussian of half a control step


# --- the environment --------------------------------------------------------------------------------------------------


class Cube(BenchmarkEnv):
    """The world of this module. `plan` at reset: "place" or "play"."""

    arena, lamp = FLOOR, Lamp((0.3, 0.3, 2.0), 0.15, darkness=0.42)
    radius = math.sqrt(2) * HALF  # of a ring around the cube: a probe reads its position, not its orientation
    env_spec: ClassVar[EnvSpec] = EnvSpec(
        name="cube",
        gym_id="sgjepa/Cube-v0",
        state=(
            *_CUBE,
            *(Quantity(name, "rad") for name in _JOINTS),
            *(Quantity(f"{name}_rate", "rad/s") for name in _JOINTS),
        ),
        control=action_block(
            [*(Quantity(name, "0.05 m") for name in ("dx", "dy", "dz")), Quantity("dyaw", "0.3 rad"), Quantity("grip", "1")]
        ),
        control_limit=1.0,
        phys=(Quantity("gravity", "m/s^2"), Quantity("mass", "kg"), Quantity("half", "m")),
        nominal_law={},
        actions_per_frame=BLOCK,
        has_task=True,
        measures=reaching_measures("the cube came within 4 cm of the goal"),
        goal=("x", "y", "z"),
        probed=world3d.FLYING,
        defaults=DatasetDefaults({}, {}, BENCHMARK_SIZES),
        image_size=224,
        fps=4,
        records={
            "hand": (
                *(Quantity(name, "m") for name in ("hand_x", "hand_y", "hand_z")),
                Quantity("hand_yaw", "rad"),
                Quantity("closed", "1"),
            ),
            "goal": goal_record(("x", "y", "z")),
        },
        observed_records=("hand", "goal"),
        labels={"plan": ("place", "play"), "outcome": ("reached", "missed")},
        expert_plans=("place", "play", "play", "play"),
        success_plan="place",
        outcome_label="outcome",
    )

    def _build(self) -> None:
        self._use_model(_model())
        self._gripper = _gripper()

    def _apply_law(self, law: Mapping[str, float]) -> None:
        if law and self.model is _model():
            self._use_model(copy.copy(_model()))  # a law changes it; 64 environments without one share its 32 MB
        super()._apply_law(law)

    def _launch(self, rng: np.random.Generator) -> None:
        self._forget_episode()
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[: len(ARM)] = self._gripper.joints(rng.uniform(*GRIPPERS), rng.uniform(-math.pi, math.pi), HOME)
        yaw = rng.uniform(0, 2 * math.pi)
        self._cube[:] = *rng.uniform(*CUBES), HALF, math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)
        self._expert_seed = int(rng.integers(2**63))
        mujoco.mj_forward(self.model, self.data)

    def _draw_goal(self, rng: np.random.Generator) -> dict[str, float]:
        x, y = rng.uniform(*CUBES).tolist()
        return {"x": x, "y": y, "z": HALF}

    @property
    def _cube(self) -> np.ndarray:
        """Position and quaternion w x y z, (7,), to write to."""
        view: np.ndarray = self.data.qpos[len(_JOINTS) :]
        return view

    def _forget_episode(self) -> None:
        super()._forget_episode()
        self._expert: CubeExpert | None = None

    def _set_state(self, state: Mapping[str, float]) -> None:
        now = {**dict(zip((q.name for q in self.env_spec.state), self.state().tolist(), strict=True)), **state}
        x, y, z, vx, vy, vz, *turn, wx, wy, wz = (now[q.name] for q in _CUBE)
        deep = max(float(np.max([WALLS[0] - (x, y), (x, y) - WALLS[1]])), -z) + HALF
        if deep > HALF and state.keys() & {"x", "y", "z"}:  # the cube leans on walls with an edge
            raise InputError(f"state puts the cube {deep:.3g} m into a wall or the floor; move x, y or z")
        quat = unit_quaternion(turn)
        angles = np.array([now[name] for name in _JOINTS])
        low, high = self.model.jnt_range[: len(_JOINTS)].T
        for name, off in zip(_JOINTS, np.maximum(low - angles, angles - high), strict=True):
            if off > _LOOSE:
                raise InputError(f"state '{name}' is {off:.3g} rad beyond its joint's range")
        self._forget_episode()
        self.data.qpos[:] = *angles, x, y, z, *quat
        self.data.qvel[:] = *(now[f"{name}_rate"] for name in _JOINTS), vx, vy, vz, *rotate(quat, (wx, wy, wz), inverse=True)
        self.data.qacc_warmstart[:] = 0  # what follows depends on the state alone
        mujoco.mj_forward(self.model, self.data)

    def _control_step(self, data: Any, action: np.ndarray) -> None:
        self._gripper.command(data, action)
        mujoco.mj_step(self.model, data, SUBSTEPS)
        mujoco.mj_forward(self.model, data)  # mj_step leaves derived quantities one step behind the state

    def _expert_action(self, data: Any, step: int) -> np.ndarray:
        if self._expert is None:
            goal = np.array(list(self.goal.values())) if self.plan == "place" else None
            self._expert = CubeExpert(self._gripper, self._expert_seed, goal)
        x, y, z, w, i, j, k = data.qpos[len(_JOINTS) :]
        yaw = math.atan2(2 * (w * k + i * j), 1 - 2 * (j * j + k * k))
        return self._expert.act(data, np.array([x, y, z]), yaw, step)

    def _goal_distance(self, data: Any) -> float:
        return math.dist(data.qpos[len(_JOINTS) :][:3], self.goal.values())

    def _success_distance(self) -> float:
        return REACHED

    def _casters(self) -> np.ndarray:
        return np.column_stack([[self.data.body(name).xpos for name in _CASTERS], list(_CASTERS.values())])

    def state(self) -> np.ndarray:
        *joints, x, y, z, w, i, j, k = self.data.qpos
        rates, (vx, vy, vz), spin = np.split(self.data.qvel, [len(_JOINTS), len(_JOINTS) + 3])
        return np.array([x, y, z, vx, vy, vz, i, j, k, w, *rotate((w, i, j, k), spin), *joints, *rates])

    def records(self) -> dict[str, np.ndarray]:
        return {"hand": self._gripper.pose(self.data), **super().records()}

    def phys(self) -> np.ndarray:
        return np.array([-self.model.opt.gravity[2], self.model.body("cube/object_0").mass[0], HALF])


@cache
def _model() -> Any:
    """The compiled model, composed once per process, in two thirds of a second."""
    return build_model()


@cache
def _gripper() -> Gripper:
    return Gripper(_model())


# --- the expert -------------------------------------------------------------------------------------------------------


@dataclass
class Script:
    """The gripper's wanted pose at every control step from `start` on: (N, 5) as x, y, z, yaw, closed."""

    start: int
    poses: np.ndarray

    def at(self, step: int) -> np.ndarray:
        pose: np.ndarray = self.poses[step - self.start]
        return pose

    def covers(self, step: int) -> bool:
        return self.start <= step < self.start + len(self.poses)


@dataclass
class CubeExpert:
    """Follows scripts, one after the other. seed: of their random numbers. goal: (3,), or None to play."""

    gripper: Gripper
    seed: int
    goal: np.ndarray | None
    _script: Script | None = None
    _last: int = -1

    def act(self, data: Any, cube: np.ndarray, yaw: float, step: int) -> np.ndarray:
        """The action, (5,), at a control step of the episode. cube: (3,) and its yaw"""
        if self._script is None or not self._script.covers(step) or step != self._last + 1:
            rng = np.random.default_rng((self.seed, step))
            self._script = Script(step, self._write(self.gripper.pose(data), cube, yaw, rng))
        self._last = step
        off = self._script.at(step) - self.gripper.pose(data)
        off[3] = wrap_angle(off[3])
        return off / ACTION

    def _write(self, pose: np.ndarray, cube: np.ndarray, yaw: float, rng: np.random.Generator) -> np.ndarray:
        """The poses of one placement, or of a random walk of the gripper once the goal is reached."""
        if self.goal is not None and math.dist(cube, self.goal) < HALF:
            return _path([(0.0, *pose), (2.0, *rng.uniform(*GRIPPERS), pose[3] + _angle(rng), 0.0)], rng)
        goal = np.array([*rng.uniform(*CUBES), HALF]) if self.goal is None else self.goal
        turn = _nearest_quarter(pose[3], yaw)
        turned = _nearest_quarter(turn, _angle(rng))
        up, over = np.eye(3)[2] * rng.uniform(*ABOVE, (2, 1))
        between = (cube[:2] + goal[:2]) / 2 + rng.uniform(-0.1, 0.1, 2)
        keys = [
            (0.0, *pose[:4], 0.0),
            (1.0, *(cube + up), turn, 0.0),
            (1.5, *cube, turn, 0.0),
            (1.0, *cube, turn, 1.0),
            (1.0, *(cube + up), turn, 1.0),
            (1.0, *between, pose[2] + rng.uniform(0, 0.2), (turn + turned) / 2, 1.0),
            (1.0, *(goal + over), turned, 1.0),
            (1.5, *goal, turned, 1.0),
            (1.0, *goal, turned, 0.0),
            (1.0, *(goal + over), turned, 0.0),
            (1.0, *rng.uniform(*GRIPPERS), turned + _angle(rng), 0.0),
        ]
        return _path(keys, rng)


def _path(keys: list[tuple[float, ...]], rng: np.random.Generator) -> np.ndarray:
    """Interpolate key poses, each with the segments that lead to it, at every control step, with noise: (N, 5)."""
    rows = np.array(keys)
    times = np.cumsum(rows[:, 0]) * SEGMENT
    times[1:] += rng.uniform(-0.2, 0.2, len(rows) - 1) * SEGMENT
    steps = np.arange(0, times[-1], CONTROL_DT)
    path = np.column_stack([np.interp(steps, times, column) for column in rows[:, 1:].T])
    noise = rng.normal(0, NOISE, path.shape) * ACTION
    for i in range(path.shape[1]):
        path[:, i] += np.convolve(noise[:, i], _SMOOTH, mode="same")
    return path


def _angle(rng: np.random.Generator) -> float:
    return float(rng.uniform(-math.pi, math.pi))


def _nearest_quarter(near: float, yaw: float) -> float:
    """The yaw nearest to `near` at which a cube looks the same."""
    quarter = math.pi / 2
    return yaw + quarter * round((near - yaw) / quarter)
