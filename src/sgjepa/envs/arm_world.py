"""The common base of the worlds with a robot arm: names and units of their records, parts of their scenes, `ArmWorld`.

A control moves the target of the tool; inverse kinematics and the servos bring the arm there (arm_physics.py). The ball is
a free body that touches only the geoms that the world names, with the restitution and friction that it names.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.envs import arm_physics, world3d
from sgjepa.envs.arm_physics import Command, reach
from sgjepa.envs.headless import mujoco
from sgjepa.envs.robots.kinematics import Arm, rotate, rotation_vector, unit_quaternion
from sgjepa.envs.robots.robot import Robot
from sgjepa.envs.robots.z1 import Z1
from sgjepa.envs.spec import Quantity
from sgjepa.envs.world3d import Arena, Look, Spatial

TILT = (Quantity("phi", "rad"), Quantity("theta", "rad"))  # how a blade leans or looks: each world says from where


def shifts(step: np.ndarray) -> tuple[Quantity, ...]:
    """dx, dy and dz of a tool's target, in units of a step (3,) in m."""
    return tuple(Quantity(name, f"{1000 * size:.3g} mm") for name, size in zip(("dx", "dy", "dz"), step, strict=True))


def blade_limits(fastest: float, steepest: float) -> tuple[float, ...]:
    """Limits of a control (dx, dy, dz, phi, theta): in steps per frame, and in rad."""
    return fastest, fastest, fastest, math.pi, steepest


def vector(name: str, units: str, *suffixes: str) -> tuple[Quantity, ...]:
    """Quantities called name_suffix, all in one unit."""
    return tuple(Quantity(f"{name}_{suffix}", units) for suffix in suffixes)


def tool_record(name: str) -> tuple[Quantity, ...]:
    """Nine numbers: position and velocity of the tool, and its commanded position."""
    return (
        *vector(name, "m", "x", "y", "z"),
        *vector(name, "m/s", "vx", "vy", "vz"),
        *vector(name, "m", "target_x", "target_y", "target_z"),
    )


def arm_record(robot: Robot) -> tuple[Quantity, ...]:
    """Angle, speed and commanded angle of every joint."""
    names = [joint.name for joint in robot.joints]
    return (*vector("angle", "rad", *names), *vector("speed", "rad/s", *names), *vector("target", "rad", *names))


def flags(*names: str) -> tuple[Quantity, ...]:
    """Quantities that are 0 or 1, dimensionless."""
    return tuple(Quantity(name, "1") for name in names)


OFF = {"contype": 0, "conaffinity": 0}  # only explicit pairs touch
TOOL = "tool"  # the site that commands move
Surfaces = Mapping[str, tuple[float, tuple[float, ...]]]  # restitution and friction of the ball with each kind of thing


def start_spec(look: Look) -> Any:
    """A spec with the physics all arm worlds share, the camera and the lights."""
    spec = mujoco.MjSpec()
    spec.option.timestep = arm_physics.TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.gravity = [0, 0, 0]
    world3d.set_looks(spec, look)
    return spec


def add_ball(spec: Any, radius: float, **look: Any) -> None:
    """A free ball of unit mass: the world gives it its mass at reset."""
    body = spec.worldbody.add_body(name="ball")
    body.add_freejoint(name="ball")
    body.explicitinertial = True
    body.mass, body.inertia = 1.0, [0.4 * radius**2] * 3
    body.add_geom(name="ball", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0, 0], **look, **OFF)


def add_solids(spec: Any, arena: Arena) -> dict[str, str]:
    """Add a plane and thick boxes, not drawn, for the ball to bounce off; returns the kind of each."""
    (cx, cy), (hx, hy), top, thick = arena.centre, arena.half, arena.height, 0.25
    hidden = {"group": world3d.HIDDEN, **OFF}
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], **hidden)
    walls = {
        "left": ((cx - hx - thick, cy, top / 2), (thick, hy, top / 2)),
        "right": ((cx + hx + thick, cy, top / 2), (thick, hy, top / 2)),
        "far": ((cx, cy + hy + thick, top / 2), (hx, thick, top / 2)),
    }
    for name, (pos, size) in walls.items():
        spec.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, pos=pos, size=size, **hidden)
    return {"floor": "floor", **dict.fromkeys(walls, "wall")}


def yaw(angle: float) -> tuple[float, float, float, float]:
    """The quaternion of a turn about the vertical."""
    return math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)


_posture_cache: dict[tuple[object, ...], np.ndarray] = {}  # by world and pose
_MOVING = ("x", "y", "z", "vx", "vy", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz")


class Expert(Protocol):
    """The scripted expert of an arm world."""

    def forget(self) -> None:
        """Drop the plan for a ball that has since been moved."""


class ArmWorld(Spatial):
    """A world in which a robot meets a ball. Its `_build` makes a model and calls `_compile`."""

    arena: ClassVar[Arena]
    robot: ClassVar[Robot] = Z1
    look: ClassVar[Look]
    limb_radius: ClassVar[float] = 0.03  # m, of the arm's shadow
    tool_shadow: ClassVar[float]  # m
    contact_kinds: ClassVar[tuple[str, ...]]  # kinds of things the ball can touch, in the order of the contact record
    stride: ClassVar[np.ndarray]  # (3,) m per frame that a control of 1 moves the tool's target
    workspace: ClassVar[np.ndarray]  # (2, 3) m, lowest and highest corner of the target's range
    substeps: ClassVar[int] = round(1 / 16 / arm_physics.TIMESTEP)
    command: Command
    events: Any  # the events of the episode so far, in a dataclass of the world's own
    _expert: Expert
    _mass: float  # kg, of the ball

    @property
    def anchor(self) -> tuple[float, float, float]:
        """The point that is recorded with the ball's state."""
        return self.look.target

    def _compile(self, spec: Any, kinds: Mapping[str, str], surfaces: Surfaces) -> None:
        """Compile the spec. `kinds` says for every geom that the ball can touch which of `contact_kinds` it is."""
        for geom, kind in kinds.items():
            e, rub = surfaces[kind]
            spec.add_pair(geomname1="ball", geomname2=geom, **arm_physics.friction(*rub), **arm_physics.softness(e))
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.arm = Arm(self.model, self.robot, TOOL)
        self._kind = np.full(self.model.ngeom, -1)
        for geom, kind in kinds.items():
            self._kind[self.model.geom(geom).id] = self.contact_kinds.index(kind)
        ball = self.model.joint("ball")
        self._ball, self._ball_v = slice(*(ball.qposadr[0] + [0, 7])), slice(*(ball.dofadr[0] + [0, 6]))
        self._limbs = np.array([self.model.body(f"{self.robot.name}_{link.name}").id for link in self.robot.links[1:]])
        self._rows = _between([math.hypot(*link.pos) for link in self.robot.links[2:]], self.limb_radius)
        self._site = self.model.site(TOOL).id
        self.touched = np.zeros(len(self.contact_kinds), bool)  # in the interval that ended at this frame
        self.command = Command(np.zeros(3), np.eye(3), self.arm.home, np.zeros_like(self.arm.home))

    def _start_posture(self, position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
        """The best joints for a pose, to start from; searched once per process, as a class has one arm."""
        key = type(self), position.tobytes(), rotation.tobytes()
        if key not in _posture_cache:
            _posture_cache[key] = self.arm.search(position, rotation).joints
        return _posture_cache[key].copy()

    def _set_ball(self, mass: float, position: np.ndarray, velocity: np.ndarray, spin: np.ndarray) -> None:
        """Place the ball, unturned, and clear the state of the last episode."""
        body = self.model.body("ball").id
        self.model.body_mass[body] = mass
        self.model.body_inertia[body] = 0.4 * mass * self.radius**2
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_setConst(self.model, self.data)  # contact springs scale with the inverse weights
        self._mass = mass
        self.data.qpos[self._ball] = *position, 1, 0, 0, 0
        self.data.qvel[self._ball_v] = *velocity, *spin
        self.touched[:] = False

    def _set_arm(self, position: np.ndarray, rotation: np.ndarray, joints: np.ndarray) -> None:
        """Place the arm, at rest, with the servos holding it."""
        self.command = Command(position, rotation, joints, np.zeros_like(joints))
        self.data.qpos[self.arm.qpos] = joints
        mujoco.mj_forward(self.model, self.data)
        self.arm.follow(self.data, joints, np.zeros_like(joints))

    def _set_state(self, state: Mapping[str, float]) -> None:
        self._check_fixed(state, dict(zip(("anchor_x", "anchor_y", "anchor_z"), self.anchor, strict=True)))
        values = {**dict(zip(_MOVING, self.state().tolist(), strict=False)), **state}
        x, y, z, vx, vy, vz, *turn, wx, wy, wz = (values[name] for name in _MOVING)
        if z < self.radius - 0.02:
            raise InputError(f"state puts the ball {self.radius - z:.3g} m into the floor; its radius is {self.radius:g}")
        # a ball that flew out over a wall may stay as far out as it is
        outside, outside_now = (
            float((np.abs(np.subtract(position, self.arena.centre)) - self.arena.half).max()) + self.radius
            for position in ((x, y), self.data.qpos[self._ball][:2])
        )
        if outside > max(outside_now, 0.0) + 0.02:
            raise InputError(f"state puts the ball {outside:.3g} m into a wall or beyond the floor's edge; move x or y")
        quat = unit_quaternion(turn)
        self.data.qpos[self._ball] = x, y, z, *quat
        self.data.qvel[self._ball_v] = vx, vy, vz, *rotate(quat, (wx, wy, wz), inverse=True)
        mujoco.mj_forward(self.model, self.data)
        self._expert.forget()

    def _advance_target(self, control: np.ndarray, rotation: np.ndarray) -> None:
        """One frame interval in which the target moves by dx, dy, dz of a control (3,), within the workspace, and turns."""
        self._advance_to(np.clip(self.command.position + control * self.stride, *self.workspace), rotation)

    def _advance_to(self, position: np.ndarray, rotation: np.ndarray) -> None:
        """One frame interval in which the tool goes to a pose, or as far towards it as the arm can."""
        arm, data, before, ramp = self.arm, self.data, self.command.speeds, self.env_spec.frame_dt / 2
        self.command = reach(arm, data, self.command, position, rotation, self.env_spec.frame_dt)
        start, after = data.qpos[arm.qpos].copy(), self.command.speeds
        gain = (after - before) / ramp
        t = arm_physics.TIMESTEP * np.arange(1, self.substeps + 1)[:, None]  # (S, 1) s
        rises = t <= ramp  # half the time the speeds change
        # (S, J) commanded angles after each substep, and speeds
        joints = np.where(rises, start + before * t + gain * (t * t / 2), start + (before - after) * (ramp / 2) + after * t)
        speeds = np.where(rises, before + gain * t, after)
        self.touched[:] = False
        for angles, rates, rising in zip(joints, speeds, rises[:, 0].tolist(), strict=True):
            arm.follow(data, angles, rates, gain if rising else None)
            mujoco.mj_step(self.model, data)
            if data.ncon:
                kinds = self._kind[data.contact.geom].max(axis=1)
                self.touched[kinds[kinds >= 0]] = True
            self._after_substep()
        mujoco.mj_forward(self.model, data)  # mj_step leaves derived quantities one step behind the state

    @abstractmethod
    def _after_substep(self) -> None:
        """Note the events after every substep: they must not fall between two frames."""

    # --- lookahead for experts ---------------------------------------------------------------------------------

    @contextmanager
    def lookahead(self) -> Iterator[Callable[[np.ndarray], None]]:
        """Simulate ahead on a copy: yields a function that applies a control in it. Afterwards the state is restored.

        The frame number does not change, as nothing that is simulated in the block counts.
        """
        present = self.data, self.command, self.touched, self.events
        self.data, self.touched, self.events = copy.copy(self.data), self.touched.copy(), copy.deepcopy(self.events)
        try:
            yield self._advance
        finally:
            self.data, self.command, self.touched, self.events = present

    def free_run(self) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
        """A function that advances a copy of the world by some time steps, with no new command to the arm.

        It returns position and velocity of the ball, (3,) each; called again, it continues.
        """
        twin = copy.copy(self.data)

        def run(steps: int) -> tuple[np.ndarray, np.ndarray]:
            mujoco.mj_step(self.model, twin, steps)
            return self._ball_in(twin)

        return run

    # --- records ---------------------------------------------------------------------------------------

    def ball(self) -> tuple[np.ndarray, np.ndarray]:
        """Position and velocity of the ball, (3,) each."""
        return self._ball_in(self.data)

    def _ball_in(self, data: Any) -> tuple[np.ndarray, np.ndarray]:
        return data.qpos[self._ball][:3].copy(), data.qvel[self._ball_v][:3].copy()

    def tool(self) -> tuple[np.ndarray, np.ndarray]:
        """Position and rotation of the tool as of the last substep, (3,) and (3, 3)."""
        return self.data.site_xpos[self._site], self.data.site_xmat[self._site].reshape(3, 3)

    def tool_velocity(self) -> np.ndarray:
        """Angular and linear velocity of the tool in the world's axes, (6,)."""
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(self.model, self.data, mujoco.mjtObj.mjOBJ_SITE, self._site, velocity, 0)
        return velocity

    def tracking_error(self) -> tuple[float, float]:
        """The distance of the tool from its commanded pose at this frame: metres and radians."""
        position, rotation = self.tool()
        turn = rotation_vector(rotation @ self.command.rotation.T)
        return float(np.linalg.norm(position - self.command.position)), float(np.linalg.norm(turn))

    def state(self) -> np.ndarray:
        pose, motion = self.data.qpos[self._ball], self.data.qvel[self._ball_v]
        # MuJoCo keeps w x y z, and spins of a free body in the body's own axes
        spin = rotate(pose[3:], motion[3:])
        return np.array([*pose[:3], *motion[:3], *pose[4:], pose[3], *spin, *self.anchor])

    def _tool_record(self) -> np.ndarray:
        return np.concatenate([self.tool()[0], self.tool_velocity()[3:], self.command.position])

    def _arm_record(self) -> np.ndarray:
        return np.concatenate([self.data.qpos[self.arm.qpos], self.data.qvel[self.arm.dofs], self.command.joints])

    def phys(self) -> np.ndarray:
        arena = (*self.arena.half, self.arena.height, self.arena.thickness)
        return np.array([self.law["gravity"], self._mass, self.radius, self.radius, self.radius, 0, *arena])

    def _casters(self) -> np.ndarray:
        arm = self._rows @ self.data.xpos[self._limbs]
        spheres = np.concatenate([arm, np.full((len(arm), 1), self.limb_radius)], axis=1)
        ball = [*self.data.qpos[self._ball][:3], self.radius]
        return np.concatenate([[ball, [*self.tool()[0], self.tool_shadow]], spheres])


def _between(lengths: Sequence[float], radius: float) -> np.ndarray:
    """Weights (M, N) that turn the N joints of a chain into M points along its links, none farther apart than the radius."""
    rows = [np.eye(len(lengths) + 1)[0]]
    for i, length in enumerate(lengths):
        count = max(math.ceil(length / (1.5 * radius)), 1)
        for share in np.arange(1, count + 1) / count:
            row = np.zeros(len(lengths) + 1)
            row[i : i + 2] = 1 - share, share
            rows.append(row)
    return np.array(rows)
