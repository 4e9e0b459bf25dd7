"""The scene of Franka Paddle-to-Basket: the room, the basket and the paddle, and the events of an episode in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from sgjepa.envs import world3d
from sgjepa.envs.arm_world import OFF, TOOL, add_ball, start_spec, vector, yaw
from sgjepa.envs.headless import mujoco
from sgjepa.envs.render.layered_renderer import BACKDROP
from sgjepa.envs.robots.kinematics import rotation_of
from sgjepa.envs.robots.panda import PANDA
from sgjepa.envs.robots.robot import add_robot, solids_of
from sgjepa.envs.spec import Quantity
from sgjepa.envs.world3d import Arena, Look

# sizes and places
RADIUS, MASS = 0.075, 0.10  # m, kg
FLOOR = Arena(centre=(0.0, -1.62), half=(4.0, 2.38), height=1.68, thickness=0.025, grid=0.5)
WALL = 0.76  # m, y of its face
LOOK = Look(location=(0.06, -2.72, 1.08), target=(0.06, 0.0, 0.3926), fovy=45.0, facets=(16, 8))  # of 74 shapes
ANCHOR = (0.0, 0.0, 0.45)
BASE, BASE_YAW = (0.90, 0.40, 0.35), math.atan2(-0.40, -0.60)  # on a pedestal next to the ball's path
BENT, ASKEW = math.radians(90), math.radians(120)  # the handle leaves the flange at a right angle; about which axis
BLADE = (0.018, 0.16, 0.20)  # m, half sizes; the normal is x
REACH = 0.32  # m from the flange to the blade's middle
BASKET, OPENING, BASKET_DEPTH, TUBE = np.array([-0.59, 0.0, 0.80]), 0.245, 0.25, 0.018  # m
BOTTOM = 0.63 * OPENING
INSIDE = OPENING - RADIUS  # m from the middle: a ball that passes the rim's height here has entered
STEP = np.full(3, 0.04)  # m per frame for a control of 1
FASTEST = 4.0
# restitution and friction with the ball
SURFACES = {
    "blade": (0.92, (0.25, 0.005, 0.0005)),
    "floor": (0.92, (0.05, 0.002, 0.0005)),
    "rim": (0.52, (0.20, 0.004, 0.0005)),
    "bottom": (0.25, (0.35, 0.006, 0.0005)),
    "robot": (0.45, (0.25, 0.005, 0.0005)),
    "net": (0.18, (0.30, 0.006, 0.0005)),
    "wall": (0.72, (0.05, 0.002, 0.0005)),
    "stand": (0.45, (0.25, 0.005, 0.0005)),
}


# --- the model --------------------------------------------------------------------------------------------------------


def build_spec() -> tuple[Any, dict[str, str]]:
    """The mujoco.MjSpec of the scene, and the kind of each geom that the ball can touch."""
    spec = start_spec(LOOK)
    add_ball(spec, RADIUS, material="ball")
    kinds = _add_room(spec) | _add_basket(spec) | _add_paddle(add_robot(spec, PANDA, BASE, yaw(BASE_YAW)))
    kinds |= dict.fromkeys(solids_of(PANDA), "robot")
    return spec, kinds


def _add_room(spec: Any) -> dict[str, str]:
    """Add floor, back wall and the arm's pedestal; returns the kind of each geom that the ball can touch."""
    box = mujoco.mjtGeom.mjGEOM_BOX
    spec.add_material(name="ground", rgba=(0.70, 0.73, 0.72, 1), specular=0.02, shininess=0.05)
    spec.add_material(name="backwall", rgba=(0.47, 0.53, 0.57, 1), specular=0.01, shininess=0.02)
    spec.worldbody.add_site(type=box, pos=(0, -1.62, -0.01), size=(4, 2.38, 0.01), material="ground", group=BACKDROP)
    spec.worldbody.add_site(type=box, pos=(0, WALL + 0.025, 1.2), size=(4, 0.025, 1.2), material="backwall", group=BACKDROP)
    pedestal = {
        "type": box,
        "size": [0.13, 0.11, BASE[2] / 2],
        "pos": [BASE[0], BASE[1], BASE[2] / 2],
        "quat": yaw(BASE_YAW),
    }
    spec.worldbody.add_site(name="pedestal", rgba=(0.30, 0.33, 0.36, 1), group=BACKDROP, **pedestal)
    hidden = {"group": world3d.HIDDEN, **OFF}
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], **hidden)
    spec.worldbody.add_geom(name="wall", type=box, pos=(0, WALL + 0.5, 5.0), size=(4, 0.5, 5.0), **hidden)
    spec.worldbody.add_geom(name="pedestal", **pedestal, **hidden)
    return {"floor": "floor", "wall": "wall", "pedestal": "stand"}


def _add_basket(spec: Any) -> dict[str, str]:
    """Add rim, net, bottom, pole and bracket; returns the kind of each geom that the ball can touch."""
    body = spec.worldbody.add_body(name="basket", pos=BASKET)
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    kinds = {}
    corners = [(OPENING * math.cos(a), OPENING * math.sin(a)) for a in np.arange(21) * math.pi / 10]
    for i, (start, end) in enumerate(pairwise(corners)):
        ends = {"fromto": [*start, 0, *end, 0], "size": [TUBE, 0, 0]}
        body.add_geom(name=f"rim{i}", type=capsule, rgba=(1, 0.48, 0.04, 1), **ends, **OFF)
        kinds[f"rim{i}"] = "rim"
    for i, a in enumerate(np.arange(16) * math.pi / 8):
        c, s = math.cos(a), math.sin(a)
        ends = {"fromto": [OPENING * c, OPENING * s, -0.012, BOTTOM * c, BOTTOM * s, -BASKET_DEPTH], "size": [0.008, 0, 0]}
        body.add_geom(name=f"net{i}", type=capsule, rgba=(0.12, 0.82, 0.70, 1), **ends, **OFF)
        kinds[f"net{i}"] = "net"
    kind = {"type": mujoco.mjtGeom.mjGEOM_CYLINDER, "size": [BOTTOM, 0.014, 0], "rgba": (0.10, 0.62, 0.55, 1)}
    body.add_geom(name="bottom", pos=[0, 0, -BASKET_DEPTH], **kind, **OFF)
    dark = {"rgba": (0.10, 0.14, 0.17, 1), **OFF}
    body.add_geom(name="pole", type=mujoco.mjtGeom.mjGEOM_BOX, pos=[-0.29, 0, -0.41], size=[0.025, 0.025, 0.39], **dark)
    body.add_geom(name="bracket", type=capsule, fromto=[-0.29, 0, -0.06, -OPENING, 0, 0], size=[0.012, 0, 0], **dark)
    return {**kinds, "bottom": "bottom", "pole": "stand", "bracket": "stand"}


def _add_paddle(hand: Any) -> dict[str, str]:
    """Add blade, handle and adapter to the flange, 0.35 kg; returns their kinds. The paddle's x axis is its normal."""
    z = rotation_of(BENT * np.array([0.0, math.cos(ASKEW), math.sin(ASKEW)]))[:, 0]  # the flange's, in the paddle's axes
    x = np.cross([0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    axes, quat = np.stack([x, np.cross(z, x), z]), np.zeros(4)  # the paddle's, in the flange's
    mujoco.mju_mat2Quat(quat, axes.ravel())
    body = hand.add_body(name="paddle", pos=REACH * axes[:, 0], quat=quat)
    body.add_site(name=TOOL, group=world3d.HIDDEN)
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    box = {"type": mujoco.mjtGeom.mjGEOM_BOX, "size": BLADE, "rgba": (0.06, 0.58, 0.96, 1)}
    body.add_geom(name="blade", mass=0.25, **box, **OFF)
    wood = {"rgba": (0.48, 0.25, 0.09, 1), **OFF}
    body.add_geom(name="handle", type=capsule, fromto=[-0.018, 0, 0, -0.24, 0, 0], size=[0.018, 0, 0], mass=0.08, **wood)
    body.add_geom(name="grip", type=capsule, fromto=[-0.24, 0, 0, -REACH, 0, 0], size=[0.018, 0, 0], mass=0.02, **wood)
    metal = {"type": mujoco.mjtGeom.mjGEOM_CYLINDER, "fromto": [-REACH, 0, 0, -REACH + 0.036, 0, 0], "size": [0.031, 0, 0]}
    body.add_geom(name="adapter", mass=0.0, rgba=(0.22, 0.24, 0.27, 1), **metal, **OFF)
    return {"blade": "blade", **dict.fromkeys(("handle", "grip", "adapter"), "robot")}


def facing(phi: float, theta: float) -> np.ndarray:
    """The paddle's axes when its face looks along (-cos theta, sin theta cos phi, sin theta sin phi), its edge upward."""
    x = np.array([-math.cos(theta), math.sin(theta) * math.cos(phi), math.sin(theta) * math.sin(phi)])
    up = np.array([0.0, 0.0, 1.0]) if abs(x[2]) < 0.94 else np.array([1.0, 0.0, 0.0])
    z = up - (up @ x) * x
    z /= np.linalg.norm(z)
    return np.stack([x, np.cross(z, x), z], axis=1)


def tilt_of(normal: np.ndarray) -> tuple[float, float]:
    """phi and theta of a face that looks along the normal."""
    phi = math.atan2(normal[2], normal[1]) if math.hypot(normal[1], normal[2]) > 1e-9 else 0.0
    return phi, math.acos(min(max(-normal[0], 0.0), 1.0))


# --- the events of an episode -----------------------------------------------------------------------------------------

# the record of a strike; intercept, wanted velocity and aim are the expert's
STRIKE = (
    *vector("intercept", "m", "x", "y", "z"),
    *vector("contact", "m", "x", "y", "z"),
    *vector("incoming", "m/s", "vx", "vy", "vz"),
    *vector("outgoing", "m/s", "vx", "vy", "vz"),
    *vector("wanted", "m/s", "vx", "vy", "vz"),
    *vector("aim", "m", "x", "y", "z"),
    *vector("normal", "1", "x", "y", "z"),
    *vector("paddle", "m/s", "vx", "vy", "vz"),
    *vector("paddle", "rad/s", "wx", "wy", "wz"),
    Quantity("time_to_entry", "s"),
    Quantity("nearest", "m"),
)
FAILURES = ("undershoot", "overshoot", "left_right_miss", "rim_hit", "invalid_robot_contact", "no_paddle_contact")
LEAVING = 0.03  # s after the first touch in which the ball leaves the blade


@dataclass
class Events:
    """The events so far. Positions in m, times in s of the simulation."""

    before: tuple[np.ndarray, np.ndarray] = field(default_factory=lambda: (np.zeros(3), np.zeros(3)))  # ball a substep ago
    struck: bool = False  # the blade was the first part of the robot that the ball touched
    spoiled: bool = False  # another part was
    rim: bool = False  # the ball touched it
    crossed: bool = False  # the struck ball came down through the rim's height
    entered: bool = False  # and was inside there
    relaxed: bool = False  # entered, or touched rim, net or bottom
    time: float = 0.0  # of the strike
    crossing: np.ndarray = field(default_factory=lambda: np.zeros(2))  # where it crossed
    strike: np.ndarray = field(default_factory=lambda: np.zeros(len(STRIKE)))

    def begin(self, time: float, position: np.ndarray, normal: np.ndarray, motion: np.ndarray) -> None:
        """The blade strikes a ball at `position`, its face along `normal`; motion (6,): its angular and linear velocity."""
        self.struck, self.time = True, time
        touch = position - normal * RADIUS
        self.strike[3:9] = *touch, *self.before[1]
        self.strike[18:27] = *normal, *motion[3:], *motion[:3]
        self.strike[28] = math.inf

    def follow(self, time: float, position: np.ndarray, velocity: np.ndarray) -> None:
        """Note, after the strike, how the ball left, how near it came, where it came down through the rim's height."""
        if time - self.time < LEAVING:
            self.strike[9:12] = velocity
        out = max(math.hypot(*(position[:2] - BASKET[:2])) - INSIDE, 0.0)
        near = math.hypot(out, position[2] - BASKET[2])
        if near < self.strike[28]:
            self.strike[27:] = time - self.time, near
        was = self.before[0][2]
        if not self.crossed and was > BASKET[2] >= position[2]:
            share = (was - BASKET[2]) / (was - position[2])
            self.crossing = (self.before[0] + share * (position - self.before[0]))[:2]
            self.crossed = True
            self.entered = math.hypot(*(self.crossing - BASKET[:2])) <= INSIDE

    @property
    def outgoing(self) -> np.ndarray:
        """The ball's velocity as it left the blade, (3,)."""
        return self.strike[9:12]

    def failure(self) -> str:
        """The name of the failure if nothing more happens; "none" for success."""
        if not self.struck:
            return "invalid_robot_contact" if self.spoiled else "no_paddle_contact"
        if self.entered:
            return "none"
        if self.rim:
            return "rim_hit"
        if not self.crossed:
            return "undershoot"  # it never came up to the rim's height, or has not come down
        dx, dy = self.crossing - BASKET[:2]
        if dx > INSIDE:
            return "undershoot"
        if dx < -INSIDE:
            return "overshoot"
        return "left_right_miss" if abs(dy) > INSIDE else "other"
