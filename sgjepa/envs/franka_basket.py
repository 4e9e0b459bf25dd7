"""Franka Paddle-to-Basket: a Panda with a paddle strikes an incoming ball into a basket.

The ball is thrown up in front of the basket and bounces towards the arm. The control (dx, dy, dz, phi, theta) moves the
blade's target by 40 mm a frame for a 1, up to 4, and sets where its face looks: the normal is (-cos theta, sin theta
cos phi, sin theta sin phi). The paddle is a part of the arm, 0.32 m from its flange, and the servos swing it: blade and
ball exchange momentum with a restitution of 0.92. No command asks a joint for more than its published speed.

Success: the blade is the first part of the robot that the ball touches, and then the first time the ball comes down
through the height of the rim it is within 0.17 m of the middle. `relaxed` asks, after the blade, only for entry or a touch
of rim, net or bottom. What failed is named in the order no_paddle_contact or invalid_robot_contact, rim_hit, undershoot
(also if it never came up to the rim), overshoot, left_right_miss, other.

Unlike in the authors' scene the ball does not start under the basket, whose bottom it would hit; the arm stands on a
pedestal, and the paddle's handle leaves the flange at a right angle. On the floor, with a handle along its last axis, a
Panda can neither look up where it must strike nor swing fast enough (docs/log.md).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, ClassVar

import mujoco
import numpy as np

from sgjepa.envs import bounce, robots, spatial
from sgjepa.envs.arm_world import (
    OFF,
    TOOL,
    ArmWorld,
    add_ball,
    arm_record,
    flags,
    rotation_of,
    start_spec,
    tool_record,
    vector,
    yaw,
)
from sgjepa.envs.base import Quantity, World
from sgjepa.envs.basket_expert import Striker
from sgjepa.envs.layers import BACKDROP
from sgjepa.envs.panda import PANDA
from sgjepa.envs.spatial import Arena, Look

RADIUS, MASS = 0.075, 0.10  # m, kg
LOOK = Look(location=(0.06, -2.72, 1.08), target=(0.06, 0.0, 0.3926), fovy=45.0)
ANCHOR = (0.0, 0.0, 0.45)
FLOOR = Arena(centre=(0.0, -1.62), half=(4.0, 2.38), height=1.68, thickness=0.025, grid=0.5)
BASE, BASE_YAW = (0.90, 0.40, 0.35), math.atan2(-0.40, -0.60)  # on a pedestal beside the ball's way
BENT, ASKEW = math.radians(90), math.radians(120)  # the handle leaves the flange at a right angle; about which axis
BLADE = (0.018, 0.16, 0.20)  # m, half sizes; the normal is x
REACH = 0.32  # m from the flange to the blade's middle
BASKET, OPENING, BASKET_DEPTH, TUBE = np.array([-0.59, 0.0, 0.80]), 0.245, 0.25, 0.018  # m
BOTTOM = 0.63 * OPENING
INSIDE = OPENING - RADIUS  # m from the middle: a ball that passes the rim's height here has entered
STEP = 0.04  # m a frame for a control of 1
FASTEST = 4.0
START_X, STRIKE_X = -0.25, 0.36  # m; where the ball comes from and where it is struck
REST, LIFTED = np.array([0.60, 0.0, 0.50]), math.radians(25)  # m, rad; where the blade waits and how far it looks up
STRIKE, STEEP = np.array([0.40, 0.0, 0.66]), math.radians(50)  # m, rad; where it typically meets the ball
POSTURE = (-0.25, 1.06, 0.46, -1.86, 1.76, 1.68, 1.61)  # rad, near which it plays
WORKSPACE = np.array([[0.15, -0.50, 0.23], [0.85, 0.50, 1.10]])
# restitution and friction with the ball
SURFACES = {
    "blade": (0.92, (0.25, 0.005, 0.0005)),
    "floor": (0.92, (0.05, 0.002, 0.0005)),
    "rim": (0.52, (0.20, 0.004, 0.0005)),
    "bottom": (0.25, (0.35, 0.006, 0.0005)),
    "robot": (0.45, (0.25, 0.005, 0.0005)),
    "net": (0.18, (0.30, 0.006, 0.0005)),
}
FAILURES = ("undershoot", "overshoot", "left_right_miss", "rim_hit", "invalid_robot_contact", "no_paddle_contact")
PLANS = tuple(FAILURES[i // 3] if i % 3 == 2 and i < 18 else "success" for i in range(20))  # 14 to 6


class FrankaPaddleToBasket(ArmWorld):
    """See the module. `plan` at reset: "success" or one of six failures."""

    robot = PANDA
    arena = FLOOR
    look = LOOK
    anchor = ANCHOR
    radius = RADIUS
    limb = 0.06
    tool_shadow = 0.15
    touches = ("blade", "floor", "wall", "rim", "bottom", "robot", "net")
    world: ClassVar[World] = World(
        name="franka_basket",
        gym_id="sgjepa/FrankaPaddleToBasket-v0",
        state=spatial.BALL,
        control=(*vector("d", "40 mm", "x", "y", "z"), Quantity("phi", "rad"), Quantity("theta", "rad")),
        control_limit=(FASTEST, FASTEST, FASTEST, math.pi, math.pi / 2),
        phys=spatial.phys("ground"),
        nominal_law={"gravity": 9.8},
        image_size=256,
        records={
            "paddle": tool_record("paddle"),
            "tilt": (Quantity("phi", "rad"), Quantity("theta", "rad")),
            "arm": arm_record(PANDA),
            "basket": vector("basket", "m", "x", "y", "z", "radius", "depth", "tube"),
            "contact": flags("ball_blade", "ball_floor", "ball_wall", "ball_rim", "ball_bottom", "ball_robot"),
            "event": flags("paddle_contact", "blade_contact", "entry", "rim_hit", "relaxed"),
            "strike": (
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
            ),
        },
        labels={"plan": ("success", *FAILURES), "failure": ("none", *FAILURES, "other")},
        plans=PLANS,
    )

    def _build(self) -> None:
        self.close()
        spec = start_spec(LOOK)
        _add_room(spec)
        add_ball(spec, RADIUS, material="ball")
        kinds = {"floor": "floor", **_add_basket(spec)}
        pedestal = {"type": mujoco.mjtGeom.mjGEOM_BOX, "size": [0.13, 0.11, BASE[2] / 2], "rgba": (0.30, 0.33, 0.36, 1)}
        place = {"pos": [BASE[0], BASE[1], BASE[2] / 2], "quat": yaw(BASE_YAW)}
        spec.worldbody.add_site(name="pedestal", group=BACKDROP, **pedestal, **place)
        _add_paddle(robots.add(spec, PANDA, BASE, yaw(BASE_YAW)))
        kinds |= {"blade": "blade", "handle": "robot"}
        for geom, kind in kinds.items():
            e, rub = SURFACES[kind]
            spec.add_pair(geomname1="ball", geomname2=geom, **bounce.friction(*rub), **bounce.softness(e))
        self._adopt(spec, kinds)
        # of the arm's postures, the one in which it strikes best; it waits in the same
        self.arm.home = np.array(POSTURE)
        self.arm.home = self.arm.solve(STRIKE, facing(math.pi / 2, STEEP), self.arm.home, iterations=200).joints
        self._rest = self.arm.solve(REST, facing(math.pi / 2, LIFTED), self.arm.home, iterations=200).joints
        self._clear()

    def _clear(self) -> None:
        self._struck = self._spoiled = self._entered = self._crossed = self._rim = self._relaxed = False
        self._crossing = np.zeros(2)
        self._strike = np.zeros(29)
        self._strike_time = 0.0
        self._before = np.zeros(3), np.zeros(3)
        self._leftmost = math.inf
        self._tilt = np.zeros(2)

    def _launch(self, rng: np.random.Generator) -> None:
        self._clear()
        g = max(self.law["gravity"], 0.05)
        x, y, z = START_X, rng.uniform(-0.06, 0.06), RADIUS + rng.uniform(0.003, 0.045)
        top = rng.uniform(0.72, 0.82)  # m; apex of the flight in which it is struck, below the height of the rim
        e = SURFACES["floor"][0]
        for bounces in range(9):
            climb = math.sqrt(2 * g * (RADIUS + (top - RADIUS) / e ** (2 * bounces) - z))
            landing = (climb + math.sqrt(climb**2 + 2 * g * (z - RADIUS))) / g
            speeds = [e**j * (g * landing - climb) for j in range(1, bounces + 1)]
            when = climb / g if not bounces else landing + sum(2 * v / g for v in speeds[:-1]) + speeds[-1] / g
            if when >= 0.88 or g < 2.4:  # one more bounce would leave no time for the way to the basket
                break
        far = STRIKE_X + rng.uniform(-0.03, 0.03) - x
        after = when + 0.11 * math.sqrt(9.8 / max(g, 0.3))  # s; when it is struck, a little past the top
        # the first bounce makes the ball roll: it keeps 5/7 of its speed along the floor
        across = far / after if not bounces else far / (landing + 5 / 7 * (after - landing))
        self._place(MASS, np.array([x, y, z]), np.array([across, 0.0, climb]), np.zeros(3))
        self._pose(REST, facing(math.pi / 2, LIFTED), self._rest)
        self._expert = Striker(np.random.default_rng(rng.integers(2**63)), self.plan, when)

    def _advance(self, control: np.ndarray) -> None:
        self._tilt = control[3:].copy()
        self._move(np.clip(self._target[0] + control[:3] * STEP, *WORKSPACE), facing(*control[3:]))

    def _watch(self) -> None:
        place, speed = self.ball()
        self._rim |= bool(self.touched[3])
        if not (self._struck or self._spoiled):
            if self.touched[5]:
                self._spoiled = True
            elif self.touched[0]:
                self._struck, self._strike_time = True, self.data.time
                normal, motion = self.tool()[1][:, 0], self.tool_velocity()
                touch = place - normal * RADIUS
                self._strike[3:9] = *touch, *self._before[1]
                self._strike[18:27] = *normal, *motion[3:], *motion[:3]
                self._strike[28] = math.inf
        if self._struck:
            if self.data.time - self._strike_time < 0.03:
                self._strike[9:12] = speed
            out = max(math.hypot(*(place[:2] - BASKET[:2])) - INSIDE, 0.0)
            near = math.hypot(out, place[2] - BASKET[2])
            if near < self._strike[28]:
                self._strike[27:] = self.data.time - self._strike_time, near
            self._leftmost = min(self._leftmost, float(place[0]))
            was = self._before[0][2]
            if not self._crossed and was > BASKET[2] >= place[2]:
                share = (was - BASKET[2]) / (was - place[2])
                self._crossing = (self._before[0] + share * (place - self._before[0]))[:2]
                self._crossed = True
                self._entered = math.hypot(*(self._crossing - BASKET[:2])) <= INSIDE
            self._relaxed |= self._entered or bool(self.touched[[3, 4, 6]].any())
        self._before = place, speed

    def success(self) -> bool:
        return self._struck and self._entered

    def records(self) -> dict[str, np.ndarray]:
        touched = self.touched.astype(float)
        plan = self._expert.summary()
        strike = self._strike.copy()
        if self._struck:
            strike[:3], strike[12:18] = plan[:3], plan[3:]
        events = [self._struck or self._spoiled, self._struck, self.success(), self._rim, self._relaxed]
        return {
            "paddle": self._tool_record(),
            "tilt": self._tilt,
            "arm": self._arm_record(),
            "basket": np.array([*BASKET, OPENING, BASKET_DEPTH, TUBE]),
            "contact": touched[:6],
            "event": np.array(events, float),
            "strike": strike,
        }

    def labels(self) -> dict[str, str]:
        return {"plan": self.plan, "failure": self._failure()}

    def _failure(self) -> str:
        if not self._struck:
            return "invalid_robot_contact" if self._spoiled else "no_paddle_contact"
        if self._entered:
            return "none"
        if self._rim:
            return "rim_hit"
        if not self._crossed:
            return "undershoot"  # it never came up to the rim's height, or has not come down
        dx, dy = self._crossing - BASKET[:2]
        if dx > INSIDE:
            return "undershoot"
        if dx < -INSIDE:
            return "overshoot"
        return "left_right_miss" if abs(dy) > INSIDE else "other"

    def phys(self) -> np.ndarray:
        return np.array([self.law["gravity"], MASS, RADIUS, RADIUS, RADIUS, 0, 4.0, 4.0, FLOOR.height, FLOOR.thickness])

    def expert(self) -> np.ndarray:
        """Strike as planned: see `basket_expert.Striker`."""
        self._begun("expert")
        return self._expert.act(self)


def facing(phi: float, theta: float) -> np.ndarray:
    """The paddle's axes when its face looks along (-cos theta, sin theta cos phi, sin theta sin phi), its edge upward."""
    x = np.array([-math.cos(theta), math.sin(theta) * math.cos(phi), math.sin(theta) * math.sin(phi)])
    up = np.array([0.0, 0.0, 1.0]) if abs(x[2]) < 0.94 else np.array([1.0, 0.0, 0.0])
    z = up - (up @ x) * x
    z /= np.linalg.norm(z)
    return np.stack([x, np.cross(z, x), z], axis=1)


def _add_room(spec: Any) -> None:
    box = mujoco.mjtGeom.mjGEOM_BOX
    spec.add_material(name="ground", rgba=(0.70, 0.73, 0.72, 1), specular=0.02, shininess=0.05)
    spec.add_material(name="backwall", rgba=(0.47, 0.53, 0.57, 1), specular=0.01, shininess=0.02)
    spec.worldbody.add_site(type=box, pos=(0, -1.62, -0.01), size=(4, 2.38, 0.01), material="ground", group=BACKDROP)
    spec.worldbody.add_site(type=box, pos=(0, 0.785, 1.2), size=(4, 0.025, 1.2), material="backwall", group=BACKDROP)
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    spec.worldbody.add_geom(name="floor", type=plane, size=[0, 0, 1], group=spatial.HIDDEN, **OFF)


def _add_basket(spec: Any) -> dict[str, str]:
    """Rim, net, bottom, pole and bracket; the kinds of what the ball can touch."""
    body = spec.worldbody.add_body(name="basket", pos=BASKET)
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    kinds = {}
    corners = [(OPENING * math.cos(a), OPENING * math.sin(a)) for a in np.arange(21) * math.pi / 10]
    for i, (one, two) in enumerate(pairwise(corners)):
        ends = {"fromto": [*one, 0, *two, 0], "size": [TUBE, 0, 0]}
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
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, pos=[-0.29, 0, -0.40], size=[0.025, 0.025, 0.40], **dark)
    body.add_geom(type=capsule, fromto=[-0.29, 0, -0.012, -0.1715, 0, -0.115], size=[0.018, 0, 0], **dark)
    return {**kinds, "bottom": "bottom"}


def _add_paddle(hand: Any) -> None:
    """Blade, handle and adapter on the flange, 0.35 kg. The paddle's x axis, its normal, runs along the handle."""
    z = rotation_of(BENT * np.array([0.0, math.cos(ASKEW), math.sin(ASKEW)]))[:, 0]  # the flange's, in the paddle's axes
    x = np.cross([0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    axes, quat = np.stack([x, np.cross(z, x), z]), np.zeros(4)  # the paddle's, in the flange's
    mujoco.mju_mat2Quat(quat, axes.ravel())
    body = hand.add_body(name="paddle", pos=REACH * axes[:, 0], quat=quat)
    body.add_site(name=TOOL, group=spatial.HIDDEN)
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    box = {"type": mujoco.mjtGeom.mjGEOM_BOX, "size": BLADE, "rgba": (0.06, 0.58, 0.96, 1)}
    body.add_geom(name="blade", mass=0.25, **box, **OFF)
    wood = {"rgba": (0.48, 0.25, 0.09, 1), **OFF}
    body.add_geom(name="handle", type=capsule, fromto=[-0.018, 0, 0, -0.24, 0, 0], size=[0.018, 0, 0], mass=0.08, **wood)
    body.add_geom(type=capsule, fromto=[-0.24, 0, 0, -REACH, 0, 0], size=[0.018, 0, 0], mass=0.02, **wood)
    metal = {"type": mujoco.mjtGeom.mjGEOM_CYLINDER, "fromto": [-REACH, 0, 0, -REACH + 0.036, 0, 0], "size": [0.031, 0, 0]}
    body.add_geom(mass=0.0, rgba=(0.22, 0.24, 0.27, 1), **metal, **OFF)
