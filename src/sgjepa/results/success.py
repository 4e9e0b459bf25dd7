"""Success rates of a policy by region and law, with intervals, for cards and the viewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sgjepa.core.config import check_bounds
from sgjepa.policies.files import read_trial
from sgjepa.results.statistics import Estimate
from sgjepa.results.table import Results
from sgjepa.results.trials import SUCCESS


@dataclass(frozen=True)
class Share:
    """A success rate with its 95 % interval. how: bootstrap or Wilson. law: of the episodes, None if they differ."""

    mean: float
    low: float
    high: float
    episodes: int
    how: str
    law: float | None = None

    def __post_init__(self) -> None:
        check_bounds(self, mean=(0, 1), low=(0, 1), high=(0, 1), episodes=(1, 1e9))


@dataclass(frozen=True)
class Opening:
    """An episode in which a policy succeeds. launch: its number in the test split. sampling: the sampling seed."""

    launch: int
    law: dict[str, float]
    sampling: int

    def __post_init__(self) -> None:
        check_bounds(self, launch=(0, 1e9), sampling=(0, 1e9))


@dataclass(frozen=True)
class Success:
    """Success rates of a policy. regions: "all", and "in" and "out" if both exist. by_law: for each law that varies."""

    dataset: str
    tries: int  # repeats per episode
    regions: dict[str, Share]
    by_law: dict[str, tuple[Share, ...]]


def success_in(folders: Sequence[Path]) -> Success:
    """The success rates of a policy, from its trials."""
    results = Results.of_trials(folders)
    (arm,), measure = results.arms, results.about.measures[0]
    regions = {name: _share(results.estimate(arm, measure, name)) for name in results.regions}
    by_law = {
        axis.name: tuple(_share(results.estimate(arm, measure, results.where(**{axis.name: v})), v) for v in axis.values)
        for axis in results.axes
    }
    return Success(results.about.dataset, len(results.driven(arm).trainings[0]), regions, by_law)


def opening_in(folders: Sequence[Path], home: Mapping[str, float]) -> Opening | None:
    """The successful episode of one policy's trials whose law is nearest to `home`; None if no episode succeeds.

    home: the mean of its training laws. Distances of laws are in units of the test split's range.
    """
    successes: list[tuple[float, int, int, dict[str, float]]] = []
    for folder in folders:
        about, rows = read_trial(folder)
        spread = {law: float(np.ptp(rows[f"law.{law}"])) or 1.0 for law in home}
        for row in np.flatnonzero(rows[SUCCESS]):
            law = {name: float(rows[f"law.{name}"][row]) for name in home}
            far = sum(abs(value - home[name]) / spread[name] for name, value in law.items())
            successes.append((far, about.settings.sampling, int(rows["episode"][row]), law))
    if not successes:
        return None
    _, sampling, launch, law = min(successes, key=lambda entry: entry[:3])
    return Opening(launch, law, sampling)


def _share(estimate: Estimate, law: float | None = None) -> Share:
    interval = estimate.interval
    return Share(float(interval.mean), float(interval.low), float(interval.high), int(interval.count), estimate.how, law)
