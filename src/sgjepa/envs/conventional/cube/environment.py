"""OGBench-Cube single: a UR5e with a gripper brings a cube to a place. The model and the control are OGBench's own.

The goal is the cube's place (x, y, z), reached within 4 cm as in OGBench. No marker shows it, as in OGBench's own pictures:
a goal is also given as a picture, that of the scene in the goal's state. The state holds all joints, so a state that is
put gives the whole picture.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.envs import spatial
from sgjepa.envs.base import Env
from sgjepa.envs.conventional.blocks import BLOCK, Blocks, goal_record, in_blocks, reaching
from sgjepa.envs.conventional.cube.demonstrator import CUBES, HANDS, Player
from sgjepa.envs.conventional.cube.hand import HOME, SUBSTEPS, Hand
from sgjepa.envs.conventional.cube.scene import ARM, CAMERA, FINGERS, FLOOR, HALF, build
from sgjepa.envs.headless import mujoco
from sgjepa.envs.render.layers import LayeredPainter, View
from sgjepa.envs.render.shadows import Floor, Lamp
from sgjepa.envs.robots.kinematics import turned
from sgjepa.envs.usual import BENCHMARK
from sgjepa.envs.world import Quantity, Usual, World

REACHED = 0.04  # m
WALLS = np.array([[0.223, -0.377], [0.627, 0.377]])  # m: inner faces of those that hold the cube, which nobody sees
_LOOSE = 0.1  # rad that joints, whose ends are soft, may be beyond their range
_CUBE = spatial.BALL[:13]  # position, velocity, orientation and spin
_JOINTS = (*ARM, *FINGERS)
_LAMP, _FLOOR = Lamp((0.3, 0.3, 2.0), 0.15, darkness=0.42), Floor(*FLOOR)
# bodies that cast a shadow, as spheres of so many m
_CASTERS = {
    "cube/object_0": 0.024,
    "ur5e/robotiq/base": 0.04,
    "ur5e/robotiq/right_pad": 0.012,
    "ur5e/robotiq/left_pad": 0.012,
}


class Cube(Blocks):
    """See the module. `plan` at reset: "place", the demonstrator brings the cube to the goal; "play", here and there."""

    _painter: LayeredPainter | None
    world: ClassVar[World] = World(
        name="cube",
        gym_id="sgjepa/Cube-v0",
        state=(
            *_CUBE,
            *(Quantity(name, "rad") for name in _JOINTS),
            *(Quantity(f"{name}_rate", "rad/s") for name in _JOINTS),
        ),
        control=in_blocks(
            [*(Quantity(name, "0.05 m") for name in ("dx", "dy", "dz")), Quantity("dyaw", "0.3 rad"), Quantity("grip", "1")]
        ),
        control_limit=1.0,
        phys=(Quantity("gravity", "m/s^2"), Quantity("mass", "kg"), Quantity("half", "m")),
        nominal_law={},
        actions=BLOCK,
        succeeds=True,
        measures=reaching("the cube came within 4 cm of the goal"),
        goal=("x", "y", "z"),
        probed=spatial.FLYING,
        usual=Usual({}, {}, BENCHMARK, patch=14, sigreg=0.72, history=10),
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
        own=("hand", "goal"),
        labels={"plan": ("place", "play"), "outcome": ("reached", "missed")},
        plans=("place", "play", "play", "play"),
        to_succeed="place",
        outcome="outcome",
    )

    def _build(self) -> None:
        self._adopt(_model())
        self._hand = _hand()

    def _obey(self, law: Mapping[str, float]) -> None:
        if law and self.model is _model():
            self._adopt(copy.copy(_model()))  # a law changes it; 64 environments without one share its 32 MB
        super()._obey(law)

    def _launch(self, rng: np.random.Generator) -> None:
        self._begin_anew()
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[: len(ARM)] = self._hand.joints(rng.uniform(*HANDS), rng.uniform(-math.pi, math.pi), HOME)
        yaw = rng.uniform(0, 2 * math.pi)
        self._cube[:] = *rng.uniform(*CUBES), HALF, math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)
        self._chance = int(rng.integers(2**63))
        mujoco.mj_forward(self.model, self.data)

    def _draw_goal(self, rng: np.random.Generator) -> dict[str, float]:
        x, y = rng.uniform(*CUBES).tolist()
        return {"x": x, "y": y, "z": HALF}

    @property
    def _cube(self) -> np.ndarray:
        """Position and quaternion w x y z, (7,), to write to."""
        found: np.ndarray = self.data.qpos[len(_JOINTS) :]
        return found

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._player: Player | None = None

    def _set_state(self, state: Mapping[str, float]) -> None:
        now = {**dict(zip((q.name for q in self.world.state), self.state().tolist(), strict=True)), **state}
        x, y, z, vx, vy, vz, *turn, wx, wy, wz = (now[q.name] for q in _CUBE)
        deep = max(float(np.max([WALLS[0] - (x, y), (x, y) - WALLS[1]])), -z) + HALF
        if deep > HALF and state.keys() & {"x", "y", "z"}:  # the cube leans on walls with an edge
            raise InputError(f"state puts the cube {deep:.3g} m into a wall or the floor; move x, y or z")
        if not 0.9 < (size := float(np.linalg.norm(turn))) < 1.1:
            raise InputError(f"state's quaternion (qx, qy, qz, qw) must have length 1, got {size:.3g}")
        angles = np.array([now[name] for name in _JOINTS])
        low, high = self.model.jnt_range[: len(_JOINTS)].T
        for name, off in zip(_JOINTS, np.maximum(low - angles, angles - high), strict=True):
            if off > _LOOSE:
                raise InputError(f"state '{name}' is {off:.3g} rad beyond its joint's range")
        self._begin_anew()
        quat = np.array([turn[3], *turn[:3]]) / size
        self.data.qpos[:] = *angles, x, y, z, *quat
        self.data.qvel[:] = *(now[f"{name}_rate"] for name in _JOINTS), vx, vy, vz, *turned(quat, (wx, wy, wz), back=True)
        self.data.qacc_warmstart[:] = 0  # what follows depends on the state alone
        mujoco.mj_forward(self.model, self.data)

    def _act(self, data: Any, action: np.ndarray) -> None:
        self._hand.command(data, action)
        mujoco.mj_step(self.model, data, SUBSTEPS)
        mujoco.mj_forward(self.model, data)  # mj_step leaves derived quantities one step behind the state

    def _demonstrate(self, data: Any, step: int) -> np.ndarray:
        if self._player is None:
            goal = np.array(list(self.goal.values())) if self.plan == "place" else None
            self._player = Player(self._hand, self._chance, goal)
        x, y, z, w, i, j, k = data.qpos[len(_JOINTS) :]
        yaw = math.atan2(2 * (w * k + i * j), 1 - 2 * (j * j + k * k))
        return self._player.act(data, np.array([x, y, z]), yaw, step)

    def _distance(self, data: Any) -> float:
        return math.dist(data.qpos[len(_JOINTS) :][:3], self.goal.values())

    def _radius(self) -> float:
        return REACHED

    def _frame(self) -> np.ndarray:
        return self.picture_of(self)

    def picture_of(self, other: Env) -> np.ndarray:
        if self._painter is None:
            self._painter = LayeredPainter(self.model, self.image_size, CAMERA, _LAMP, _FLOOR)
        assert isinstance(other, Cube)
        bodies = [other.data.body(name).xpos for name in _CASTERS]
        return self._painter.draw(other.data, np.column_stack([bodies, list(_CASTERS.values())]))

    def outline(self, state: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """A ring around the cube: a probe reads where it is, not how it is turned."""
        place = np.stack([np.asarray(state[name], float) for name in ("x", "y", "z")], axis=-1)
        return View(self.model, self.data, CAMERA, 1).rim(place, math.sqrt(2) * HALF)

    def state(self) -> np.ndarray:
        *joints, x, y, z, w, i, j, k = self.data.qpos
        rates, (vx, vy, vz), spin = np.split(self.data.qvel, [len(_JOINTS), len(_JOINTS) + 3])
        return np.array([x, y, z, vx, vy, vz, i, j, k, w, *turned((w, i, j, k), spin), *joints, *rates])

    def records(self) -> dict[str, np.ndarray]:
        return {"hand": self._hand.pose(self.data), **super().records()}

    def phys(self) -> np.ndarray:
        return np.array([-self.model.opt.gravity[2], self.model.body("cube/object_0").mass[0], HALF])


@cache
def _model() -> Any:
    """Composed once in a process, in two thirds of a second."""
    return build()


@cache
def _hand() -> Hand:
    return Hand(_model())
