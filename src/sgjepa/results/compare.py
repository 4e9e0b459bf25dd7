"""Evaluations of several runs side by side: methods with their training seeds, paired differences, verdicts. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sgjepa.core.stats import Interval, bootstrap, bootstrap_difference, bootstrap_ratio
from sgjepa.results.claims import LEAST, verdict
from sgjepa.results.evaluations import Evaluation, arms_of
from sgjepa.results.table import MEAN, Horizon, at

__all__ = [
    "MEAN",
    "Horizon",
    "Method",
    "against",
    "at",
    "decides",
    "marks",
    "methods",
    "paired",
    "ratio",
    "trainings",
    "verdict",
]


@dataclass(frozen=True)
class Method:
    """Evaluations of one method on the same episodes, one for each training seed."""

    label: str
    seeds: tuple[Evaluation, ...]

    @property
    def first(self) -> Evaluation:
        return self.seeds[0]

    @property
    def name(self) -> str:
        """What the study calls its runs, or they themselves."""
        return self.first.name

    @cached_property
    def _kept(self) -> dict[tuple[str, str, str], list[Interval]]:
        """Curves that were asked for: figures, tables and sentences ask for the same ones."""
        return {}

    def stack(self, metric: str, source: str = "predicted", region: str = "all") -> np.ndarray:
        """(seeds, E, H)"""
        chosen = self.first.region(region)
        return np.stack([one.values(metric, source)[chosen] for one in self.seeds])

    def by_horizon(self, metric: str, source: str = "predicted", region: str = "all") -> list[Interval]:
        """One interval for each horizon, 1 first."""
        asked = (metric, source, region)
        if asked not in self._kept:
            self._kept[asked] = bootstrap(self.stack(metric, source, region))
        return self._kept[asked]

    def at(
        self, metric: str, horizons: Sequence[Horizon], source: str = "predicted", region: str = "all"
    ) -> dict[Horizon, Interval]:
        """Intervals at these horizons, or for the mean over all."""
        return dict(zip(horizons, bootstrap(at(self.stack(metric, source, region), horizons)), strict=True))

    def by_law(
        self, metric: str, horizon: int, names: Sequence[str], source: str = "predicted"
    ) -> dict[tuple[float, ...], Interval]:
        """One interval for each combination of these laws' values, over whatever the other laws are."""
        columns = [self.first.laws.index(name) for name in names]
        values, law = self.stack(metric, source)[:, :, [horizon - 1]], self.first.law[:, columns]
        found = {}
        for point in np.unique(law, axis=0):
            chosen = (law == point).all(axis=1)
            found[tuple(point.tolist())] = bootstrap(values[:, chosen])[0]
        return found


def methods(evaluations: Sequence[Evaluation], named: Mapping[str, str] | None = None) -> list[Method]:
    """Training seeds of one method together; see `arms_of`."""
    return [Method(label, group) for label, group in arms_of(evaluations, named).items()]


def paired(
    one: Method, other: Method, metric: str, horizons: Sequence[Horizon], region: str = "all"
) -> dict[Horizon, Interval]:
    """Intervals of `one` minus `other` on the same episodes; seeds are paired if there are equally many."""
    mine, theirs = (at(method.stack(metric, region=region), horizons) for method in (one, other))
    return dict(zip(horizons, bootstrap_difference(mine, theirs), strict=True))


def against(method: Method, source: str, metric: str, region: str = "all") -> list[Interval]:
    """Intervals of a method's rollout minus one of its own references, such as "stay", a horizon each."""
    return bootstrap(method.stack(metric, "predicted", region) - method.stack(metric, source, region))


def ratio(
    one: Method, other: Method, metric: str, horizons: Sequence[Horizon], region: str = "all"
) -> dict[Horizon, Interval]:
    """Intervals of `one` divided by `other` on the same episodes."""
    mine, theirs = (at(method.stack(metric, region=region), horizons) for method in (one, other))
    return dict(zip(horizons, bootstrap_ratio(mine, theirs), strict=True))


def trainings(*compared: Method) -> int:
    """Of each of them, at least."""
    return min(len(method.seeds) for method in compared)


def decides(*compared: Method) -> bool:
    """Whether they were trained often enough for a verdict: an interval over episodes alone says nothing of trainings."""
    return trainings(*compared) >= LEAST


def marks(compared: Sequence[Method], metric: str, horizon: Horizon, region: str = "all") -> list[str]:
    """Which method is "best" (the lowest error, and all that cannot be told apart from it), "second" (the next) or "".

    Two methods are told apart when the interval of their paired difference excludes zero.
    """
    found = [""] * len(compared)
    if len(compared) < 2:
        return found
    means = [float(at(method.stack(metric, region=region), [horizon]).mean()) for method in compared]
    left = sorted(range(len(compared)), key=means.__getitem__)
    for mark in ("best", "second"):
        if left:
            leader = compared[left[0]]
            tied = [i for i in left[1:] if not _worse(compared[i], leader, metric, horizon, region)]
            for i in [left[0], *tied]:
                found[i] = mark
            left = [i for i in left if not found[i]]
    return found


def _worse(one: Method, other: Method, metric: str, horizon: Horizon, region: str) -> bool:
    return verdict(paired(one, other, metric, [horizon], region)[horizon]) == "worse"
