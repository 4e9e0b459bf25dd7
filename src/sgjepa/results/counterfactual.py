"""Errors of forecasts with another law than the true one (paper, "Counterfactual gravity conditioning")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sgjepa.core import artifact
from sgjepa.core.run_folder import COUNTERFACTUAL_ROWS, COUNTERFACTUALS
from sgjepa.core.stats import Interval, bootstrap
from sgjepa.core.tables import Table, select
from sgjepa.evaluation.records import CounterfactualRecord, read_checked
from sgjepa.results.evaluations import Evaluation
from sgjepa.results.table import Results

_NEEDED = ("law", "episode", "horizon", "law.true", "law.given", "nmse")
HORIZONS = (1, 3, 5, 9, 20, 32, 44)  # the paper's


@dataclass(frozen=True)
class Counterfactual:
    """Errors of one arm when values of one law are fed to the model, by (true, fed) value.

    area: mean NMSE over horizons. rise: area minus that with the true value fed.
    """

    label: str
    law: str
    seeds: int
    horizons: tuple[int, ...]
    area: dict[tuple[float, float], Interval]
    rise: dict[tuple[float, float], Interval]

    @property
    def true(self) -> list[float]:
        """The true values, sorted."""
        return sorted({true for true, _ in self.area})

    def fed(self, true: float) -> list[float]:
        """The values fed in episodes with a true value, sorted."""
        return sorted(fed for other, fed in self.area if other == true)


def area(nmse: np.ndarray, horizons: np.ndarray) -> np.ndarray:
    """The mean of NMSE (episodes, horizons) over the span of the horizons by the trapezoidal rule, (episodes,)."""
    between: np.ndarray = (nmse[:, 1:] + nmse[:, :-1]) / 2 * np.diff(horizons)
    return between.sum(axis=1) / (horizons[-1] - horizons[0])


def counterfactuals(results: Results) -> list[Counterfactual]:
    """The counterfactual errors of each law that varies and each arm whose runs all have counterfactual rows."""
    tables = {arm: _tables(results.evaluations(arm)) for arm in results.arms}
    each = [
        _counterfactual(arm, axis.name, [select(table, law=axis.name) for table in tables[arm]])
        for axis in results.axes
        for arm in results.arms
        if tables[arm]
    ]
    return [entry for entry in each if entry is not None]


def errors_by_given(runs: Sequence[Evaluation], law: str, true: float, metric: str) -> dict[float, dict[int, Interval]]:
    """The error at the paper's horizons for each value fed, in episodes with one true value of a law.

    Empty where the runs have no counterfactual rows.
    """
    tables = [select(table, law=law, **{"law.true": true}) for table in _tables(runs)]
    if not tables or metric not in tables[0]:
        return {}
    horizons = [h for h in HORIZONS if h in tables[0]["horizon"]]
    errors = {}
    for value in np.unique(tables[0]["law.given"]).tolist():
        values = np.stack([_by_episode(select(table, **{"law.given": value}), metric, horizons) for table in tables])
        errors[value] = dict(zip(horizons, bootstrap(values), strict=True))
    return errors


def _tables(runs: Sequence[Evaluation]) -> list[Table]:
    """The counterfactual table of each run; empty if a run has none of its evaluated model and data."""
    paths = [(run, run.stage_file(COUNTERFACTUALS, COUNTERFACTUAL_ROWS)) for run in runs]
    measured = [(run, path) for run, path in paths if path and _same(run, path)]
    if len(measured) < len(runs):
        return []
    return [read_checked(path, _NEEDED) for _, path in measured]


def _counterfactual(arm: str, law: str, tables: list[Table]) -> Counterfactual | None:
    measured = set(np.unique(tables[0]["horizon"]).tolist())
    horizons = tuple(h for h in HORIZONS if h in measured)
    if len(horizons) < 2:
        return None
    areas, rises = {}, {}
    for true in np.unique(tables[0]["law.true"]).tolist():
        fed = np.unique(tables[0]["law.given"][tables[0]["law.true"] == true]).tolist()
        if true not in fed:
            continue  # the reference is missing
        values = {g: np.stack([_areas(table, true, g, horizons) for table in tables]) for g in fed}  # (seeds, episodes)
        for g in fed:
            areas[float(true), g] = bootstrap(values[g][:, :, None])[0]
            rises[float(true), g] = bootstrap((values[g] - values[true])[:, :, None])[0]
    return Counterfactual(arm, law, len(tables), horizons, areas, rises)


def _same(evaluation: Evaluation, path: Path) -> bool:
    """Whether a counterfactual file has the model, data and probe of an evaluation."""
    settings, evaluated = artifact.read_record(CounterfactualRecord, path.parent).settings, evaluation.about.settings
    same = (settings["model"], settings["data"]) == (evaluated.model, evaluated.data)
    return same and bool(settings["config"]["forecast"] == evaluated.config)


def _areas(table: Table, true: float, fed: float, horizons: tuple[int, ...]) -> np.ndarray:
    """The area of each episode, in the order of episode numbers."""
    rows = select(table, **{"law.true": true, "law.given": fed})
    return area(_by_episode(rows, "nmse", horizons), np.array(horizons, float))


def _by_episode(table: Table, metric: str, horizons: Sequence[int]) -> np.ndarray:
    """A metric as (episodes, horizons), in the order of episode numbers."""
    rows = np.isin(table["horizon"], horizons)
    order = np.lexsort((table["horizon"][rows], table["episode"][rows]))
    values: np.ndarray = table[metric][rows][order].reshape(-1, len(horizons)).astype(float)
    return values
