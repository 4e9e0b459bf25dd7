"""What a probe reads out of a world, and the errors that are reported in physical units. NumPy only.

A world that names its state as ours do needs nothing more: positions x, y, z; velocities vx, vy, vz; an angle theta with
its rate omega. An angle enters as sine and cosine of `symmetry * theta`, so poses that look the same have the same target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sgjepa.core.errors import InputError

POSITION, VELOCITY, ANGLE, RATE = ("x", "y", "z"), ("vx", "vy", "vz"), "theta", "omega"


@dataclass(frozen=True)
class Targets:
    """Which entries of a recorded state are probed, in the order of a target y: position, velocity, [sin, cos, rate].

    state: names of the recorded state. symmetry: a turn by 1/symmetry looks the same. frame_dt: seconds between frames.
    """

    state: tuple[str, ...]
    symmetry: int
    frame_dt: float

    @property
    def position(self) -> tuple[str, ...]:
        return tuple(name for name in POSITION if name in self.state)

    @property
    def velocity(self) -> tuple[str, ...]:
        return tuple(name for name in VELOCITY if name in self.state)

    @property
    def turns(self) -> bool:
        """Whether the world has an angle to read."""
        return ANGLE in self.state and RATE in self.state

    @property
    def names(self) -> tuple[str, ...]:
        turning = (f"sin {self.symmetry}{ANGLE}", f"cos {self.symmetry}{ANGLE}", RATE) if self.turns else ()
        return (*self.position, *self.velocity, *turning)

    def of(self, state: np.ndarray) -> np.ndarray:
        """Recorded states (..., S) -> targets (..., Y)."""
        column = {name: state[..., i] for i, name in enumerate(self.state)}
        parts = [column[name] for name in (*self.position, *self.velocity)]
        if self.turns:
            phase = self.symmetry * column[ANGLE]
            parts += [np.sin(phase), np.cos(phase), column[RATE]]
        return np.stack(parts, axis=-1)

    def to_state(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """Targets (..., Y) -> named state; the angle is one of those that look the same."""
        names = (*self.position, *self.velocity)
        found = {name: y[..., i] for i, name in enumerate(names)}
        if self.turns:
            found |= {ANGLE: self.angle(y), RATE: y[..., -1]}
        return found

    def angle(self, y: np.ndarray) -> np.ndarray:
        """In radians, within half a symmetry step of zero."""
        return np.arctan2(y[..., -3], y[..., -2]) / self.symmetry

    def errors(self, y: np.ndarray, truth: np.ndarray, std: Sequence[float]) -> dict[str, np.ndarray]:
        """Errors of estimates y against the truth, both (N, h, Y) over consecutive frames -> each (N, h).

        nmse: mean over targets of squared error in units of the probe's training spread. rotation_turns: difference of the
        rates, summed from the first of these frames on (the paper's cumulative rotation).
        """
        gap = y - truth
        place, motion = len(self.position), len(self.position) + len(self.velocity)
        found = {
            "nmse": np.mean((gap / np.asarray(std)) ** 2, axis=-1),
            "position_l2": np.linalg.norm(gap[..., :place], axis=-1),
            "velocity_l2": np.linalg.norm(gap[..., place:motion], axis=-1),
        }
        if self.turns:
            phase = self.symmetry * (self.angle(y) - self.angle(truth))
            wrapped = np.arctan2(np.sin(phase), np.cos(phase)) / self.symmetry
            found["angle_deg"] = np.degrees(np.abs(wrapped))
            found["rotation_turns"] = np.abs(np.cumsum(gap[..., -1], axis=-1)) * self.frame_dt / (2 * math.pi)
        return found


UNITS = {
    "nmse": "1",
    "excess_nmse": "1",
    "position_l2": "m",
    "velocity_l2": "m/s",
    "angle_deg": "deg",
    "rotation_turns": "turns",
    "latent_mse": "1",
}


def targets_of(state: Sequence[str], symmetry: int, fps: float, world: str) -> Targets:
    """The targets of a world, or one line that says why it cannot be probed."""
    found = Targets(tuple(state), symmetry, 1.0 / fps)
    if not found.position or len(found.position) != len(found.velocity):
        raise InputError(
            f"{world} cannot be probed: its state ({', '.join(state)}) must name positions ({', '.join(POSITION)}) "
            f"and as many velocities ({', '.join(VELOCITY)})"
        )
    return found
