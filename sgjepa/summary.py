"""From rows to numbers with intervals: evaluations of one or several runs, by horizon, by law, in and out of distribution.

NumPy only: results can be read, compared and drawn on a machine without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa import files
from sgjepa.errors import InputError
from sgjepa.stats import Interval, bootstrap
from sgjepa.tables import Table, read_table

FOLDER, EPISODES, SETTINGS = "predict", "episodes.parquet", "predict.json"
REGIONS = ("all", "in", "out")  # of the training laws
LABELS = {
    "gru": "SG-JEPA (GRU)",
    "ssm": "SG-JEPA (SSM)",
    "transformer": "SG-JEPA (Transformer)",
    "lewm": "LeWM",
    "dino": "DINO-WM",
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
        method = LABELS.get(self.about["name"].rpartition("_")[2], self.about["name"])
        return f"{method}, {self.about['encoder']}" if self.about["encoder"] else method

    @property
    def law(self) -> np.ndarray:
        """(E,) the law of each episode."""
        return np.asarray(self._first[f"law.{self.about['law']}"])

    @property
    def episodes(self) -> np.ndarray:
        """(E,) episode numbers."""
        return np.asarray(self._first["episode"])

    @property
    def horizons(self) -> int:
        return int(self.table["horizon"].max())

    @property
    def _first(self) -> Table:
        rows = (self.table["source"] == "predicted") & (self.table["horizon"] == 1)
        return {name: column[rows] for name, column in self.table.items()}

    def values(self, metric: str, source: str = "predicted") -> np.ndarray:
        """(E, H) one metric of one source."""
        if metric not in self.table:
            raise InputError(f"{self.folder} has no metric '{metric}'")
        found: np.ndarray = self.table[metric][self.table["source"] == source].reshape(-1, self.horizons)
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
    for place in sorted((folder / FOLDER).glob("*")):
        if (place / SETTINGS).is_file():
            found.append(Evaluation(place, files.read_json(place / SETTINGS), read_table(place / EPISODES)))
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

    def stack(self, metric: str, source: str = "predicted", region: str = "all") -> np.ndarray:
        """(seeds, E, H)"""
        chosen = self.first.region(region)
        return np.stack([one.values(metric, source)[chosen] for one in self.seeds])

    def by_horizon(self, metric: str, source: str = "predicted", region: str = "all") -> list[Interval]:
        """One interval for each horizon, 1 first."""
        return bootstrap(self.stack(metric, source, region))

    def by_law(self, metric: str, horizon: int, source: str = "predicted") -> dict[float, Interval]:
        """One interval for each value of the law."""
        values, law = self.stack(metric, source)[:, :, [horizon - 1]], self.first.law
        return {float(g): bootstrap(values[:, law == g])[0] for g in np.unique(law)}


def methods(evaluations: Sequence[Evaluation]) -> list[Method]:
    """Put training seeds of one method together, in the order given; all must have the same episodes."""
    found: dict[str, list[Evaluation]] = {}
    for one in evaluations:
        found.setdefault(one.label, []).append(one)
        first = evaluations[0]
        if one.about["settings"]["data"] != first.about["settings"]["data"] or one.horizons != first.horizons:
            raise InputError(f"{one.folder} and {first.folder} are of different datasets or horizons; report them apart")
    return [Method(label, tuple(group)) for label, group in found.items()]


def paired(one: Method, other: Method, metric: str, region: str = "all", source: str = "predicted") -> list[Interval]:
    """Intervals of `one` minus `other` on the same episodes, a horizon each; seeds are averaged before they are paired
    unless both have the same number of them."""
    a, b = one.stack(metric, source, region), other.stack(metric, source, region)
    if len(a) != len(b):
        a, b = a.mean(axis=0, keepdims=True), b.mean(axis=0, keepdims=True)
    return bootstrap(a - b)
