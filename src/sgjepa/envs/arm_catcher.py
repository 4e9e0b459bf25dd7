"""Arm Catcher Ball: a Unitree Z1 holds an open box into the way of a ball that is thrown towards it.

The control (dx, dy, dz) moves the box's target by 16, 13.3 and 16 mm per frame for a 1. A ball whose centre comes near the
axis and deep enough into the box is held by a latch: success. Plans: "capture", or "miss", in which the ball is thrown past
the workspace and a careless expert aims beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sgjepa.envs import world3d
from sgjepa.envs.arm_physics import Flight
from sgjepa.envs.arm_world import (
    OFF,
    TOOL,
    ArmWorld,
    Surfaces,
    add_ball,
    add_solids,
    arm_record,
    flags,
    shifts,
    start_spec,
    tool_record,
    yaw,
)
from sgjepa.envs.headless import mujoco
from sgjepa.envs.robots.robot import add_robot, solids_of
from sgjepa.envs.robots.z1 import Z1
from sgjepa.envs.spec import NARROW_GRAVITY, SIZES_3D, DatasetDefaults, EnvSpec, Measure
from sgjepa.envs.world3d import Arena, Look
from sgjepa.laws import evenly

# the scene
RADIUS = 1.1 * 0.5 / 7.5  # m
ARENA = Arena(centre=(0.0, 0.23333), half=(0.69333, 1.18), height=0.46667, thickness=0.03333, grid=0.13333)
LOOK = Look(location=(0.06667, -1.20667, 0.87733), target=(0.12, -0.33333, 0.18), fovy=54.0, facets=(28, 8))
BASE = (0.48, -0.60, 0.00667)  # m; from here every pose of the workspace is within the joints' ranges
BASE_YAW = math.radians(135)
INNER = 1.25 * RADIUS  # m, half the width and height of the opening
DEPTH = 0.04  # m, of the box in front of its back plate
PLATE = 0.0028  # m, half the thickness of the back and the sides
# restitution and friction with the ball
SURFACES: Surfaces = {
    "catcher": (0.1, (0.65, 0.04, 0.04)),
    "floor": (1.0, (0.0,)),
    "wall": (1.0, (0.0,)),
    "robot": (0.45, (0.25, 0.005, 0.0005)),
}

# the task
CENTRAL = 0.35 * RADIUS  # m from the axis; a ball that is inside cannot be farther
DEEPEST = RADIUS + 2 * PLATE  # m from the back face to the centre of a ball that touches the plate
GRAB = DEEPEST + 0.004  # m; at this depth the latch closes
PASSED = 0.0234  # m; a centre nearer to the back face that is not latched has gone by
REACHED = 0.11  # m; from here on, floor, wall or arm mean that the ball has bounced off
WORKSPACE = np.array([[0.06, -0.33333, 0.23], [0.46, -0.18667, 0.50]])  # m, of the middle of the box's back face
START = np.array([0.32, -0.28, 0.30667])
STEP = np.array([0.016, 0.013333, 0.016])  # m per frame for a control of 1
UPRIGHT = np.eye(3)
PLANS = ("capture", "miss", "capture", "capture", "capture")

# the start of an episode; all ranges are uniform
MASS = (0.5, 2.0)  # kg
SPIN = 6.0  # rad/s about each axis
# s until the ball crosses the opening's plane: the first range in which the scene allows a launch
CROSSING = ((3.0, 3.6), (2.2, 3.0), (1.5, 2.2), (1.0, 1.5), (0.5, 1.0), (0.25, 0.5))
NEAR_X, FAR_X = (0.11333, 0.30), ((-0.29333, -0.22667), (0.36, 0.42667))  # m; where a ball crosses: catch, miss
HEIGHT_CATCH, HEIGHT_MISS = (0.26, 0.40), (0.17333, 0.43067)  # m, at the crossing
SLOW = 2.2  # m^2/s^3; over gravity, limits climb and fall of a ball to catch, at the crossing
PEAK = 0.624  # m
DRAWS = 512  # velocities that are drawn at once
TRAVEL = 0.05333  # m; the arm must move at least this far


# --- the environment --------------------------------------------------------------------------------------------------


@dataclass
class Events:
    """The events of the ball so far."""

    captured: bool = False
    missed: bool = False
    reached: bool = False  # it has come as far as the box
    reason: str = ""  # for the miss
    time: float = math.nan  # s, of the capture


class ArmCatcherBall(ArmWorld):
    """The world of this module. `plan` at reset: "capture" or "miss"."""

    arena = ARENA
    look = LOOK
    radius = RADIUS
    tool_shadow = 0.085
    stride, workspace = STEP, WORKSPACE
    events: Events
    _expert: CatcherExpert
    contact_kinds = ("catcher", "floor", "wall", "robot")
    env_spec: ClassVar[EnvSpec] = EnvSpec(
        name="arm_catcher_ball",
        gym_id="sgjepa/ArmCatcherBall-v0",
        state=world3d.BALL,
        control=shifts(STEP),
        control_limit=1.0,
        phys=world3d.phys("box"),
        nominal_law={"gravity": 4.0},
        laws=("gravity",),  # the expert assumes a vertical pull
        has_task=True,
        measures=(
            Measure("success", "the ball is caught in the box"),
            Measure("missed", "the ball passed beside the box or bounced off it", better=-1),
            Measure("time_to_capture", "from the start, of the episodes with a capture", unit="s", better=-1),
        ),
        probed=world3d.FLYING,
        defaults=DatasetDefaults(NARROW_GRAVITY, {"gravity": evenly(-1.0, 10.0, 0.5)}, SIZES_3D),
        image_size=256,
        records={
            "catcher": tool_record("catcher"),
            "arm": arm_record(Z1),
            "contact": flags("ball_catcher", "ball_floor", "ball_wall", "ball_robot"),
            "event": flags("captured", "missed"),
        },
        observed_records=("catcher",),
        interception=(("x", "y", "z"), ("catcher_x", "catcher_y", "catcher_z")),
        labels={
            "plan": ("capture", "miss"),
            "outcome": ("capture", "miss", "truncated"),
            "reason": ("captured", "passed_beside", "bounced_off", "never_arrived", "not_settled"),
        },
        expert_plans=PLANS,
        success_plan="capture",
        outcome_label="reason",
    )

    def _build(self) -> None:
        self._compile(*build_spec(), SURFACES)
        self._rest = self._start_posture(START, UPRIGHT)
        self.events = Events()

    # --- the start ----------------------------------------------------------------------------------------------

    def _launch(self, rng: np.random.Generator) -> None:
        self.events = Events()
        position, velocity = throw(rng, self.law["gravity"], self.plan == "capture")
        self._set_ball(rng.uniform(*MASS), position, velocity, rng.uniform(-SPIN, SPIN, 3))
        self._set_arm(START, UPRIGHT, self._rest)
        self._expert = CatcherExpert(np.random.default_rng(rng.integers(2**63)), careful=self.plan == "capture")

    # --- what happens -------------------------------------------------------------------------------------------

    def _advance(self, control: np.ndarray) -> None:
        self._advance_target(control, UPRIGHT)

    def _after_substep(self) -> None:
        events = self.events
        if events.captured or events.missed:
            return
        position, rotation = self.tool()
        relative = rotation.T @ (self.data.qpos[self._ball][:3] - position)
        across, depth = math.hypot(relative[0], relative[2]), relative[1]
        events.reached |= depth <= REACHED or bool(self.touched[0])
        if across <= CENTRAL and depth <= GRAB:
            self._latch()
        elif depth <= PASSED:
            events.missed, events.reason = True, "passed_beside"
        elif events.reached and self.touched[1:].any():
            events.missed, events.reason = True, "bounced_off"

    def _latch(self) -> None:
        """Weld the ball to the box where it is: its momentum goes into the arm."""
        self.events.captured, self.events.time = True, float(self.data.time)
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
        return self.events.captured

    def measures(self) -> dict[str, float]:
        events = self.events
        return {
            "success": float(events.captured),
            "missed": float(events.missed),
            "time_to_capture": events.time,
        }

    def decided(self) -> bool:
        return self.events.captured or self.events.missed

    def records(self) -> dict[str, np.ndarray]:
        return {
            "catcher": self._tool_record(),
            "arm": self._arm_record(),
            "contact": self.touched.astype(float),
            "event": np.array([self.events.captured, self.events.missed], float),
        }

    def labels(self) -> dict[str, str]:
        if self.events.captured:
            outcome, reason = "capture", "captured"
        elif self.events.missed:
            outcome, reason = "miss", self.events.reason
        else:
            outcome, reason = ("miss", "not_settled") if self.events.reached else ("truncated", "never_arrived")
        return {"plan": self.plan, "outcome": outcome, "reason": reason}

    def expert(self) -> np.ndarray:
        """Put the box where the ball will be, early, and wait (`CatcherExpert`)."""
        self._require_reset("expert")
        if self.events.captured or self.events.missed:
            return np.zeros(3, np.float32)
        return self._expert.act(self.t, *self.ball(), self.command.position, self.law["gravity"])


# --- the expert -------------------------------------------------------------------------------------------------------


class CatcherExpert:
    """Computes from the ball's true state, in closed form, where the ball will cross the box's opening.

    A careful expert goes there in even steps, to arrive 0.6 s early, with small noise and a slow tremor that dies away as
    the ball comes near. A careless one sees the ball 3 to 7 frames late and aims 18 cm to the left: it misses.
    """

    def __init__(self, rng: np.random.Generator, careful: bool):
        self._rng, self._careful = rng, careful
        self._noise = 0.0016 if careful else 0.0046667  # m
        self._bias = rng.uniform(-1, 1, 3) * (0.0033, 0.006, 0.0027) if careful else np.array([-0.18, 0.033333, -0.037333])
        self._delay = 0 if careful else int(rng.integers(3, 8))
        self._seen: list[tuple[np.ndarray, np.ndarray]] = []
        self._tremor, self._last = np.zeros(3), np.zeros(3)
        self._cached = -1, np.zeros(3, np.float32)

    def forget(self) -> None:
        """Restart the observation, after the ball was moved."""
        self._cached = -1, self._cached[1]
        self._seen.clear()

    def act(self, t: int, position: np.ndarray, velocity: np.ndarray, target: np.ndarray, gravity: float) -> np.ndarray:
        """The control at frame t, (3,) float32; computed once per frame."""
        if self._cached[0] == t:
            return self._cached[1]
        self._seen.append((position, velocity))
        position, velocity = self._seen[max(len(self._seen) - 1 - self._delay, 0)]
        self._tremor = 0.933 * self._tremor + 0.36 * self._rng.normal(0, (0.0032, 0.0016, 0.0026667))
        noise = self._rng.normal(0, self._noise, 3) * (1, 0.5, 1)
        away = position[1] - target[1] - GRAB
        seconds = min(max(away / max(-velocity[1], 1e-6), 0.0), 4.5)
        x, z = position[0] + velocity[0] * seconds, Flight(position[2], velocity[2], gravity, RADIUS).at(seconds)[0]
        wanted = np.clip(np.array([x, START[1], z]) + self._bias + noise, *WORKSPACE)
        step = (wanted - target) / max(seconds * 16 - 10, 1.5)
        calm = min(max((seconds - 0.9) / 0.4, 0), 1)
        step = np.clip((step + self._tremor * calm) / STEP, -1, 1)
        step = np.clip(step, self._last - 0.35, self._last + 0.35)
        self._last = step
        self._cached = t, step.astype(np.float32)
        return self._cached[1]


# --- the throw --------------------------------------------------------------------------------------------------------


def throw(rng: np.random.Generator, gravity: float, catch: bool) -> tuple[np.ndarray, np.ndarray]:
    """Position of the ball at the start, which does not depend on the plan, and its velocity, which does.

    Both a ball to catch and one to miss are drawn for a start, so that a seed gives the same start for either plan. Far
    outside the gravities of the paper there may be none: the ball is then thrown level, towards the box, under any plan.
    """
    for crossing in CROSSING:
        for _ in range(12):
            starts = rng.uniform((-0.21333, 1.01333, RADIUS + 0.11333), (0.56, 1.28, RADIUS + 0.36267), (DRAWS, 3))
            start = starts[_in_picture(starts).argmax()]
            caught, missed = (_velocity(rng, start, gravity, crossing, plan) for plan in (True, False))
            if caught is not None and missed is not None:
                return start, caught if catch else missed
    return start, (np.array([START[0], START[1] + GRAB, start[2]]) - start) / CROSSING[-1][1]


def _velocity(
    rng: np.random.Generator, start: np.ndarray, gravity: float, crossing: tuple[float, float], catch: bool
) -> np.ndarray | None:
    """A velocity that stays in the picture and crosses the opening's plane as the plan needs; None if none does.

    Many are drawn at once and the first that fits is taken; the ball's height follows in closed form.
    """
    x, y, height = start
    low, high = HEIGHT_CATCH if catch else HEIGHT_MISS
    until, aim = rng.uniform(*crossing, DRAWS), rng.uniform(*(NEAR_X if catch else FAR_X[rng.integers(2)]), DRAWS)
    if gravity > 0:
        climb = rng.uniform(-1, 1, DRAWS) * math.sqrt(2 * gravity * (PEAK - height))
    else:  # straight at the height it should have
        climb = (rng.uniform(low, high, DRAWS) - height + gravity * until**2 / 2) / until
    flight = Flight(np.full(DRAWS, height), climb, gravity, RADIUS)
    z, vz = flight.at(until)
    good = (low <= z) & (z <= high) & (flight.peak(until) <= PEAK)
    if catch:
        # near the apex of its bounce, or a ball that climbs under the box would hit its rim from below
        good &= np.abs(vz) <= (0.65 if gravity < 0 else SLOW / max(gravity, 5.0))
        good &= np.hypot(aim - START[0], z - START[2]) >= TRAVEL
    if gravity <= 0:
        good &= flight.landing >= until
    plane = START[1] + GRAB
    for i in np.flatnonzero(good)[:20].tolist():
        velocity = np.array([(aim[i] - x) / until[i], (plane - y) / until[i], climb[i]])
        times = np.arange(0, until[i], 1 / 16)
        heights = flight.pick(i).at(times)[0]
        if _in_picture(np.stack([x + velocity[0] * times, y + velocity[1] * times, heights], axis=1)).all():
            return velocity
    return None


def _in_picture(points: np.ndarray) -> np.ndarray:
    """Whether a ball at each of these points, (N, 3), is whole in the picture: (N,)."""
    forward = np.subtract(LOOK.target, LOOK.location)
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    rays = points - LOOK.location
    depth = rays @ forward
    scale = depth * math.tan(math.radians(LOOK.fovy / 2))
    edge = RADIUS / scale + np.maximum(np.abs(rays @ right), np.abs(rays @ np.cross(right, forward))) / scale
    inside: np.ndarray = edge <= 0.92
    return inside


# --- the model --------------------------------------------------------------------------------------------------------


def build_spec() -> tuple[Any, dict[str, str]]:
    """The mujoco.MjSpec of the scene, and the kind of each geom that the ball can touch. The latch is open."""
    spec = start_spec(LOOK)
    world3d.add_arena(spec, ARENA)
    add_ball(spec, RADIUS, material="ball")
    solid = add_solids(spec, ARENA)
    hand = add_robot(spec, Z1, BASE, yaw(BASE_YAW))
    kinds = {**solid, **dict.fromkeys(_add_catcher(hand), "catcher"), **dict.fromkeys(solids_of(Z1), "robot")}
    latch = spec.add_equality(name="latch", type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY)
    latch.name1, latch.name2, latch.active = "catcher", "ball", False
    latch.solref = [0.012, 1.0]
    return spec, kinds


def _add_catcher(hand: Any) -> list[str]:
    """The box on the flange: 0.15 kg of plates, a rim and strings. Its y axis is the flange's x axis, out of the arm."""
    body = hand.add_body(name="catcher", pos=[0.001, 0, 0], quat=[0.5**0.5, 0, 0, -(0.5**0.5)])
    body.add_site(name=TOOL, group=world3d.HIDDEN)
    box, middle = mujoco.mjtGeom.mjGEOM_BOX, (DEPTH + 2 * PLATE) / 2
    side, outer = INNER + PLATE, INNER + 2 * PLATE
    plates: dict[str, tuple[Sequence[float], Sequence[float]]] = {
        "back": ((0, PLATE, 0), (outer, PLATE, outer)),
        "left_side": ((-side, middle, 0), (PLATE, middle, outer)),
        "right_side": ((side, middle, 0), (PLATE, middle, outer)),
        "lower_side": ((0, middle, -side), (outer, middle, PLATE)),
        "upper_side": ((0, middle, side), (outer, middle, PLATE)),
    }
    for name, (pos, size) in plates.items():
        body.add_geom(name=name, type=box, pos=pos, size=size, mass=0.03, rgba=(0.21, 0.31, 0.43, 0.28), **OFF)
    for sign in (-1, 1):  # the rim
        for pos, size in (
            ((sign * side, 2 * middle, 0), (0.005, 0.005, outer)),
            ((0, 2 * middle, sign * side), (outer, 0.005, 0.005)),
        ):
            body.add_geom(type=box, pos=pos, size=size, mass=0, rgba=(0.13, 0.20, 0.30, 1), **OFF)
    for k in (-2, -1, 0, 1, 2):  # strings on the back
        for pos, size in (
            ((k * INNER / 3, 2 * PLATE, 0), (0.0013, 0.0013, INNER)),
            ((0, 2 * PLATE, k * INNER / 3), (INNER, 0.0013, 0.0013)),
        ):
            body.add_geom(type=box, pos=pos, size=size, mass=0, rgba=(0.85, 0.90, 0.96, 1), **OFF)
    return list(plates)
