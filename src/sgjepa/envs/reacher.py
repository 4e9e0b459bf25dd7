"""Reacher: DeepMind Control's arm of two links in the plane brings its finger to a target.

The model is dm_control's file; a control holds five of its actions. Where a goal is drawn, the target is out of sight: a
policy knows it from the `goal` record. The recorded state has the finger and the joints; the joints decide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sgjepa.core.errors import InputError, unknown
from sgjepa.envs.benchmarks import BLOCK, BenchmarkEnv, action_block, goal_record, package_folder, reaching_measures
from sgjepa.envs.headless import mujoco
from sgjepa.envs.render.layered_renderer import BACKDROP
from sgjepa.envs.render.shadows import Floor, Lamp
from sgjepa.envs.robots.kinematics import wrap_angle
from sgjepa.envs.spec import BENCHMARK_SIZES, DatasetDefaults, EnvSpec, Probed, Quantity
from sgjepa.envs.world3d import HIDDEN

LINKS = np.array([0.12, 0.12])  # m
FINGER = 0.01  # m, its radius
TARGETS = {"hard": 0.015, "easy": 0.05}  # m: DMC's radii of the target, by task
GOALS = (0.05, 0.20)  # m from the middle, uniform, in any direction
TORQUE = 0.05  # N m, of a control of 1
STIFFNESS, DAMPING = 0.15, 0.02  # N m/rad, N m s/rad: of the expert on the way to its goal
HELD = 25  # control steps, the most that a torque of a sweep lasts
_SAME = 1e-4  # m: position and angles may differ by as much, both rounded to float32
_GIVES = 0.2  # rad: a swing takes the wrist so far into the soft limit of its range, at most
_ANGLES, _POSITION = ("shoulder", "wrist"), ("x", "y")
_RATES, _SPEED = ("shoulder_rate", "wrist_rate"), ("vx", "vy")


# --- the environment --------------------------------------------------------------------------------------------------


class Reacher(BenchmarkEnv):
    """The world of this module. `plan` at reset: "reach", "wander" or "sweep".

    reach: the expert goes to the goal and stays. wander: every action is a random torque, as in LeWM's data. sweep: random
    torques too, each held for up to half a second, which moves the arm much farther.
    """

    arena, lamp = Floor((0.0, 0.0), (0.3, 0.3)), Lamp((0.0, 0.0, 1.0), 0.1, darkness=0.0)
    camera = "fixed"
    radius = FINGER
    env_spec: ClassVar[EnvSpec] = EnvSpec(
        name="reacher",
        gym_id="sgjepa/Reacher-v0",
        state=(
            *(Quantity(name, "m") for name in _POSITION),
            *(Quantity(name, "m/s") for name in _SPEED),
            *(Quantity(name, "rad") for name in _ANGLES),
            *(Quantity(name, "rad/s") for name in _RATES),
        ),
        control=action_block([Quantity(f"{name}_torque", "0.05 N m") for name in _ANGLES]),
        control_limit=1.0,
        phys=(Quantity("gravity", "m/s^2"), Quantity("radius", "m")),
        nominal_law={},
        actions_per_frame=BLOCK,
        has_task=True,
        measures=reaching_measures("the finger touched the target"),
        goal=_POSITION,
        probed=Probed(position=_POSITION, velocity=_SPEED),
        defaults=DatasetDefaults({}, {}, BENCHMARK_SIZES),
        image_size=224,
        fps=10,
        options={"task": tuple(TARGETS)},
        records={"goal": goal_record(_POSITION)},
        observed_records=("goal",),
        labels={"plan": ("reach", "wander", "sweep"), "outcome": ("reached", "missed")},
        expert_plans=("reach", *("wander",) * 3, *("sweep",) * 4),
        success_plan="reach",
        outcome_label="outcome",
    )

    def __init__(self, image_size: int | None = None, task: str = "hard", **options: Any):
        if task not in TARGETS:
            raise unknown("task", task, TARGETS)
        self.task = task
        super().__init__(image_size, **options)

    def _build(self) -> None:
        self._use_model(_spec().compile())

    def _launch(self, rng: np.random.Generator) -> None:
        self._forget_episode()
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = rng.uniform(-math.pi, math.pi), rng.uniform(*self.model.joint("wrist").range)
        torques = np.random.default_rng(rng.integers(2**63)).uniform(-1, 1, (BLOCK * self.env_spec.frames, 2))
        held = rng.integers(1, HELD + 1, len(torques)) if self.plan == "sweep" else 1
        self._torques = np.repeat(torques, held, axis=0)[: len(torques)]
        mujoco.mj_forward(self.model, self.data)

    def _draw_goal(self, rng: np.random.Generator) -> dict[str, float]:
        angle, far = rng.uniform(0, 2 * math.pi), rng.uniform(*GOALS)
        return {"x": far * math.sin(angle), "y": far * math.cos(angle)}

    def _set_state(self, state: Mapping[str, float]) -> None:
        """Set the angles and rates; those of a finger position without angles keep the elbow on its side."""
        now = {**dict(zip((q.name for q in self.env_spec.state), self.state().tolist(), strict=True)), **state}
        values = {names: np.array([now[name] for name in names]) for names in (_POSITION, _SPEED, _ANGLES, _RATES)}
        angles, rates = values[_ANGLES], values[_RATES]
        if not state.keys() & set(_ANGLES) and state.keys() & set(_POSITION):
            angles = angles_at(values[_POSITION], LINKS, angles[1])
        limit = self.model.joint("wrist").range
        off = (
            float(np.linalg.norm(finger_position(angles, LINKS) - values[_POSITION]))
            if state.keys() & set(_POSITION)
            else 0.0
        )
        if off > _SAME or not limit[0] - _GIVES <= angles[1] <= limit[1] + _GIVES:
            why = f"{off:.3g} m beyond where the arm has it" if off > _SAME else "beyond the wrist's range"
            raise InputError(f"state puts the finger {why}; move x, y, shoulder or wrist")
        if not state.keys() & set(_RATES) and state.keys() & set(_SPEED):
            rates = np.linalg.lstsq(jacobian(angles, LINKS), values[_SPEED], rcond=1e-3)[0]
        self._forget_episode()
        self.data.qpos[:], self.data.qvel[:] = angles, rates
        mujoco.mj_forward(self.model, self.data)

    def _control_step(self, data: Any, action: np.ndarray) -> None:
        data.ctrl[:] = action
        mujoco.mj_step(self.model, data)
        mujoco.mj_forward(self.model, data)  # mj_step leaves derived quantities one step behind the state

    def _expert_action(self, data: Any, step: int) -> np.ndarray:
        if self.plan != "reach":
            return self._torques[step]
        goal = np.array(list(self.goal.values()))
        ways = [angles_at(goal, LINKS, bend) - data.qpos for bend in (-1, 1)]
        for way in ways:
            way[0] = wrap_angle(way[0])
        way = min(ways, key=lambda turn: float(np.abs(turn).max()))
        torque = STIFFNESS * way - DAMPING * data.qvel
        return torque / TORQUE

    def _goal_distance(self, data: Any) -> float:
        return math.dist(finger_position(data.qpos, LINKS), self.goal.values())

    def _success_distance(self) -> float:
        return TARGETS[self.task] + FINGER

    def _casters(self) -> np.ndarray:
        return np.zeros((0, 4))  # the lamp hangs over the arm, whose shadow would be as wide as the arm itself

    def outline(self, state: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """The finger's rim: a probe reads its position, which two bends of the elbow share."""
        x, y = (np.asarray(state[name], float) for name in _POSITION)
        height = float(self.data.geom("finger").xpos[2])
        return super().outline({"x": x, "y": y, "z": np.full_like(x, height)})

    def state(self) -> np.ndarray:
        angles, rates = self.data.qpos, self.data.qvel
        speed = jacobian(angles, LINKS) @ rates
        return np.array([*finger_position(angles, LINKS), *speed, wrap_angle(angles[0]), angles[1], *rates])

    def phys(self) -> np.ndarray:
        return np.array([-self.model.opt.gravity[2], self._success_distance()])


def _spec() -> Any:
    """dm_control's model (mujoco.MjSpec), with the target out of sight and static geoms in the backdrop."""
    spec = mujoco.MjSpec.from_file(str(package_folder("reacher") / "suite" / "reacher.xml"))
    spec.visual.quality.offsamples = 0  # a fine picture averaged is cheaper on a CPU, and better
    for geom in spec.worldbody.geoms:
        geom.group = {"target": HIDDEN, "root": 0}.get(geom.name, BACKDROP)  # the root is as high as the arm over it
    return spec


# --- two links in the plane, the first joint at the origin ------------------------------------------------------------


def finger_position(angles: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The finger, (2,) in m. angles: (2,) in rad, the second relative to the first link"""
    turned = np.cumsum(angles)
    return np.array([np.cos(turned) @ lengths, np.sin(turned) @ lengths])


def jacobian(angles: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The derivative of the finger's position by the angles, (2, 2) in m/rad."""
    turned = np.cumsum(angles)
    second = lengths[1] * np.array([-math.sin(turned[1]), math.cos(turned[1])])
    first = lengths[0] * np.array([-math.sin(turned[0]), math.cos(turned[0])]) + second
    return np.column_stack([first, second])


def angles_at(finger: np.ndarray, lengths: np.ndarray, bend: float) -> np.ndarray:
    """The angles, (2,), that bring the finger to a position, or as near as it can come. bend: the elbow's sign"""
    far = math.hypot(*finger)
    inner = (far**2 - lengths @ lengths) / (2 * lengths[0] * lengths[1])
    second = math.copysign(math.acos(min(max(inner, -1.0), 1.0)), bend)
    within = math.atan2(lengths[1] * math.sin(second), lengths[0] + lengths[1] * math.cos(second))
    return np.array([wrap_angle(math.atan2(finger[1], finger[0]) - within), second])
