"""What has happened in an episode of Franka Paddle-to-Basket: strike, flight, entry, and the name of what failed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sgjepa.envs.arms.basket.scene import BASKET, INSIDE, RADIUS
from sgjepa.envs.arms.records import vector
from sgjepa.envs.world import Quantity

# the record of a strike; intercept, wanted velocity and aim are the demonstrator's
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
class Attempt:
    """The events so far. Places in m, times in s of the simulation."""

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

    def begin(self, time: float, place: np.ndarray, normal: np.ndarray, motion: np.ndarray) -> None:
        """The blade strikes a ball at `place`, its face along `normal`; motion (6,): its angular and linear velocity."""
        self.struck, self.time = True, time
        touch = place - normal * RADIUS
        self.strike[3:9] = *touch, *self.before[1]
        self.strike[18:27] = *normal, *motion[3:], *motion[:3]
        self.strike[28] = math.inf

    def follow(self, time: float, place: np.ndarray, speed: np.ndarray) -> None:
        """After the strike: how the ball left, how near it came, where it came down through the rim's height."""
        if time - self.time < LEAVING:
            self.strike[9:12] = speed
        out = max(math.hypot(*(place[:2] - BASKET[:2])) - INSIDE, 0.0)
        near = math.hypot(out, place[2] - BASKET[2])
        if near < self.strike[28]:
            self.strike[27:] = time - self.time, near
        was = self.before[0][2]
        if not self.crossed and was > BASKET[2] >= place[2]:
            share = (was - BASKET[2]) / (was - place[2])
            self.crossing = (self.before[0] + share * (place - self.before[0]))[:2]
            self.crossed = True
            self.entered = math.hypot(*(self.crossing - BASKET[:2])) <= INSIDE

    @property
    def outgoing(self) -> np.ndarray:
        """The ball's velocity as it left the blade, (3,)."""
        return self.strike[9:12]

    def failure(self) -> str:
        """What failed, if nothing more happened; "none" for success."""
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
