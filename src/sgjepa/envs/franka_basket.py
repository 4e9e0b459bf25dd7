"""Franka Paddle-to-Basket: a Panda with a paddle strikes an incoming ball into a basket.

The ball is thrown up in front of the basket and bounces towards the arm. The control (dx, dy, dz, phi, theta) moves the
blade's target by 40 mm per frame for a 1, up to 4, and sets where its face looks: the normal is (-cos theta, sin theta
cos phi, sin theta sin phi). The paddle is a part of the arm, 0.32 m from its flange, and the servos swing it: blade and
ball exchange momentum with a restitution of 0.92. No command asks a joint for more than its published speed.

Success: the blade is the first part of the robot (blade, handle, links) that the ball touches, and then the first time the
ball comes down through the height of the rim it is within 0.17 m of the middle. `relaxed` asks, after the blade, only for
entry or a touch of rim, net or bottom. The failure is the first that applies of no_paddle_contact or invalid_robot_contact,
rim_hit, undershoot (also if it never came up to the rim), overshoot, left_right_miss, other.

Unlike in the authors' scene the ball does not start under the basket, whose bottom it would hit; the arm stands on a
pedestal, and the paddle's handle leaves the flange at a right angle. On the floor, with a handle along its last axis, a
Panda can neither look up where it must strike nor swing fast enough (docs/log.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from sgjepa.envs import world3d
from sgjepa.envs.arm_world import TILT, ArmWorld, arm_record, blade_limits, flags, shifts, tool_record, vector
from sgjepa.envs.franka_basket_expert import BasketExpert
from sgjepa.envs.franka_basket_scene import (
    ANCHOR,
    BASKET,
    BASKET_DEPTH,
    FAILURES,
    FASTEST,
    FLOOR,
    LOOK,
    MASS,
    OPENING,
    RADIUS,
    STEP,
    STRIKE,
    SURFACES,
    TUBE,
    Events,
    build_spec,
    facing,
    tilt_of,
)
from sgjepa.envs.robots.panda import PANDA
from sgjepa.envs.spec import BODY_GRAVITIES, SIZES_3D, DatasetDefaults, DatasetSize, EnvSpec, Measure
from sgjepa.laws import ClippedNormal, Grid, evenly

START_X, STRIKE_X = -0.25, 0.36  # m; where the ball comes from and where it is struck
REST, LIFTED = np.array([0.60, 0.0, 0.50]), math.radians(25)  # m, rad; where the blade waits and how far it looks up
MEETING, STEEP = np.array([0.40, 0.0, 0.66]), math.radians(50)  # m, rad; where it typically meets the ball
POSTURE = (-0.25, 1.06, 0.46, -1.86, 1.76, 1.68, 1.61)  # rad, near which it plays
WORKSPACE = np.array([[0.15, -0.50, 0.23], [0.85, 0.50, 1.10]])
PLANS = tuple(FAILURES[i // 3] if i % 3 == 2 and i < 18 else "success" for i in range(20))  # 14 to 6

USUAL = DatasetDefaults(
    train={"gravity": ClippedNormal(mean=9.8, std=2.0, floor=0.62)},
    test={"gravity": Grid((*evenly(2.0, 16.0, 0.7).values, *reversed(BODY_GRAVITIES)))},  # 25 values
    sizes={**SIZES_3D, "paper": DatasetSize(pixels=256, train=8000, test=5000)},
)


class FrankaPaddleToBasket(ArmWorld):
    """The world of this module. `plan` at reset: "success" or one of six failures."""

    robot = PANDA
    arena = FLOOR
    look = LOOK
    radius = RADIUS
    limb_radius = 0.06
    tool_shadow = 0.15
    stride, workspace = STEP, WORKSPACE
    events: Events
    _expert: BasketExpert
    contact_kinds = ("blade", "floor", "wall", "rim", "bottom", "robot", "net", "stand")
    env_spec: ClassVar[EnvSpec] = EnvSpec(
        name="franka_basket",
        gym_id="sgjepa/FrankaPaddleToBasket-v0",
        state=world3d.BALL,
        control=(*shifts(STEP), *TILT),
        control_limit=blade_limits(FASTEST, math.pi / 2),
        phys=world3d.phys("ground"),
        nominal_law={"gravity": 9.8},
        laws=("gravity",),  # the expert assumes a vertical pull
        has_task=True,
        measures=(
            Measure("success", "the blade strikes the ball first, then it comes down inside the rim", condition="blade"),
            Measure("relaxed", "after the blade, the ball enters or touches rim, net or bottom", condition="blade"),
            Measure("blade", "the blade is the first part of the robot that the ball touches"),
        ),
        rest_control=(0.0, 0.0, 0.0, math.pi / 2, LIFTED),  # a control of zeros would turn the blade down
        probed=world3d.FLYING,
        defaults=USUAL,
        image_size=256,
        records={
            "paddle": tool_record("paddle"),
            "tilt": TILT,
            "arm": arm_record(PANDA),
            "basket": vector("basket", "m", "x", "y", "z", "radius", "depth", "tube"),
            "contact": flags("ball_blade", "ball_floor", "ball_wall", "ball_rim", "ball_bottom", "ball_robot"),
            "event": flags("paddle_contact", "blade_contact", "entry", "rim_hit", "relaxed"),
            "strike": STRIKE,
        },
        observed_records=("paddle", "tilt"),
        labels={"plan": ("success", *FAILURES), "failure": ("none", *FAILURES, "other")},
        expert_plans=PLANS,
        success_plan="success",
        outcome_label="failure",
    )

    @property
    def anchor(self) -> tuple[float, float, float]:
        return ANCHOR

    def _build(self) -> None:
        self._compile(*build_spec(), SURFACES)
        # of the arm's postures, the one in which it strikes best; it waits in the same
        self.arm.home = np.array(POSTURE)
        self.arm.home = self.arm.solve(MEETING, facing(math.pi / 2, STEEP), self.arm.home, iterations=200).joints
        self._rest = self.arm.solve(REST, facing(math.pi / 2, LIFTED), self.arm.home, iterations=200).joints
        self.events = Events()

    def _launch(self, rng: np.random.Generator) -> None:
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
        self._set_ball(MASS, np.array([x, y, z]), np.array([across, 0.0, climb]), np.zeros(3))
        self._set_arm(REST, facing(math.pi / 2, LIFTED), self._rest)
        self.events = Events(before=self.ball())
        self._expert = BasketExpert(np.random.default_rng(rng.integers(2**63)), self.plan)

    def _set_state(self, state: Mapping[str, float]) -> None:
        super()._set_state(state)
        self.events.before = self.ball()

    def _advance(self, control: np.ndarray) -> None:
        self._advance_target(control[:3], facing(*control[3:]))

    def _after_substep(self) -> None:
        events, time, (position, velocity) = self.events, self.data.time, self.ball()
        events.rim |= bool(self.touched[3])
        if not (events.struck or events.spoiled):
            if self.touched[5]:
                events.spoiled = True
            elif self.touched[0]:
                events.begin(time, position, self.tool()[1][:, 0], self.tool_velocity())
        if events.struck:
            events.follow(time, position, velocity)
            events.relaxed |= events.entered or bool(self.touched[[3, 4, 6]].any())
        events.before = position, velocity

    def success(self) -> bool:
        return self.events.struck and self.events.entered

    def measures(self) -> dict[str, float]:
        events = self.events
        return {"success": float(self.success()), "relaxed": float(events.relaxed), "blade": float(events.struck)}

    def decided(self) -> bool:
        return self.events.spoiled or self.success()

    def records(self) -> dict[str, np.ndarray]:
        events, plan, touched = self.events, self._expert.summary(), self.touched.astype(float)
        strike = events.strike.copy()
        if events.struck:
            strike[:3], strike[12:18] = plan[:3], plan[3:]
        flagged = [events.struck or events.spoiled, events.struck, self.success(), events.rim, events.relaxed]
        return {
            "paddle": self._tool_record(),
            "tilt": np.array(tilt_of(self.command.rotation[:, 0])),
            "arm": self._arm_record(),
            "basket": np.array([*BASKET, OPENING, BASKET_DEPTH, TUBE]),
            "contact": touched[:6],
            "event": np.array(flagged, float),
            "strike": strike,
        }

    def labels(self) -> dict[str, str]:
        return {"plan": self.plan, "failure": self.events.failure()}

    def phys(self) -> np.ndarray:
        return np.array([self.law["gravity"], MASS, RADIUS, RADIUS, RADIUS, 0, 4.0, 4.0, FLOOR.height, FLOOR.thickness])

    def expert(self) -> np.ndarray:
        """Strike as planned (`BasketExpert`)."""
        self._require_reset("expert")
        return self._expert.act(self)
