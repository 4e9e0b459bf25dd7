"""Metrics: the errors of a forecast, each one function with its label and unit. NumPy only.

Adding a metric is one function and one entry in METRICS (or `METRICS.register` from outside of the package): evaluations
measure it, tables have a column for it, and figures name it. A forecast is the states that a source predicts for some
episodes: the model's rollout, a baseline, or the probe on true frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sgjepa.core.registry import Registry
from sgjepa.data.probe_targets import Targets


@dataclass(frozen=True)
class Guess:
    """Predicted and true states of N episodes over n consecutive frames.

    states, truth: (N, n, Y) in the order of `targets.names`. spread: of each target over the probe's training windows.
    moved: the position coordinates that the laws of the data accelerate, by name (`laws.coordinates_moved_by`).
    on_true: the probe's reading of the true frames; None where the states come from no latents.
    latent_error: (N, n) of the latents; None where the states come from no latents.
    """

    targets: Targets
    states: np.ndarray
    truth: np.ndarray
    spread: Sequence[float]
    on_true: np.ndarray | None = None
    latent_error: np.ndarray | None = None
    moved: tuple[str, ...] = ()

    @property
    def along(self) -> list[int]:
        """The columns of the positions that the laws move; those of their velocities lie `len(targets.position)` behind."""
        return [i for i, name in enumerate(self.targets.position) if name in self.moved]

    @property
    def across(self) -> list[int]:
        """The columns of the positions that no law moves; empty where the laws are not known to move anything."""
        return [i for i, name in enumerate(self.targets.position) if name not in self.moved] if self.along else []


@dataclass(frozen=True)
class Metric:
    """A metric. error: (N, n) of a guess, None where it is not defined. label: its name in text and figures.

    unit: "1" for a pure number. decimals: in tables. compared: whether its values are comparable between models.
    """

    label: str
    unit: str
    error: Callable[[Guess], np.ndarray | None]
    decimals: int = 3
    compared: bool = True

    @property
    def suffix(self) -> str:
        """The unit as written after a number: "m", "°"; empty for a pure number."""
        return {"1": "", "deg": "°"}.get(self.unit, self.unit)


def position_l2(guess: Guess) -> np.ndarray:
    """The distance between the positions."""
    end = len(guess.targets.position)
    return np.linalg.norm((guess.states - guess.truth)[..., :end], axis=-1)


def velocity_l2(guess: Guess) -> np.ndarray | None:
    """The distance between the velocities."""
    start, end = len(guess.targets.position), len(guess.targets.position) + len(guess.targets.velocity)
    return np.linalg.norm((guess.states - guess.truth)[..., start:end], axis=-1) if end > start else None


def along_l2(guess: Guess) -> np.ndarray | None:
    """The distance between the positions in the coordinates that the laws move: in height, under gravity."""
    return _distance(guess, guess.along)


def velocity_along_l2(guess: Guess) -> np.ndarray | None:
    """The distance between the velocities in the coordinates that the laws move."""
    first = len(guess.targets.position)
    return _distance(guess, [first + i for i in guess.along]) if guess.targets.velocity else None


def along_nmse(guess: Guess) -> np.ndarray | None:
    """The mean squared error of the positions that the laws move, in units of their spread: the mean itself scores 1."""
    if not guess.along:
        return None
    error = (guess.states - guess.truth)[..., guess.along] / np.asarray(guess.spread)[guess.along]
    squared: np.ndarray = np.mean(error**2, axis=-1)
    return squared


def across_l2(guess: Guess) -> np.ndarray | None:
    """The distance between the positions in the coordinates that no law moves; a leak of the law's value shows here."""
    return _distance(guess, guess.across)


def _distance(guess: Guess, columns: list[int]) -> np.ndarray | None:
    if not columns:
        return None
    distance: np.ndarray = np.linalg.norm((guess.states - guess.truth)[..., columns], axis=-1)
    return distance


def rotation_turns(guess: Guess) -> np.ndarray | None:
    """The difference of the rates of rotation, summed from the first frame on: the paper's cumulative rotation."""
    if not guess.targets.turns:
        return None
    rate = (guess.states - guess.truth)[..., -1]
    return np.abs(np.cumsum(rate, axis=-1)) * guess.targets.frame_dt / (2 * math.pi)


def angle_deg(guess: Guess) -> np.ndarray | None:
    """The angle between the orientations, up to the body's symmetry."""
    targets = guess.targets
    if not targets.turns:
        return None
    phase = targets.symmetry * (targets.angle(guess.states) - targets.angle(guess.truth))
    return np.degrees(np.abs(np.arctan2(np.sin(phase), np.cos(phase)) / targets.symmetry))


def nmse(guess: Guess) -> np.ndarray:
    """The mean over targets of the squared error, in units of the targets' spread."""
    return _nmse(guess.states, guess)


def excess_nmse(guess: Guess) -> np.ndarray | None:
    """NMSE minus the NMSE of the probe on the true frames, averaged over all horizons up to each."""
    if guess.on_true is None:
        return None
    gap = nmse(guess) - _nmse(guess.on_true, guess)
    return np.cumsum(gap, axis=1) / np.arange(1, gap.shape[1] + 1)


def _nmse(states: np.ndarray, guess: Guess) -> np.ndarray:
    error: np.ndarray = np.mean(((states - guess.truth) / np.asarray(guess.spread)) ** 2, axis=-1)
    return error


METRICS: Registry[Metric] = Registry(  # in the order of the report
    "metric",
    {
        "position_l2": Metric("position error", "m", position_l2),
        "velocity_l2": Metric("velocity error", "m/s", velocity_l2),
        "along_l2": Metric("position error along the law", "m", along_l2),
        "velocity_along_l2": Metric("velocity error along the law", "m/s", velocity_along_l2),
        "along_nmse": Metric("NMSE along the law", "1", along_nmse),
        "across_l2": Metric("position error across the law", "m", across_l2),
        "rotation_turns": Metric("cumulative rotation error", "turns", rotation_turns),
        "angle_deg": Metric("orientation error", "deg", angle_deg, decimals=1),
        "nmse": Metric("state NMSE", "1", nmse),
        "excess_nmse": Metric("excess NMSE", "1", excess_nmse),
        "latent_mse": Metric("latent error", "1", lambda guess: guess.latent_error, compared=False),  # no common unit
    },
)
MAIN = "position_l2"


def errors(guess: Guess) -> dict[str, np.ndarray]:
    """Every metric that is defined for a guess, (N, n) each."""
    measured = {name: metric.error(guess) for name, metric in METRICS.items()}
    return {name: error for name, error in measured.items() if error is not None}
