"""What a report is about: the methods, the one they are compared with, and what can be shown of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from sgjepa.core.errors import InputError, unknown
from sgjepa.core.run_folder import EVALUATIONS
from sgjepa.core.stats import spearman
from sgjepa.data.probe_targets import METRICS, UNITS
from sgjepa.evaluation.records import EvaluationRecord, read_evaluation
from sgjepa.laws import Sampler, find
from sgjepa.results.compare import MEAN, Horizon, Method, decides, methods
from sgjepa.results.load import REGIONS, Evaluation, evaluated, load_evaluations
from sgjepa.results.paper_numbers import Published, published

HORIZONS = (1, 5, 16, 32, 44)  # of the tables
MAIN = "position_l2"
REFERENCES = {
    "stay": "object stays put",
    "constant_velocity": "constant velocity",
    "simulator": "simulator from the probed state",
    "one_step": "one step at a time",
    "true": "probe on true frames",
}
OURS = "SG-JEPA"
_USUAL = ("LeWM", "DINO-WM")  # compared with, if nothing else is asked for


def unit(metric: str) -> str:
    """As it stands behind a number; nothing for a pure number."""
    return {"1": "", "deg": "°"}.get(UNITS[metric], UNITS[metric])


@dataclass(frozen=True)
class Axis:
    """One law of the evaluated episodes, the values they have, and what training drew."""

    name: str
    unit: str
    training: Sampler
    values: tuple[float, ...]

    @property
    def symbol(self) -> str:
        return find(self.name).short

    @property
    def several(self) -> str:
        """The law's name for several of them."""
        return find(self.name).many

    @property
    def trained(self) -> str:
        """What training drew: "g = 4 ± 0.5 m/s²"."""
        return f"{self.symbol} {self.training.words} {self.unit}".replace("-", "\N{MINUS SIGN}")

    @property
    def inside(self) -> str:
        """Which values count as in distribution: "g from 3 to 5"."""
        low, high = self.training.bounds
        ends = f"from {low:g} to {high:g}".replace("-", "\N{MINUS SIGN}")
        return f"{self.symbol} {ends}"


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
        return tuple(name for name in METRICS if name in self.baseline.first.table)

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
    """Read the evaluations of the runs; each refusal is one line.

    named: what to call runs of certain names. names: of runs by their folders, instead of those they were trained under.
    """
    if not runs:
        raise InputError("a report of nothing: give at least one run that `sgjepa evaluate` has evaluated")
    for run in runs:
        if [other.resolve() for other in runs].count(run.resolve()) > 1:
            raise InputError(f"{run} is given twice")
    name = _same_data(runs, data)
    chosen = [one for run in runs for one in load_evaluations(run, name)]  # what lies beside it may be damaged
    found = methods([replace(one, called=(names or {}).get(one.run, "")) for one in chosen], named)
    found.sort(key=lambda method: not method.label.startswith(OURS))  # what a report is about, and then its baselines
    labels = [method.label for method in found]
    if baseline is None:
        usual = [label for name in _USUAL for label in labels if label.startswith(name)]
        baseline = (usual or labels)[0]
    if baseline not in labels:
        raise unknown("baseline", baseline, labels)
    return Results(tuple(found), found[labels.index(baseline)])


def _same_data(runs: Sequence[Path], data: str | None) -> str:
    """The evaluation, of the same dataset, probe and context, that every run has.

    The one asked for; or else the usual one on the only test split they share; or the only one they share.
    """
    names = [set(evaluated(run)) for run in runs]
    common = set.intersection(*names)
    for run, mine in zip(runs, names, strict=True):
        if data is not None and data not in mine:
            raise InputError(f"{run} was not evaluated on '{data}' but on {', '.join(sorted(mine))}")
        if not mine & names[0]:
            theirs, ours = ", ".join(sorted(names[0])), ", ".join(sorted(mine))
            raise InputError(f"{runs[0]} was evaluated on {theirs}, {run} on {ours}; report different datasets apart")
    if data is not None:
        return data
    if not common:
        raise InputError("these runs share no dataset they were all evaluated on; report different datasets apart")
    shared = sorted(common)
    if len(shared) > 1:
        about = {name: read_evaluation(runs[0] / EVALUATIONS / name) for name in shared}
        shared = [name for name in shared if about[name].settings.split == "test"] or shared
        shared = [name for name in shared if not about[name].differs] or shared
    name, *others = shared
    if others:
        raise InputError(f"these runs were evaluated as {', '.join([name, *others])}; choose one with --data")
    return name


def beside(one: Evaluation, stage: str, name: str) -> Path | None:
    """A file that another stage left for this run, dataset and probe, if it is there."""
    for folder in (one.folder.name, f"{one.dataset}-{one.differs}".removesuffix("-")):
        path = one.run / stage / folder / name
        if path.is_file():
            return path
    return None
