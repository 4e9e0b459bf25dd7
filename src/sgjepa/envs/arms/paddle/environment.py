"""Arm Paddle Ball: a Unitree Z1 holds a small square paddle and keeps a ball bouncing on it.

The control (dx, dy, dz, phi, theta) moves the paddle's target by 44, 36 and 32 mm per frame for a 1, and sets its tilt: the
face's normal leans by theta towards the direction phi, 0 being +x. The paddle is a part of the arm and goes there in the
frame, so it meets the ball with a speed, and its restitution of 0.92 holds between the two. Friction turns the ball.

Success: the floor is never touched in all 63 steps, and some flight from one touch of the paddle to the next reaches 0.28 m
(the paper's), begins after the first second, lasts at least 5 frames, rises at least 0.15 m over the paddle, and has its
highest point between the two (the authors' code). At zero gravity no ball comes back, so nobody can succeed there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from sgjepa.envs import spatial
from sgjepa.envs.arms.base import ArmWorld
from sgjepa.envs.arms.paddle.demonstrator import Juggler
from sgjepa.envs.arms.paddle.scene import (
    ARENA,
    CENTRE,
    LOOK,
    MASS,
    RADIUS,
    START_HEIGHT,
    STEEPEST,
    STEP,
    SURFACES,
    TOUCH,
    WORKSPACE,
    build,
    leaning,
    tilt_of,
)
from sgjepa.envs.arms.paddle.success import flights
from sgjepa.envs.arms.records import TILT, arm_record, blade_limits, flags, shifts, tool_record
from sgjepa.envs.robots.z1 import Z1
from sgjepa.envs.usual import EARTH, IN_SPACE, PLANETS
from sgjepa.envs.world import Measure, Usual, World

PLANS = ("success",) * 4 + ("failure",) + ("success",) * 5


@dataclass
class Attempt:
    """What the frames of the episode have seen."""

    start: str = "falling"  # or "resting"
    dropped: bool = False  # the ball has touched the floor
    put: int = 0  # the frame at which the ball was last put somewhere
    # by frame, until the ball is dropped: whether the paddle was touched, heights of ball and paddle in m
    history: list[tuple[float, float, float]] = field(default_factory=list)


class ArmPaddleBall(ArmWorld):
    """See the module. `plan` at reset: "success" or "failure", in which the paddle moves away after a while."""

    robot = Z1
    arena = ARENA
    look = LOOK
    anchor = LOOK.target
    radius = RADIUS
    tool_shadow = 0.07
    stride, workspace = STEP, WORKSPACE
    attempt: Attempt
    _expert: Juggler
    touches = ("paddle", "floor", "wall", "robot")
    world: ClassVar[World] = World(
        name="arm_paddle_ball",
        gym_id="sgjepa/ArmPaddleBall-v0",
        state=spatial.BALL,
        control=(*shifts(STEP), *TILT),
        control_limit=blade_limits(1.0, STEEPEST),
        phys=spatial.phys("box"),
        nominal_law={"gravity": 9.8},
        laws=("gravity",),  # the demonstrator reckons with a vertical pull
        succeeds=True,
        measures=(
            Measure("success", "no touch of the floor in all steps, and at least one bounce"),
            Measure("no_floor", "the ball never touched the floor"),
            Measure("bounces", "flights from paddle to paddle that pass the gates, before any touch of the floor", unit="1"),
        ),
        probed=spatial.FLYING,
        usual=Usual(EARTH, PLANETS, IN_SPACE, patch=16, sigreg=0.72),
        image_size=256,
        records={
            "paddle": tool_record("paddle"),
            "tilt": TILT,
            "arm": arm_record(Z1),
            "contact": flags("ball_paddle", "ball_floor", "ball_wall", "ball_robot"),
        },
        own=("paddle", "tilt"),
        labels={
            "plan": ("success", "failure"),
            "start": ("falling", "resting"),
            "outcome": ("success", "floor", "too_low"),
        },
        plans=PLANS,
        to_succeed="success",
        outcome="outcome",
    )

    def _build(self) -> None:
        self._adopt(*build(), SURFACES)
        self._rest = self._posture(np.array([*CENTRE, START_HEIGHT]), np.eye(3))
        self.attempt = Attempt()

    def _launch(self, rng: np.random.Generator) -> None:
        resting = rng.uniform() < 0.5 and self.law["gravity"] > 1.5
        place = np.array([*CENTRE, START_HEIGHT])
        if resting:
            place[:2] += rng.uniform(-1, 1, 2) * (0.08, 0.035)
            ball = place + np.array([*rng.uniform(-0.02, 0.02, 2), TOUCH + 0.001])
            velocity = np.zeros(3)
        else:
            ball = np.array([rng.uniform(-0.11, 0.11), rng.uniform(-0.645, -0.555), rng.uniform(0.34684, 0.40809)])
            velocity = np.array([rng.uniform(-0.036, 0.036), rng.uniform(-0.032, 0.032), rng.uniform(-0.57523, -0.16435)])
        self._place(MASS, ball, velocity, np.zeros(3))
        turn = rng.normal(size=4)
        self.data.qpos[self._ball][3:] = turn / np.linalg.norm(turn)
        self._pose(place, np.eye(3), self.arm.solve(place, np.eye(3), self._rest).joints)
        self.attempt = Attempt("resting" if resting else "falling", history=[(0.0, ball[2], place[2])])
        self._expert = Juggler(np.random.default_rng(rng.integers(2**63)), resting, drop=self.plan == "failure")

    def _set_state(self, state: Mapping[str, float]) -> None:
        super()._set_state(state)
        self.attempt.put, self.attempt.history[-1] = self.t, self._heights(0.0)

    def _advance(self, control: np.ndarray) -> None:
        self._shift(control[:3], leaning(*control[3:]))
        self.attempt.dropped |= bool(self.touched[1])
        if not self.attempt.dropped:
            self.attempt.history.append(self._heights(float(self.touched[0])))

    def _heights(self, touched: float) -> tuple[float, float, float]:
        return touched, float(self.data.qpos[self._ball][2]), float(self.tool()[0][2])

    def _watch(self) -> None:
        pass

    def success(self) -> bool:
        return not self.attempt.dropped and self.t == self.world.frames - 1 and self._bounces() > 0

    def _bounces(self) -> int:
        touched, ball, paddle = np.array(self.attempt.history).T
        return flights(touched > 0, ball, paddle, self.attempt.put)

    def measures(self) -> dict[str, float]:
        kept_up = float(not self.attempt.dropped)
        return {"success": float(self.success()), "no_floor": kept_up, "bounces": float(self._bounces())}

    def decided(self) -> bool:
        return self.attempt.dropped

    def records(self) -> dict[str, np.ndarray]:
        return {
            "paddle": self._tool_record(),
            "tilt": tilt_of(self.command.rotation[:, 2]),
            "arm": self._arm_record(),
            "contact": self.touched.astype(float),
        }

    def labels(self) -> dict[str, str]:
        outcome = "floor" if self.attempt.dropped else "success" if self.success() else "too_low"
        return {"plan": self.plan, "start": self.attempt.start, "outcome": outcome}

    def phys(self) -> np.ndarray:
        box = (*ARENA.half, ARENA.height, ARENA.thickness)
        return np.array([self.law["gravity"], MASS, RADIUS, RADIUS, RADIUS, 0, *box])

    def expert(self) -> np.ndarray:
        """Juggle: see `demonstrator.Juggler`."""
        self._begun("expert")
        spin = self.state()[10:13]
        return self._expert.act(self.t, *self.ball(), spin, self.command.position, self.law["gravity"])
