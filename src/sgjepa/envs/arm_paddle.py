"""Arm Paddle Ball: a Unitree Z1 keeps a ball bouncing on a paddle.

The control (dx, dy, dz, phi, theta) moves the blade's target by 44, 36 and 32 mm per frame for a 1, and leans its normal by
theta towards phi. The ball falls onto the blade, or rests on it. Success: it never touches the floor, and at least one
flight between two touches is high and long enough to count. Plans: "success", or "failure", in which the expert moves the
paddle away after a while.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from sgjepa.envs import world3d
from sgjepa.envs.arm_world import (
    OFF,
    TILT,
    TOOL,
    ArmWorld,
    Surfaces,
    add_ball,
    add_solids,
    arm_record,
    blade_limits,
    flags,
    shifts,
    start_spec,
    tool_record,
    yaw,
)
from sgjepa.envs.headless import mujoco
from sgjepa.envs.robots.robot import add_robot, solids_of
from sgjepa.envs.robots.z1 import Z1
from sgjepa.envs.spec import EARTH_GRAVITY, PLANET_GRAVITIES, SIZES_3D, DatasetDefaults, EnvSpec, Measure
from sgjepa.envs.world3d import Arena, Look

# the scene
RADIUS, MASS = 0.04, 0.10  # m, kg
ARENA = Arena(centre=(0.0, 0.0), half=(0.52, 0.82), height=0.70, thickness=0.05, grid=0.2, line=0.003)
LOOK = Look(location=(0.0735, -1.161, 0.6813), target=(0.05, -0.55, 0.29), fovy=42.0, facets=(28, 8))
BASE, BASE_YAW = (0.15, -0.20, 0.0), -math.pi / 2  # from here the arm reaches the workspace with every tilt it needs
BLADE = (0.0675, 0.0675, 0.00315)  # m, half sizes
HANDLE = math.radians(55)  # how steeply the handle rises from the blade's far edge
GRIP = 0.088  # m along the handle, where the flange is
# restitution and friction with the ball
SURFACES: Surfaces = {
    "paddle": (0.92, (0.25,)),
    "floor": (0.72, (0.25, 0.005, 0.005)),
    "wall": (0.72, (0.25, 0.005, 0.005)),
    "robot": (0.45, (0.25, 0.005, 0.0005)),
}
BOUNCE = SURFACES["paddle"][0]
TOUCH = BLADE[2] + RADIUS  # m between the centres of blade and ball when they touch

# the task
WORKSPACE = np.array([[-0.23, -0.67, 0.07], [0.23, -0.53, 0.184]])  # m, of the blade's centre
STEP = np.array([0.044, 0.036, 0.032])  # m per frame for a control of 1
STEEPEST = math.radians(30)
CENTRE = np.array([0.0, -0.6])
START_HEIGHT = 0.096  # m
WARM_UP, APART, RISE, APEX = 16, 5, 0.15, 0.28  # frames, frames, m, m: the gates of success
DEBOUNCE = 3  # frames
PLANS = ("success",) * 4 + ("failure",) + ("success",) * 5


# --- the environment --------------------------------------------------------------------------------------------------


@dataclass
class Events:
    """The events of the ball so far."""

    start: str = "falling"  # or "resting"
    dropped: bool = False  # the ball has touched the floor
    placed_at: int = 0  # the frame at which a caller last set the state
    # by frame, until the ball is dropped: whether the paddle was touched, heights of ball and paddle in m
    history: list[tuple[float, float, float]] = field(default_factory=list)


class ArmPaddleBall(ArmWorld):
    """The world of this module. `plan` at reset: "success" or "failure"."""

    arena = ARENA
    look = LOOK
    radius = RADIUS
    tool_shadow = 0.07
    stride, workspace = STEP, WORKSPACE
    events: Events
    _expert: PaddleExpert
    contact_kinds = ("paddle", "floor", "wall", "robot")
    env_spec: ClassVar[EnvSpec] = EnvSpec(
        name="arm_paddle_ball",
        gym_id="sgjepa/ArmPaddleBall-v0",
        state=world3d.BALL,
        control=(*shifts(STEP), *TILT),
        control_limit=blade_limits(1.0, STEEPEST),
        phys=world3d.phys("box"),
        nominal_law={"gravity": 9.8},
        laws=("gravity",),  # the expert assumes a vertical pull
        has_task=True,
        measures=(
            Measure("success", "no touch of the floor in all steps, and at least one bounce"),
            Measure("no_floor", "the ball never touched the floor"),
            Measure("bounces", "flights from paddle to paddle that pass the gates, before any touch of the floor", unit="1"),
        ),
        probed=world3d.FLYING,
        defaults=DatasetDefaults(EARTH_GRAVITY, PLANET_GRAVITIES, SIZES_3D),
        image_size=256,
        records={
            "paddle": tool_record("paddle"),
            "tilt": TILT,
            "arm": arm_record(Z1),
            "contact": flags("ball_paddle", "ball_floor", "ball_wall", "ball_robot"),
        },
        observed_records=("paddle", "tilt"),
        labels={
            "plan": ("success", "failure"),
            "start": ("falling", "resting"),
            "outcome": ("success", "floor", "too_low"),
        },
        expert_plans=PLANS,
        success_plan="success",
        outcome_label="outcome",
    )

    def _build(self) -> None:
        self._compile(*build_spec(), SURFACES)
        self._rest = self._start_posture(np.array([*CENTRE, START_HEIGHT]), np.eye(3))
        self.events = Events()

    def _launch(self, rng: np.random.Generator) -> None:
        resting = rng.uniform() < 0.5 and self.law["gravity"] > 1.5
        blade = np.array([*CENTRE, START_HEIGHT])
        if resting:
            blade[:2] += rng.uniform(-1, 1, 2) * (0.08, 0.035)
            ball = blade + np.array([*rng.uniform(-0.02, 0.02, 2), TOUCH + 0.001])
            velocity = np.zeros(3)
        else:
            ball = np.array([rng.uniform(-0.11, 0.11), rng.uniform(-0.645, -0.555), rng.uniform(0.34684, 0.40809)])
            velocity = np.array([rng.uniform(-0.036, 0.036), rng.uniform(-0.032, 0.032), rng.uniform(-0.57523, -0.16435)])
        self._set_ball(MASS, ball, velocity, np.zeros(3))
        turn = rng.normal(size=4)
        self.data.qpos[self._ball][3:] = turn / np.linalg.norm(turn)
        self._set_arm(blade, np.eye(3), self.arm.solve(blade, np.eye(3), self._rest).joints)
        self.events = Events("resting" if resting else "falling", history=[(0.0, ball[2], blade[2])])
        self._expert = PaddleExpert(np.random.default_rng(rng.integers(2**63)), resting, drop=self.plan == "failure")

    def _set_state(self, state: Mapping[str, float]) -> None:
        super()._set_state(state)
        self.events.placed_at, self.events.history[-1] = self.t, self._heights(0.0)

    def _advance(self, control: np.ndarray) -> None:
        self._advance_target(control[:3], leaning(*control[3:]))
        self.events.dropped |= bool(self.touched[1])
        if not self.events.dropped:
            self.events.history.append(self._heights(float(self.touched[0])))

    def _heights(self, touched: float) -> tuple[float, float, float]:
        return touched, float(self.data.qpos[self._ball][2]), float(self.tool()[0][2])

    def _after_substep(self) -> None:
        pass

    def success(self) -> bool:
        return not self.events.dropped and self.t == self.env_spec.frames - 1 and self._bounces() > 0

    def _bounces(self) -> int:
        touched, ball, paddle = np.array(self.events.history).T
        return flights(touched > 0, ball, paddle, self.events.placed_at)

    def measures(self) -> dict[str, float]:
        no_floor = float(not self.events.dropped)
        return {"success": float(self.success()), "no_floor": no_floor, "bounces": float(self._bounces())}

    def decided(self) -> bool:
        return self.events.dropped

    def records(self) -> dict[str, np.ndarray]:
        return {
            "paddle": self._tool_record(),
            "tilt": tilt_of(self.command.rotation[:, 2]),
            "arm": self._arm_record(),
            "contact": self.touched.astype(float),
        }

    def labels(self) -> dict[str, str]:
        outcome = "floor" if self.events.dropped else "success" if self.success() else "too_low"
        return {"plan": self.plan, "start": self.events.start, "outcome": outcome}

    def expert(self) -> np.ndarray:
        """Keep the ball bouncing (`PaddleExpert`)."""
        self._require_reset("expert")
        spin = self.state()[10:13]
        return self._expert.act(self.t, *self.ball(), spin, self.command.position, self.law["gravity"])


def onsets(touched: np.ndarray) -> list[int]:
    """Frames at which a touch begins, none within three frames of the one before."""
    frames: list[int] = []
    for frame in range(1, len(touched)):
        if touched[frame] and not touched[frame - 1] and (not frames or frame - frames[-1] >= DEBOUNCE):
            frames.append(frame)
    return frames


def flights(touched: np.ndarray, ball: np.ndarray, paddle: np.ndarray, since: int = 0) -> int:
    """The number of flights between two touches after frame `since` that pass the gates.

    touched, heights of ball and paddle: (T,) by frame
    """
    count = 0
    for a, b in pairwise(onsets(touched)):
        top = a + int(ball[a : b + 1].argmax())
        high = ball[top] >= APEX and (ball - paddle)[a : b + 1].max() >= RISE
        count += bool(a > max(WARM_UP, since) and b - a >= APART and a < top < b and high)
    return count


def leaning(phi: float, theta: float) -> np.ndarray:
    """The rotation that leans the vertical by theta towards phi, with no twist about it."""
    s, c = math.sin(theta), math.cos(theta)
    x, y = math.cos(phi), math.sin(phi)
    return np.array(
        [[x * x * c + y * y, x * y * (c - 1), x * s], [x * y * (c - 1), y * y * c + x * x, y * s], [-x * s, -y * s, c]]
    )


def tilt_of(normal: np.ndarray) -> np.ndarray:
    """phi and theta of a face whose normal is this: the inverse of `leaning`."""
    across = math.hypot(normal[0], normal[1])
    return np.array([math.atan2(normal[1], normal[0]) if across > 1e-9 else 0.0, math.atan2(across, normal[2])])


# --- the expert -------------------------------------------------------------------------------------------------------


class PaddleExpert:
    """Computes in closed form when, where and how fast the ball will be back at the paddle's height.

    Across: the blade goes below that point. Tilt: as much as sends the ball, friction and spin included, back to the middle
    with the bounce after. Up: it waits, and in the frame in which the ball arrives it rises with the speed that gives the
    wanted apex, since the ball leaves with e times its speed plus (1 + e) times the paddle's; between touches it returns.
    The apex is 0.35 m, less where a flight would outlast the episode, and more where it would be too short to count. Noise
    is added, and now and then a slip of one frame. To fail on purpose, it moves aside from some frame on, tipped.
    """

    def __init__(self, rng: np.random.Generator, resting: bool, drop: bool):
        self._rng = rng
        self._hold = 5 if resting else 0  # frames to keep still
        self._leave = int(rng.integers(5, 11)) + 12 * resting if drop else 1000
        self._aside = rng.choice([-1.0, 1.0])
        self._slips = set(rng.integers(9, 55, int(rng.integers(2, 4))).tolist()) if not drop else set()
        self._cached = -1, np.zeros(5, np.float32)

    def forget(self) -> None:
        """Compute the control again, after the ball was moved."""
        self._cached = -1, self._cached[1]

    def act(
        self, t: int, position: np.ndarray, velocity: np.ndarray, spin: np.ndarray, target: np.ndarray, gravity: float
    ) -> np.ndarray:
        """The control at frame t, (5,) float32; computed once per frame."""
        if self._cached[0] != t:
            self._cached = t, self._control(t, position, velocity, spin, target, gravity).astype(np.float32)
        return self._cached[1]

    def _control(
        self, t: int, position: np.ndarray, velocity: np.ndarray, spin: np.ndarray, target: np.ndarray, gravity: float
    ) -> np.ndarray:
        noise = self._rng.normal(0, (0.05, 0.05, 0.03, 0.04, 0.01))
        slip = self._rng.uniform(0, 2 * math.pi), self._rng.uniform(-0.15, 0.15)
        if t < self._hold:
            return np.zeros(5)
        if t >= self._leave:
            step = np.array([self._aside * 0.9, -0.2, -0.3])
            # tipped away from its motion, or a ball that it drags along may end up resting on it
            return np.array([*np.clip(step + noise[:3], -1, 1), 0.0 if self._aside < 0 else math.pi, 0.35])
        ready = 0.09
        frame = 1 / 16
        gap = position[2] - target[2] - TOUCH
        if gap < 0.001 and abs(velocity[2]) > 0.25:  # in the middle of a touch: go on as before, with a still hand
            return self._cached[1] * (0, 0, velocity[2] < 0, 1, 1)
        seconds = _fall_time(gap, velocity[2], gravity)
        away = min(seconds, 0.6)
        down = abs(velocity[2] - gravity * min(seconds, 4.0))  # speed of arrival
        contact = target[2] + TOUCH
        apex = max(0.347 if gravity > 1.5 else 0.30, contact + gravity * 0.37**2 / 8)
        leave = math.sqrt(2 * max(gravity, 0.0) * max(apex - contact, 0.0))
        rise = min(max((leave - BOUNCE * down) / (1 + BOUNCE), -0.3), 0.33)
        pumping = down < 0.4 * leave  # a resting ball, or a low hop
        rise = max(rise, 0.5) if pumping else rise

        where = np.clip(position[:2] + velocity[:2] * away, *WORKSPACE[:, :2])
        if pumping and target[2] > 0.12 and gap < 0.02:
            climb = -0.4 * STEP[2]  # too high to pump from: take the ball down first
        elif seconds <= 1.5 * frame:
            climb = min(rise, (WORKSPACE[1, 2] - target[2]) / frame) * frame
        else:
            climb = (ready - target[2]) / max(math.floor(seconds / frame), 1)
            climb = min(max(climb, -0.4 * STEP[2]), 0.3 * STEP[2])  # gently, and never up into a ball that is not due
        # after this touch the ball should land in the middle again; from a low hop, not at once
        flight = max(2 * leave / max(gravity, 0.5), 0.5)
        wish = (CENTRE - where) / flight
        wish *= min(1.0, 0.14 / max(float(np.linalg.norm(wish)), 1e-9))
        drag = 5 / 7 * velocity[:2] + 2 / 7 * RADIUS * np.array([spin[1], -spin[0]])
        lean = (wish - drag) / max((5 / 7 + BOUNCE) * down + (1 + BOUNCE) * max(rise, 0), 0.5)
        phi, theta = math.atan2(lean[1], lean[0]), min(math.asin(min(float(np.linalg.norm(lean)), 0.4)), math.radians(20))
        theta *= min(max(down / max(leave, 1e-3) - 0.3, 0.0) / 0.3, 1.0)  # a low hop is not corrected
        control = np.array([*(where - target[:2]) / STEP[:2], climb / STEP[2], phi, theta])
        last = self._cached[1][:3]
        most, more = (0.7, 0.5) if pumping else (0.6, 0.4)  # of a step, and how much from one frame to the next
        control[:3] = np.clip(control[:3], np.maximum(last - more, -most), np.minimum(last + more, most))
        due = seconds <= 2 * frame  # steady when it matters: a blade that moves sideways drags the ball along
        control += noise * (0.3 if due else 1.0)
        if t in self._slips and not due:
            control[:3] += 0.3 * math.cos(slip[0]), 0.3 * math.sin(slip[0]), slip[1]
        control[3] = math.remainder(control[3], 2 * math.pi)
        control[4] = min(max(control[4], 0.0), STEEPEST)
        return np.clip(control, (-1, -1, -1, -math.pi, 0), (1, 1, 1, math.pi, STEEPEST))


def _fall_time(gap: float, climb: float, gravity: float) -> float:
    """Seconds until a ball that is `gap` above the paddle comes down to it; 10 if it never does."""
    if gap <= 0:
        return 0.0
    under = climb * climb + 2 * gravity * gap
    if gravity > 1e-9:
        return min((climb + math.sqrt(under)) / gravity, 10.0)
    return min(gap / -climb, 10.0) if climb < 0 else 10.0


# --- the model --------------------------------------------------------------------------------------------------------


def build_spec() -> tuple[Any, dict[str, str]]:
    """The mujoco.MjSpec of the scene, and the kind of each geom that the ball can touch."""
    spec = start_spec(LOOK)
    world3d.add_arena(spec, ARENA)
    check = {"type": mujoco.mjtTexture.mjTEXTURE_CUBE, "builtin": mujoco.mjtBuiltin.mjBUILTIN_CHECKER}
    spec.add_texture(name="check", rgb1=[0.95, 0.05, 0.04], rgb2=[1, 1, 1], width=64, height=64, **check)
    material = spec.add_material(name="check", specular=0.1, shininess=0.2)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "check"
    add_ball(spec, RADIUS, material="check")
    kinds = add_solids(spec, ARENA)
    hand = add_robot(spec, Z1, BASE, yaw(BASE_YAW))
    _add_paddle(hand)
    kinds |= {"blade": "paddle", "handle": "robot", **dict.fromkeys(solids_of(Z1), "robot")}
    return spec, kinds


def _add_paddle(hand: Any) -> None:
    """Blade and handle on the flange, 0.12 kg. The handle rises from the blade's far edge into the flange's x axis."""
    along = np.array([0.0, math.cos(HANDLE), math.sin(HANDLE)])  # in the paddle's axes
    root = np.array([0.0, BLADE[1], 0.0])
    # the flange in the paddle's axes: its x axis looks down the handle, its y axis lies level
    axes = np.stack([-along, [1.0, 0.0, 0.0], np.cross(-along, [1.0, 0.0, 0.0])], axis=1)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, axes.T.ravel())
    body = hand.add_body(name="paddle", pos=-axes.T @ (root + GRIP * along), quat=quat)
    body.add_site(name=TOOL, group=world3d.HIDDEN)
    box = mujoco.mjtGeom.mjGEOM_BOX
    body.add_geom(name="blade", type=box, size=BLADE, mass=0.08, rgba=(0.53, 0.78, 0.91, 1), **OFF)
    lean = [math.cos((HANDLE - math.pi / 2) / 2), math.sin((HANDLE - math.pi / 2) / 2), 0, 0]
    middle: Sequence[float] = (root + 0.044 * along).tolist()
    wood = {"mass": 0.04, "rgba": (0.69, 0.50, 0.28, 1)}
    body.add_geom(name="handle", type=box, size=(0.0096, 0.0096, 0.05), pos=middle, quat=lean, **wood, **OFF)
