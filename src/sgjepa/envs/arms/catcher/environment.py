"""Arm Catcher Ball: a Unitree Z1 holds an open box on its wrist and catches a ball that comes bouncing from the far end.

The control (dx, dy, dz) moves the box's target, a 1 by 16, 13.3 and 16 mm per frame. The box looks at the far end (+y) and
stays upright. The ball fits with 18 mm to spare on every side, so what enters is centred: when its centre is within 26 mm
of the axis and as deep as it goes, it is latched, a weld that stops it in the box and gives its momentum to the arm. That is
the only thing here that is not a contact or a motor. A ball that hits the rim or passes beside the box is missed; behind
the box it may bounce off the arm.

The floor and the walls give back all speed and have no friction, so the ball's spin, which cannot be seen, does not matter.
Below zero gravity a ball never comes down again: it is then thrown faster, to pass the arm before it leaves the scene.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sgjepa.envs import spatial
from sgjepa.envs.arms.base import ArmWorld
from sgjepa.envs.arms.catcher.demonstrator import Hand
from sgjepa.envs.arms.catcher.launch import throw
from sgjepa.envs.arms.catcher.scene import (
    ARENA,
    CENTRAL,
    GRAB,
    LOOK,
    PASSED,
    RADIUS,
    REACHED,
    START,
    STEP,
    SURFACES,
    UPRIGHT,
    WORKSPACE,
    build,
)
from sgjepa.envs.arms.records import arm_record, flags, shifts, tool_record
from sgjepa.envs.headless import mujoco
from sgjepa.envs.robots.z1 import Z1
from sgjepa.envs.usual import IN_SPACE, NARROW
from sgjepa.envs.world import Measure, Usual, World
from sgjepa.laws import evenly

MASS = (0.5, 2.0)  # kg; all ranges are uniform
SPIN = 6.0  # rad/s about each axis
PLANS = ("capture", "miss", "capture", "capture", "capture")


@dataclass
class Attempt:
    """What became of the ball so far."""

    captured: bool = False
    missed: bool = False
    reached: bool = False  # it has come as far as the box
    why: str = ""  # it was missed
    time: float = math.nan  # s, of the capture


class ArmCatcherBall(ArmWorld):
    """See the module. `plan` at reset: "capture" or "miss"."""

    robot = Z1
    arena = ARENA
    look = LOOK
    anchor = LOOK.target
    radius = RADIUS
    tool_shadow = 0.085
    stride, workspace = STEP, WORKSPACE
    attempt: Attempt
    _expert: Hand
    touches = ("catcher", "floor", "wall", "robot")
    world: ClassVar[World] = World(
        name="arm_catcher_ball",
        gym_id="sgjepa/ArmCatcherBall-v0",
        state=spatial.BALL,
        control=shifts(STEP),
        control_limit=1.0,
        phys=spatial.phys("box"),
        nominal_law={"gravity": 4.0},
        laws=("gravity",),  # the demonstrator reckons with a vertical pull
        succeeds=True,
        measures=(
            Measure("success", "the ball is caught in the box"),
            Measure("missed", "the ball passed beside the box or bounced off it", better=-1),
            Measure("time_to_capture", "from the start, of the episodes with a capture", unit="s", better=-1),
        ),
        probed=spatial.FLYING,
        usual=Usual(NARROW, {"gravity": evenly(-1.0, 10.0, 0.5)}, IN_SPACE, patch=16, sigreg=0.18),
        image_size=256,
        records={
            "catcher": tool_record("catcher"),
            "arm": arm_record(Z1),
            "contact": flags("ball_catcher", "ball_floor", "ball_wall", "ball_robot"),
            "event": flags("captured", "missed"),
        },
        own=("catcher",),
        meets=(("x", "y", "z"), ("catcher_x", "catcher_y", "catcher_z")),
        labels={
            "plan": ("capture", "miss"),
            "outcome": ("capture", "miss", "truncated"),
            "reason": ("captured", "passed_beside", "bounced_off", "never_arrived", "not_settled"),
        },
        plans=PLANS,
        to_succeed="capture",
        outcome="reason",
    )

    def _build(self) -> None:
        self._adopt(*build(), SURFACES)
        self._rest = self._posture(START, UPRIGHT)
        self.attempt = Attempt()

    # --- the start ----------------------------------------------------------------------------------------------

    def _launch(self, rng: np.random.Generator) -> None:
        self.attempt = Attempt()
        position, velocity = throw(rng, self.law["gravity"], self.plan == "capture")
        self._place(rng.uniform(*MASS), position, velocity, rng.uniform(-SPIN, SPIN, 3))
        self._pose(START, UPRIGHT, self._rest)
        self._expert = Hand(np.random.default_rng(rng.integers(2**63)), careful=self.plan == "capture")

    # --- what happens -------------------------------------------------------------------------------------------

    def _advance(self, control: np.ndarray) -> None:
        self._shift(control, UPRIGHT)

    def _watch(self) -> None:
        attempt = self.attempt
        if attempt.captured or attempt.missed:
            return
        position, rotation = self.tool()
        relative = rotation.T @ (self.data.qpos[self._ball][:3] - position)
        across, depth = math.hypot(relative[0], relative[2]), relative[1]
        attempt.reached |= depth <= REACHED or bool(self.touched[0])
        if across <= CENTRAL and depth <= GRAB:
            self._latch()
        elif depth <= PASSED:
            attempt.missed, attempt.why = True, "passed_beside"
        elif attempt.reached and self.touched[1:].any():
            attempt.missed, attempt.why = True, "bounced_off"

    def _latch(self) -> None:
        """Weld the ball to the box where it is: its momentum goes into the arm."""
        self.attempt.captured, self.attempt.time = True, float(self.data.time)
        mujoco.mj_kinematics(self.model, self.data)  # the poses of this instant
        box, ball = self.data.body("catcher"), self.data.body("ball")
        inverse, turn, offset = np.zeros(4), np.zeros(4), np.zeros(3)
        mujoco.mju_negQuat(inverse, box.xquat)
        mujoco.mju_mulQuat(turn, inverse, ball.xquat)
        mujoco.mju_rotVecQuat(offset, ball.xpos - box.xpos, inverse)
        number = self.model.equality("latch").id
        self.model.eq_data[number, :10] = 0, 0, 0, *offset, *turn
        self.data.eq_active[number] = 1

    def success(self) -> bool:
        return self.attempt.captured

    def measures(self) -> dict[str, float]:
        attempt = self.attempt
        return {
            "success": float(attempt.captured),
            "missed": float(attempt.missed),
            "time_to_capture": attempt.time,
        }

    def decided(self) -> bool:
        return self.attempt.captured or self.attempt.missed

    def records(self) -> dict[str, np.ndarray]:
        return {
            "catcher": self._tool_record(),
            "arm": self._arm_record(),
            "contact": self.touched.astype(float),
            "event": np.array([self.attempt.captured, self.attempt.missed], float),
        }

    def labels(self) -> dict[str, str]:
        if self.attempt.captured:
            outcome, reason = "capture", "captured"
        elif self.attempt.missed:
            outcome, reason = "miss", self.attempt.why
        else:
            outcome, reason = ("miss", "not_settled") if self.attempt.reached else ("truncated", "never_arrived")
        return {"plan": self.plan, "outcome": outcome, "reason": reason}

    def phys(self) -> np.ndarray:
        box = (*ARENA.half, ARENA.height, ARENA.thickness)
        return np.array([self.law["gravity"], self._mass, RADIUS, RADIUS, RADIUS, 0, *box])

    def expert(self) -> np.ndarray:
        """Put the box where the ball will be, early, and wait: see `demonstrator.Hand`."""
        self._begun("expert")
        if self.attempt.captured or self.attempt.missed:
            return np.zeros(3, np.float32)
        return self._expert.act(self.t, *self.ball(), self.command.position, self.law["gravity"])
