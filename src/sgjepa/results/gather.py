"""What a report is about: methods and a baseline. Being replaced by results/table.py; `as_table` leads there.

method.label, len(method.seeds)            arm (a str), len(results.seeds(arm)); results.name(arm), results.arm(name)
method.stack(metric, source, region)       results.values(arm, metric, source, region)
method.by_horizon(metric, source, region)  results.curve(arm, metric, source, region)
method.at(metric, horizons, source, ...)   results.mean(arm, metric, horizons, source, region)
method.by_law(metric, horizon, names)      results.by_law(arm, metric, horizon, names)
method.first, method.seeds (evaluations)   results.evaluations(arm)
paired(one, other, metric, [h], r)[h]      results.gap(one, other, metric, h, r); several: results.difference(...)
ratio, against, marks, decides             results.ratio, results.against, results.marks, results.decides
results.horizons, results.last             results.steps, results.horizons
results.metrics, results.episodes(region)  results.comparable, results.count(region)
results.coverage, follows_coverage         results.coverage, results.coverage_rank, results.coverage_correlation
first.deviations, first.region             results.deviations, results.region
played.players, player.estimate(m, mask)   results.arms, results.estimate(arm, m, region or mask)
player.given(m, mask)                      results.estimate(arm, m, mask, given=True)
played.difference(one, other, name, mask)  results.gap(one, other, name, region=mask)
played.at(law, value)                      results.where(**{law: value})
player.first, trainings, latency, outcomes results.driven(arm).first, .trainings, .latency, .outcomes(label, mask)
player.reference, player.how               results.driven(arm).baseline, results.driven(arm).how
played.about.measures                      results.about.measures; the ControlRecord: results.driven(arm).first.about
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sgjepa.core.stats import spearman
from sgjepa.evaluation.metrics import METRICS
from sgjepa.evaluation.records import EvaluationRecord
from sgjepa.results.compare import MEAN, Horizon, Method, decides
from sgjepa.results.paper_numbers import Published, published
from sgjepa.results.table import BASELINES as REFERENCES
from sgjepa.results.table import HORIZONS, MAIN, OURS, REGIONS, Axis
from sgjepa.results.table import Results as Table

__all__ = ["HORIZONS", "MAIN", "OURS", "REFERENCES", "Axis", "Results", "gather", "unit"]


def unit(metric: str) -> str:
    """As it stands behind a number; nothing for a pure number."""
    return METRICS[metric].suffix


@dataclass(frozen=True)
class Results:
    """Methods evaluated on the same episodes."""

    methods: tuple[Method, ...]
    baseline: Method

    @property
    def about(self) -> EvaluationRecord:
        return self.baseline.first.about

    @property
    def world(self) -> str:
        return str(self.about.world)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The laws that differ between episodes: what errors can be drawn against."""
        first, found = self.baseline.first, []
        for i, (name, sampler) in enumerate(first.samplers.items()):
            unit_ = str(self.about.laws[name].unit).replace("^2", "²")
            axis = Axis(name, unit_, sampler, tuple(np.unique(first.law[:, i]).tolist()))
            found += [axis] if len(axis.values) > 1 else []
        return tuple(found)

    @property
    def changed(self) -> str:
        """What differs between episodes, as text; empty where no law does."""
        return " and ".join(axis.name for axis in self.axes)

    @property
    def tested(self) -> str:
        """How many laws there are: "25 gravities", "25 gravities × 5 horizontal gravities"."""
        return " × ".join(f"{len(axis.values)} {axis.several}" for axis in self.axes)

    @property
    def others(self) -> tuple[Method, ...]:
        return tuple(method for method in self.methods if method is not self.baseline)

    @property
    def subject(self) -> Method:
        """What the page is about first: SG-JEPA, where it takes part."""
        first = self.methods[0]
        return first if first.label.startswith(OURS) else (*self.others, self.baseline)[0]

    @property
    def most(self) -> int:
        """Trainings of the method that has most."""
        return max(len(method.seeds) for method in self.methods)

    @property
    def decides(self) -> bool:
        """Whether every method was trained often enough for a verdict."""
        return decides(*self.methods)

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(name for name, one in METRICS.items() if one.compared and name in self.baseline.first.table)

    @property
    def horizons(self) -> tuple[int, ...]:
        """The tables' horizons; the last one is always there."""
        last = self.last
        return (*(h for h in HORIZONS if h < last), last)

    @property
    def columns(self) -> tuple[Horizon, ...]:
        """Of the tables: the horizons, and the mean over all of them."""
        return (*self.horizons, MEAN)

    @property
    def last(self) -> int:
        return self.baseline.first.horizons

    def episodes(self, region: str) -> int:
        return int(self.baseline.first.region(region).sum())

    @property
    def regions(self) -> tuple[str, ...]:
        """Those with episodes; if all lie on one side there is nothing to tell apart."""
        found = tuple(name for name in REGIONS if self.episodes(name))
        return found if len(found) == len(REGIONS) else ("all",)

    @cached_property
    def coverage(self) -> dict[tuple[float, ...], float]:
        """L_law by the laws of an episode, all of them; empty if the training laws never vary."""
        found = self.about.coverage
        return dict(zip(found.laws, found.L_law, strict=True)) if found else {}

    def follows_coverage(self, method: Method, metric: str) -> tuple[float, int]:
        """Rank correlation over the test laws between L_law and the error at the last horizon, and how many laws."""
        errors = method.by_law(metric, self.last, method.first.laws)
        laws = [law for law in errors if law in self.coverage]
        return spearman(np.array([self.coverage[law] for law in laws]), np.array([errors[law].mean for law in laws]))

    @cached_property
    def as_table(self) -> Table:
        """The same as the table of results that replaces this class."""
        return Table.of_evaluations({method.label: method.seeds for method in self.methods}, self.baseline.label)

    @property
    def published(self) -> Published | None:
        """The paper's numbers for this world, if it has any."""
        return published(self.world)


def gather(
    runs: Sequence[Path],
    baseline: str | None = None,
    data: str | None = None,
    named: Mapping[str, str] | None = None,
    names: Mapping[Path, str] | None = None,
) -> Results:
    """Read the evaluations of the runs; see `results.table.Results.of_runs`."""
    found = Table.of_runs(runs, baseline, data, named, names)
    methods = tuple(Method(arm, found.evaluations(arm)) for arm in found.arms)
    return Results(methods, methods[found.arms.index(found.baseline)])
