"""From rows to numbers with intervals: evaluations of one or several runs, by horizon, by law, in and out of distribution.

NumPy only: results can be read, compared and drawn on a machine without torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core import files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.run_folder import EPISODES, EVALUATION, EVALUATIONS, SUMMARY
from sgjepa.core.stats import Interval, bootstrap, bootstrap_difference, bootstrap_ratio
from sgjepa.core.tables import Table, read_table, to_csv
from sgjepa.evaluation.targets import UNITS

HORIZONS = (1, 5, 16, 32, 44)  # the paper's, and the first
REGIONS = ("all", "in", "out")  # of the training laws
LABELS = {
    "gru": "SG-JEPA (GRU)",
    "ssm": "SG-JEPA (SSM)",
    "transformer": "SG-JEPA (Transformer)",
    "lewm": "LeWM",
    "dino": "DINO-WM",
    "gru_constant_rollout": "GRU, constant law, rollout",
    "gru_given_one_step": "GRU, law given, one step",
    "gru_constant_one_step": "GRU, constant law, one step",
}


@dataclass(frozen=True)
class Evaluation:
    """One run on one dataset: what `sgjepa predict` wrote."""

    folder: Path
    about: dict[str, Any]
    table: Table

    @property
    def label(self) -> str:
        """The method as the paper calls it; a frozen encoder is named."""
        name = self.about["name"].removeprefix(f"{self.about['world']}_")
        method = LABELS.get(name, self.about["name"])
        return f"{method}, {self.about['encoder']}" if self.about["encoder"] else method

    @property
    def run(self) -> Path:
        """The run's folder."""
        return self.folder.parents[1]

    @cached_property
    def law(self) -> np.ndarray:
        """(E,) the law of each episode."""
        return np.asarray(self._first[f"law.{self.about['law']}"])

    @property
    def episodes(self) -> np.ndarray:
        """(E,) episode numbers."""
        return np.asarray(self._first["episode"])

    @cached_property
    def horizons(self) -> int:
        return int(self.table["horizon"].max())

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        """Which rows are of which source; comparing a million strings once is enough."""
        names = self.table["source"]
        return {str(name): names == name for name in np.unique(names.astype(str))}

    @property
    def _first(self) -> Table:
        rows = self._rows["predicted"] & (self.table["horizon"] == 1)
        return {name: column[rows] for name, column in self.table.items()}

    def values(self, metric: str, source: str = "predicted") -> np.ndarray:
        """(E, H) one metric of one source."""
        if metric not in self.table:
            raise InputError(f"{self.folder} has no metric '{metric}'")
        found: np.ndarray = self.table[metric][self._rows[source]].reshape(-1, self.horizons)
        return found

    def region(self, name: str) -> np.ndarray:
        """(E,) which episodes lie in a region: in = within two standard deviations of the training mean."""
        inside = in_distribution(self.about["training_law"], self.law)
        return {"all": np.ones(len(inside), bool), "in": inside, "out": ~inside}[name]


def in_distribution(training: dict[str, Any], law: np.ndarray) -> np.ndarray:
    """Within two standard deviations of a clipped normal's mean, or between the ends of a grid."""
    if "values" in training:
        low, high = min(training["values"]), max(training["values"])
    else:
        low, high = training["mean"] - 2 * training["std"], training["mean"] + 2 * training["std"]
    found: np.ndarray = (law >= low - 1e-6) & (law <= high + 1e-6)
    return found


def load_evaluations(folder: Path) -> list[Evaluation]:
    """What was evaluated of a run, one for each dataset."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a run")
    found = []
    for place in sorted((folder / EVALUATIONS).glob("*")):
        if (place / EVALUATION).is_file():
            found.append(Evaluation(place, files.read_json(place / EVALUATION), read_table(place / EPISODES)))
    if not found:
        raise InputError(f"{folder} has not been evaluated; run: sgjepa predict {folder}")
    return found


@dataclass(frozen=True)
class Method:
    """Evaluations of one method on the same episodes, one for each training seed."""

    label: str
    seeds: tuple[Evaluation, ...]

    @property
    def first(self) -> Evaluation:
        return self.seeds[0]

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

    def by_law(self, metric: str, horizon: int, source: str = "predicted") -> dict[float, Interval]:
        """One interval for each value of the law."""
        values, law = self.stack(metric, source)[:, :, [horizon - 1]], self.first.law
        return {float(g): bootstrap(values[:, law == g])[0] for g in np.unique(law)}


def methods(evaluations: Sequence[Evaluation]) -> list[Method]:
    """Put training seeds of one method together, in the order given; all must have the same episodes.

    Runs of one method with different settings are different methods, told apart by the run's name.
    """
    found: dict[tuple[str, str], list[Evaluation]] = {}
    first = evaluations[0]
    for one in evaluations:
        if one.about["settings"]["data"] != first.about["settings"]["data"] or one.horizons != first.horizons:
            raise InputError(f"{one.folder} and {first.folder} are of different datasets or horizons; report them apart")
        if one.about["settings"]["config"] != first.about["settings"]["config"]:
            raise InputError(f"{one.folder} and {first.folder} were read by different probes; evaluate both with the same")
        group = found.setdefault((one.label, _recipe(one)), [])
        for other in group:
            if other.about["seed"] == one.about["seed"]:
                raise InputError(f"{one.run} and {other.run} are the same training, seed {one.about['seed']}; give one")
        group.append(one)
    for group in found.values():
        group.sort(key=lambda one: int(one.about["seed"]))  # so that the same seeds are compared
    labels = [label for label, _ in found]
    for name in (lambda one: one.about["run"], lambda one: str(one.run)):  # the folder's name, or else its whole path
        if len(set(labels)) < len(labels):
            labels = [
                label if labels.count(label) == 1 else f"{first}, {name(group[0])}"
                for label, ((first, _), group) in zip(labels, found.items(), strict=True)
            ]
    return [Method(label, tuple(group)) for label, group in zip(labels, found.values(), strict=True)]


def _recipe(one: Evaluation) -> str:
    """The settings that training seeds share."""
    settings = files.read_json(one.run / run_folder.CONFIG)["config"]
    settings["train"].pop("decoder", None)  # it changes nothing in the model
    settings.pop("seed")
    if settings.get("init"):  # warm starts from trainings that differ in their seed alone belong together
        settings["init"] = re.sub(r"-seed\d+$", "", settings["init"])
    return json.dumps(settings, sort_keys=True)


def paired(one: Method, other: Method, metric: str, region: str = "all", source: str = "predicted") -> list[Interval]:
    """Intervals of `one` minus `other` on the same episodes, a horizon each; seeds are paired if there are equally many."""
    return bootstrap_difference(one.stack(metric, source, region), other.stack(metric, source, region))


def against(method: Method, source: str, metric: str, region: str = "all") -> list[Interval]:
    """Intervals of a method's rollout minus one of its own references, such as "stay", a horizon each."""
    return bootstrap(method.stack(metric, "predicted", region) - method.stack(metric, source, region))


def ratio(one: Method, other: Method, metric: str, region: str = "all") -> list[Interval]:
    """Intervals of `one` divided by `other` on the same episodes, a horizon each."""
    return bootstrap_ratio(one.stack(metric, region=region), other.stack(metric, region=region))


def verdict(difference: Interval) -> str:
    """Of an error minus another: "better", "worse", or "undecided" where the interval holds zero."""
    if difference.high < 0:
        return "better"
    return "worse" if difference.low > 0 else "undecided"


def marks(compared: Sequence[Method], metric: str, horizon: int, region: str = "all") -> list[str]:
    """Which method is "best" (the lowest error, and all that cannot be told apart from it), "second" (the next) or "".

    Two methods are told apart when the interval of their paired difference excludes zero.
    """
    found = [""] * len(compared)
    if len(compared) < 2:
        return found
    means = [float(method.stack(metric, region=region)[:, :, horizon - 1].mean()) for method in compared]
    left = sorted(range(len(compared)), key=means.__getitem__)
    for mark in ("best", "second"):
        if left:
            leader = compared[left[0]]
            tied = [i for i in left[1:] if not _worse(compared[i], leader, metric, horizon, region)]
            for i in [left[0], *tied]:
                found[i] = mark
            left = [i for i in left if not found[i]]
    return found


def _worse(one: Method, other: Method, metric: str, horizon: int, region: str) -> bool:
    return verdict(paired(one, other, metric, region)[horizon - 1]) == "worse"


def write_summary(method: Method, place: Path) -> list[str]:
    """Write `summary.csv`, a mean with its interval for every source, metric, region and horizon; returns lines to print."""
    metrics = [name for name in UNITS if name in method.first.table]
    regions = [region for region in REGIONS if method.first.region(region).any()]
    records = []
    for source in np.unique(method.first.table["source"].astype(str)).tolist():
        for metric in metrics:
            for region in regions:
                found = method.by_horizon(metric, source, region)
                if np.isfinite(found[-1].mean):
                    head = {"source": source, "metric": metric, "unit": UNITS[metric], "region": region}
                    records += [{**head, "horizon": h, **asdict(one)} for h, one in enumerate(found, start=1)]
    files.write_bytes(place / SUMMARY, to_csv(records).encode())
    shown = [h for h in HORIZONS if h <= method.first.horizons]
    lines = [f"{method.label}: error at horizon {' / '.join(map(str, shown))}, mean and 95 % interval at the last"]
    for metric in metrics:
        for region in regions:
            found = method.by_horizon(metric, region=region)
            last = found[shown[-1] - 1]
            values = " / ".join(f"{found[h - 1].mean:.3f}" for h in shown)
            where = f"{region} ({last.count} episodes)"
            lines.append(f"  {metric:15s} {where:20s} {values} ({last.low:.3f} to {last.high:.3f}) {UNITS[metric]}")
    return [*lines, f"every number: {place / SUMMARY}; every episode: {place / EPISODES}"]
