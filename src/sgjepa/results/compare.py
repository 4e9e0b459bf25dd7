"""Evaluations of several runs side by side: methods with their training seeds, paired differences, verdicts. NumPy only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.stats import Interval, bootstrap, bootstrap_difference, bootstrap_ratio
from sgjepa.results.claims import LEAST
from sgjepa.results.load import Evaluation

MEAN = "mean"  # in place of a horizon: the mean over all of them, as in the paper's tables
Horizon: TypeAlias = int | str


def at(values: np.ndarray, horizons: Sequence[Horizon]) -> np.ndarray:
    """(..., H), horizon 1 first -> (..., columns): those horizons, or the mean over all."""
    return np.stack([values.mean(axis=-1) if h == MEAN else values[..., int(h) - 1] for h in horizons], axis=-1)


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
    """Put training seeds of one method together, in the order given; all must have the same episodes.

    Runs of one method with different settings are different methods, told apart by the run's name; so are those that were
    finished and went on to more updates, and their label says so.
    named: what to call runs of certain names, instead of the paper's names.
    """
    found: dict[tuple[str, str], list[Evaluation]] = {}
    first = evaluations[0]
    for one in evaluations:
        if one.about.settings.data != first.about.settings.data or one.horizons != first.horizons:
            raise InputError(f"{one.folder} and {first.folder} are of different datasets or horizons; report them apart")
        if one.about.settings.config != first.about.settings.config:
            raise InputError(f"{one.folder} and {first.folder} were read by different probes; evaluate both with the same")
        label = (named or {}).get(one.name, one.label) + _continued(one)
        group = found.setdefault((label, _recipe(one)), [])
        for other in group:
            if other.about.seed == one.about.seed:
                raise InputError(f"{one.run} and {other.run} are the same training, seed {one.about.seed}; give one")
        group.append(one)
    for group in found.values():
        group.sort(key=lambda one: int(one.about.seed))  # so that the same seeds are compared
    labels = [label for label, _ in found]
    for name in (lambda one: one.about.run, lambda one: str(one.run)):  # the folder's name, or else its whole path
        if len(set(labels)) < len(labels):
            labels = [
                label if labels.count(label) == 1 else f"{first}, {name(group[0])}"
                for label, ((first, _), group) in zip(labels, found.items(), strict=True)
            ]
    return [Method(label, tuple(group)) for label, group in zip(labels, found.values(), strict=True)]


def _continued(one: Evaluation) -> str:
    """What is added to the label of a training that was finished and went on; empty for one without a break."""
    steps = [f"{leg.step:,}" for leg in run_folder.about(one.run).continued]
    return f", continued after {' and '.join(steps)} updates" if steps else ""


def _recipe(one: Evaluation) -> str:
    """The settings that training seeds share."""
    settings = dict(run_folder.about(one.run).config)
    if isinstance(train := settings.get("train"), dict):  # the decoder changes nothing in the model
        settings["train"] = {key: value for key, value in train.items() if key != "decoder"}
    settings["continued"] = _continued(one)  # its learning rates were others
    for name in ("seed", "name"):  # what it is called is told by its label
        settings.pop(name, None)
    if settings.get("init"):  # warm starts from trainings that differ in their seed alone belong together
        settings["init"] = re.sub(r"-seed\d+$", "", str(settings["init"]))
    return json.dumps(settings, sort_keys=True)


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


def verdict(difference: Interval) -> str:
    """Of an error minus another: "better", "worse", or "undecided" where the interval holds zero."""
    if difference.high < 0:
        return "better"
    return "worse" if difference.low > 0 else "undecided"


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
