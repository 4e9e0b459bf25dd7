"""Approach Ball: a ball thrown from the far end of an open box comes towards the camera, bouncing without loss.

The world has no controls: they are 0 wide, and the paper's action is the gravity alone. The ball does not turn and feels no
friction, so gravity changes the vertical motion only. Between bounces it flies an exact parabola; a bounce is a stiff
spring (envs/planar_contact.py) that gives back the speed it took.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sgjepa.core.errors import InputError, unknown
from sgjepa.envs import world3d
from sgjepa.envs.headless import mujoco
from sgjepa.envs.planar_contact import BALL_CONTACTS, TOUCH, Contact, advance
from sgjepa.envs.spec import (
    EARTH_GRAVITY,
    PLANET_GRAVITIES,
    SIZES_3D,
    SMALL_PROBE_WINDOW,
    DatasetDefaults,
    DatasetSize,
    EnvSpec,
)
from sgjepa.envs.world3d import Arena, Look, Spatial

RADIUS = 0.06  # m
ARENA = Arena(centre=(0.0, 0.0), half=(0.93333, 1.2), height=0.46667, thickness=0.03333, grid=0.13333)
LOOK = Look(location=(0.0, -1.03, 0.78), target=(0.0, 0.03, 0.105), fovy=54.0)
HIGHEST = 0.46  # m; no flight rises above it: just under the top of the walls
MASS = (0.5, 2.0)  # kg; all ranges are uniform
START_X, START_Y = (-0.16, 0.16), (0.96, 1.12)  # m
DROP = (0.21333, 0.37333)  # m from the ball's lowest point to the floor at the start
AIM_X, AIM_Y = (-0.29333, 0.29333), (-0.50667, -0.40)  # m; where it would be at the time of arrival
ARRIVAL = (3.75, 4.20)  # s
NOISE_X, NOISE_Y = 0.010667, 0.016  # m/s, on the velocity
SHAPE_ID = 0  # of a ball, in the physics record
_HALF_X, _HALF_Y = ARENA.half
_TURNING = {"qx": 0.0, "qy": 0.0, "qz": 0.0, "qw": 1.0, "wx": 0.0, "wy": 0.0, "wz": 0.0}
_FIXED = {**_TURNING, **dict(zip(("anchor_x", "anchor_y", "anchor_z"), LOOK.target, strict=True))}
_MOVING = ("x", "y", "z", "vx", "vy", "vz")
_SIZES = {
    "mini": SIZES_3D["mini"],
    "small": DatasetSize(pixels=64, train=2000, test=500, probe_window=SMALL_PROBE_WINDOW),
    "paper": replace(SIZES_3D["paper"], probe_window=2),
}


class ApproachBall(Spatial):
    """The world of this module. contact: "elastic" or "reference", the authors' 320 Hz steps (planar_contact.py)."""

    arena = ARENA
    radius = RADIUS
    env_spec: ClassVar[EnvSpec] = EnvSpec(
        name="approach_ball",
        gym_id="sgjepa/ApproachBall-v0",
        state=world3d.BALL,
        control=(),
        control_limit=1.0,
        phys=world3d.phys("box"),
        nominal_law={"gravity": 9.8},
        probed=world3d.FLYING,
        defaults=DatasetDefaults(EARTH_GRAVITY, PLANET_GRAVITIES, _SIZES),
        image_size=256,
        options={"contact": tuple(BALL_CONTACTS)},
    )

    def __init__(self, image_size: int | None = None, contact: str | Contact = "elastic", **options: Any):
        if isinstance(contact, str) and contact not in BALL_CONTACTS:
            raise unknown("contact", contact, BALL_CONTACTS)
        self.contact = BALL_CONTACTS[contact] if isinstance(contact, str) else contact
        super().__init__(image_size, **options)

    def _build(self) -> None:
        self.model = _build_model(self.contact)
        self.data = mujoco.MjData(self.model)
        self._mass = 1.0

    def _launch(self, rng: np.random.Generator) -> None:
        g = self.law["gravity"]
        mass = rng.uniform(*MASS)
        x, y, z = rng.uniform(*START_X), rng.uniform(*START_Y), RADIUS + rng.uniform(*DROP)
        aim_x, aim_y, arrival = rng.uniform(*AIM_X), rng.uniform(*AIM_Y), rng.uniform(*ARRIVAL)
        # the first bounce comes after a quarter to a third of a second on Earth, and later where things fall slower
        slow = math.sqrt(9.8 / max(g, 2.0))
        soonest = min(max(0.26 * slow, 0.20), 1.00)
        latest = min(max(0.38 * slow, soonest + 0.05), 1.10)
        bounce = soonest + rng.uniform() * (latest - soonest)
        vx = (aim_x - x) / arrival + rng.uniform(-NOISE_X, NOISE_X)
        vy = (aim_y - y) / arrival + rng.uniform(-NOISE_Y, NOISE_Y)
        fastest = math.sqrt(2 * max(g, 0.0) * max(HIGHEST - z, 0.0))  # as not to rise above HIGHEST, now or later
        vz = min(max((RADIUS - z + 0.5 * g * bounce**2) / bounce, -fastest), fastest)
        self._set_mass(mass)
        self.data.qpos[:] = x, y, z
        self.data.qvel[:] = vx, vy, vz
        mujoco.mj_forward(self.model, self.data)

    def _set_mass(self, mass: float) -> None:
        self._mass = mass
        self.model.body("ball").mass = mass
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_setConst(self.model, self.data)  # contact springs scale with the inverse weight

    def _set_state(self, state: Mapping[str, float]) -> None:
        self._check_fixed(state, _FIXED)
        values = {**dict(zip(_MOVING, self.state()[:6].tolist(), strict=True)), **state}
        before = self.data.qpos.copy()
        self.data.qpos[:] = [values[name] for name in _MOVING[:3]]
        if (deep := -self.clearance()) > self.contact.depth:
            self.data.qpos[:] = before
            raise InputError(f"state puts the ball {deep:.3g} m into the floor or a wall; move x, y or z")
        self.data.qvel[:] = [values[name] for name in _MOVING[3:]]
        mujoco.mj_forward(self.model, self.data)

    def _advance(self, control: np.ndarray) -> None:
        advance(self.model, self.data, self.env_spec.frame_dt, self.contact, self._free_time)

    def clearance(self) -> float:
        """Metres between the ball and the nearest of floor and walls; negative inside. The camera's side is open."""
        x, y, z = self.data.qpos.tolist()
        return float(min(z, _HALF_X - abs(x), _HALF_Y - y) - RADIUS)

    def _free_time(self) -> float:
        """Seconds until the ball touches the floor or a wall; exact, as the flight is a parabola."""
        x, y, z = self.data.qpos.tolist()
        vx, vy, vz = self.data.qvel.tolist()
        ax, ay, az = self.model.opt.gravity.tolist()
        edge = RADIUS + TOUCH
        walls = ((z, vz, az), (_HALF_X - x, -vx, -ax), (_HALF_X + x, vx, ax), (_HALF_Y - y, -vy, -ay))
        return min(_first_zero(gap - edge, speed, pull) for gap, speed, pull in walls)

    def _casters(self) -> np.ndarray:
        return np.array([[*self.data.qpos, RADIUS]])

    def state(self) -> np.ndarray:
        return np.array([*self.data.qpos, *self.data.qvel, *_FIXED.values()])

    def phys(self) -> np.ndarray:
        box = (_HALF_X, _HALF_Y, ARENA.height, ARENA.thickness)
        return np.array([self.law["gravity"], self._mass, RADIUS, RADIUS, RADIUS, SHAPE_ID, *box])

    def expert(self) -> np.ndarray:
        """An empty control, as the world has none."""
        return np.zeros(0, np.float32)


def _first_zero(gap: float, speed: float, pull: float) -> float:
    """The first t >= 0 at which gap + speed t + pull t^2 / 2 falls to zero; 0 if it has fallen already."""
    if gap <= 0:
        return 0.0
    under = speed * speed - 2 * pull * gap
    if under < 0:
        return math.inf
    # both roots in a form that loses no digits; without a pull one of them is at infinity
    sum_of_signs = -speed - math.copysign(math.sqrt(under), speed)
    roots = [2 * gap / sum_of_signs if sum_of_signs else math.inf, sum_of_signs / pull if pull else math.inf]
    return min((t for t in roots if t > 0), default=math.inf)


def _build_model(contact: Contact) -> Any:
    """The compiled model (mujoco.MjModel) with unit mass and no gravity: mass and laws come at reset."""
    spec = mujoco.MjSpec()
    spec.option.timestep = contact.timestep
    spec.option.integrator = contact.mujoco_integrator
    spec.option.gravity = [0, 0, 0]
    world3d.set_looks(spec, LOOK)
    world3d.add_arena(spec, ARENA)
    ball = spec.worldbody.add_body(name="ball")
    for axis in np.eye(3):  # it cannot turn
        ball.add_joint(type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis)
    off = {"contype": 0, "conaffinity": 0}  # only the pairs below touch
    ball.add_geom(name="ball", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[RADIUS, 0, 0], mass=1, material="ball", **off)
    planes = {"floor": (0, 0, 1), "left": (1, 0, 0), "right": (-1, 0, 0), "far": (0, -1, 0)}
    for name, inward in planes.items():
        quat = np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, np.array(inward, float))
        position = [-inward[0] * _HALF_X, -inward[1] * _HALF_Y, 0]
        kind = {"type": mujoco.mjtGeom.mjGEOM_PLANE, "size": [0, 0, 1], "group": world3d.HIDDEN}
        spec.worldbody.add_geom(name=name, pos=position, quat=quat, **kind, **off)
        spec.add_pair(geomname1="ball", geomname2=name, condim=1, **contact.softness)
    return spec.compile()
