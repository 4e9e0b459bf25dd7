"""An arm of two links in the plane, its first joint at the origin: where its finger is, and which angles bring it there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sgjepa.core.errors import InputError, unknown
from sgjepa.envs.base import Env
from sgjepa.envs.benchmarks import BLOCK, Blocks, folder, goal_record, in_blocks, reaching
from sgjepa.envs.headless import mujoco
from sgjepa.envs.render.layered_renderer import BACKDROP, LayeredPainter, View
from sgjepa.envs.render.shadows import Floor, Lamp
from sgjepa.envs.spec import BENCHMARK_SIZES, DatasetDefaults, EnvSpec, Probed, Quantity
from sgjepa.envs.world3d import HIDDEN


def place(angles: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The finger, (2,) in m. angles: (2,) in rad, the second from the first link on"""
    turned = np.cumsum(angles)
    return np.array([np.cos(turned) @ lengths, np.sin(turned) @ lengths])


def jacobian(angles: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """What the angles' rates do to the finger: (2, 2) in m/rad."""
    turned = np.cumsum(angles)
    second = lengths[1] * np.array([-math.sin(turned[1]), math.cos(turned[1])])
    first = lengths[0] * np.array([-math.sin(turned[0]), math.cos(turned[0])]) + second
    return np.column_stack([first, second])


def angles_at(finger: np.ndarray, lengths: np.ndarray, bend: float) -> np.ndarray:
    """The angles, (2,), that bring the finger there, or as near as it can come. bend: the elbow's sign"""
    far = math.hypot(*finger)
    inner = (far**2 - lengths @ lengths) / (2 * lengths[0] * lengths[1])
    second = math.copysign(math.acos(min(max(inner, -1.0), 1.0)), bend)
    within = math.atan2(lengths[1] * math.sin(second), lengths[0] + lengths[1] * math.cos(second))
    return np.array([wrapped(math.atan2(finger[1], finger[0]) - within), second])


def wrapped(angle: float) -> float:
    """To (-pi, pi]."""
    return math.pi - (math.pi - angle) % (2 * math.pi)


TARGETS = {"hard": 0.015, "easy": 0.05}  # m: DMC's radii of the target, by task
FINGER = 0.01  # m, its radius
LINKS = np.array([0.12, 0.12])  # m
GOALS = (0.05, 0.20)  # m from the middle, uniform, in any direction
TORQUE = 0.05  # N m, of a control of 1
STIFFNESS, DAMPING = 0.15, 0.02  # N m/rad, N m s/rad: how the demonstrator goes to its goal
HELD = 25  # control steps, the most that a torque of a sweep lasts
_SAME = 1e-4  # m: what a place and the angles may differ by, both rounded to float32
_GIVES = 0.2  # rad: a swing takes the wrist so far into the soft limit of its range, at most
_ANGLES, _PLACE = ("shoulder", "wrist"), ("x", "y")
_RATES, _SPEED = ("shoulder_rate", "wrist_rate"), ("vx", "vy")


class Reacher(Blocks):
    """See the module. `plan` at reset: "reach", "wander" or "sweep".

    reach: the demonstrator goes to the goal and stays there. wander: every action is a random torque, as in LeWM's data.
    sweep: random torques too, each held for up to half a second, which takes the arm much farther.
    """

    _painter: LayeredPainter | None
    env_spec: ClassVar[EnvSpec] = EnvSpec(
        name="reacher",
        gym_id="sgjepa/Reacher-v0",
        state=(
            *(Quantity(name, "m") for name in _PLACE),
            *(Quantity(name, "m/s") for name in _SPEED),
            *(Quantity(name, "rad") for name in _ANGLES),
            *(Quantity(name, "rad/s") for name in _RATES),
        ),
        control=in_blocks([Quantity(f"{name}_torque", "0.05 N m") for name in _ANGLES]),
        control_limit=1.0,
        phys=(Quantity("gravity", "m/s^2"), Quantity("radius", "m")),
        nominal_law={},
        actions_per_frame=BLOCK,
        has_task=True,
        measures=reaching("the finger touched the target"),
        goal=_PLACE,
        probed=Probed(position=_PLACE, velocity=_SPEED),
        defaults=DatasetDefaults({}, {}, BENCHMARK_SIZES),
        image_size=224,
        fps=10,
        options={"task": tuple(TARGETS)},
        records={"goal": goal_record(_PLACE)},
        observed_records=("goal",),
        labels={"plan": ("reach", "wander", "sweep"), "outcome": ("reached", "missed")},
        expert_plans=("reach", *("wander",) * 3, *("sweep",) * 4),
        success_plan="reach",
        outcome_label="outcome",
    )

    def __init__(
        self,
        image_size: int | None = None,
        task: str = "hard",
        render_mode: str | None = None,
        terminate_on_success: bool = False,
        law: Mapping[str, float] | None = None,
    ):
        if task not in TARGETS:
            raise unknown("task", task, TARGETS)
        self.task = task
        super().__init__(image_size, render_mode, terminate_on_success, law)

    def _build(self) -> None:
        self._adopt(_spec().compile())

    def _launch(self, rng: np.random.Generator) -> None:
        self._begin_anew()
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
        """The angles decide. Where a place is given and they are not, the elbow stays on its side; so for the rates."""
        now = {**dict(zip((q.name for q in self.env_spec.state), self.state().tolist(), strict=True)), **state}
        values = {names: np.array([now[name] for name in names]) for names in (_PLACE, _SPEED, _ANGLES, _RATES)}
        angles, rates = values[_ANGLES], values[_RATES]
        if not state.keys() & set(_ANGLES) and state.keys() & set(_PLACE):
            angles = angles_at(values[_PLACE], LINKS, angles[1])
        limit = self.model.joint("wrist").range
        off = float(np.linalg.norm(place(angles, LINKS) - values[_PLACE])) if state.keys() & set(_PLACE) else 0.0
        if off > _SAME or not limit[0] - _GIVES <= angles[1] <= limit[1] + _GIVES:
            why = f"{off:.3g} m beyond where the arm has it" if off > _SAME else "beyond the wrist's range"
            raise InputError(f"state puts the finger {why}; move x, y, shoulder or wrist")
        if not state.keys() & set(_RATES) and state.keys() & set(_SPEED):
            rates = np.linalg.lstsq(jacobian(angles, LINKS), values[_SPEED], rcond=1e-3)[0]
        self._begin_anew()
        self.data.qpos[:], self.data.qvel[:] = angles, rates
        mujoco.mj_forward(self.model, self.data)

    def _act(self, data: Any, action: np.ndarray) -> None:
        data.ctrl[:] = action
        mujoco.mj_step(self.model, data)
        mujoco.mj_forward(self.model, data)  # mj_step leaves derived quantities one step behind the state

    def _demonstrate(self, data: Any, step: int) -> np.ndarray:
        if self.plan != "reach":
            return self._torques[step]
        goal = np.array(list(self.goal.values()))
        ways = [angles_at(goal, LINKS, bend) - data.qpos for bend in (-1, 1)]
        for way in ways:
            way[0] = wrapped(way[0])
        way = min(ways, key=lambda one: float(np.abs(one).max()))
        torque = STIFFNESS * way - DAMPING * data.qvel
        return torque / TORQUE

    def _distance(self, data: Any) -> float:
        return math.dist(place(data.qpos, LINKS), self.goal.values())

    def _radius(self) -> float:
        return TARGETS[self.task] + FINGER

    def _frame(self) -> np.ndarray:
        return self.picture_of(self)

    def picture_of(self, other: Env) -> np.ndarray:
        if self._painter is None:
            self._painter = LayeredPainter(self.model, self.image_size, "fixed", _LAMP, _FLOOR)
        assert isinstance(other, Reacher)
        return self._painter.draw(other.data, _NO_SHADOWS)

    def outline(self, state: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """The finger's rim: a probe reads its place, which two bends of the elbow share."""
        x, y = (np.asarray(state[name], float) for name in _PLACE)
        height = float(self.data.geom("finger").xpos[2])
        return View(self.model, self.data, "fixed", 1).rim(np.stack([x, y, np.full_like(x, height)], axis=-1), FINGER)

    def state(self) -> np.ndarray:
        angles, rates = self.data.qpos, self.data.qvel
        speed = jacobian(angles, LINKS) @ rates
        return np.array([*place(angles, LINKS), *speed, wrapped(angles[0]), angles[1], *rates])

    def phys(self) -> np.ndarray:
        return np.array([-self.model.opt.gravity[2], self._radius()])


# the light hangs over the middle and the arm lies on the floor: shadows would be as wide as the arm itself
_LAMP, _FLOOR, _NO_SHADOWS = Lamp((0.0, 0.0, 1.0), 0.1, darkness=0.0), Floor((0.0, 0.0), (0.3, 0.3)), np.zeros((0, 4))


def _spec() -> Any:
    """dm_control's model (mujoco.MjSpec), with the target out of sight and what stands still in the backdrop."""
    spec = mujoco.MjSpec.from_file(str(folder("reacher") / "suite" / "reacher.xml"))
    spec.visual.quality.offsamples = 0  # a fine picture averaged is cheaper on a CPU, and better
    for geom in spec.worldbody.geoms:
        geom.group = {"target": HIDDEN, "root": 0}.get(geom.name, BACKDROP)  # the root is as high as the arm over it
    return spec
