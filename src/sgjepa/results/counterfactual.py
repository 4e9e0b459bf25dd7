"""Another law than the true one is fed to the model: does the error grow? (paper, "Counterfactual gravity conditioning")"""

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
    """What another law than the true one does to the error of one arm, for one law.

    area: (true, given) -> mean NMSE over horizons. rise: what a value that was given adds to that of the true one.
    """

    label: str
    law: str
    seeds: int
    horizons: tuple[int, ...]
    area: dict[tuple[float, float], Interval]
    rise: dict[tuple[float, float], Interval]

    @property
    def true(self) -> list[float]:
        """The true values, in order."""
        return sorted({true for true, _ in self.area})

    def given(self, true: float) -> list[float]:
        """The values that were given in episodes of a true one, in order."""
        return sorted(given for other, given in self.area if other == true)


def area(nmse: np.ndarray, horizons: np.ndarray) -> np.ndarray:
    """(episodes, horizons) -> the trapezoid over horizons, divided by their span: (episodes,)."""
    between: np.ndarray = (nmse[:, 1:] + nmse[:, :-1]) / 2 * np.diff(horizons)
    return between.sum(axis=1) / (horizons[-1] - horizons[0])


def counterfactuals(results: Results) -> list[Counterfactual]:
    """One for each law that varies and each arm whose runs all have counterfactual rows."""
    tables = {arm: _tables(results.evaluations(arm)) for arm in results.arms}
    each = [
        _counterfactual(arm, axis.name, [select(table, law=axis.name) for table in tables[arm]])
        for axis in results.axes
        for arm in results.arms
        if tables[arm]
    ]
    return [one for one in each if one is not None]


def errors_by_given(runs: Sequence[Evaluation], law: str, true: float, metric: str) -> dict[float, dict[int, Interval]]:
    """The error at the paper's horizons for each value that was given, in episodes of one true value of a law.

    Empty where the runs have no counterfactual rows.
    """
    tables = [select(table, law=law, **{"law.true": true}) for table in _tables(runs)]
    if not tables or metric not in tables[0]:
        return {}
    horizons = [h for h in HORIZONS if h in tables[0]["horizon"]]
    errors = {}
    for given in np.unique(tables[0]["law.given"]).tolist():
        values = np.stack([_by_episode(select(table, **{"law.given": given}), metric, horizons) for table in tables])
        errors[given] = dict(zip(horizons, bootstrap(values), strict=True))
    return errors


def _tables(runs: Sequence[Evaluation]) -> list[Table]:
    """A table for each run; none if a run has no counterfactual of the model and data that were evaluated."""
    paths = [(one, one.beside(COUNTERFACTUALS, COUNTERFACTUAL_ROWS)) for one in runs]
    measured = [(one, path) for one, path in paths if path and _same(one, path)]
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
        given = np.unique(tables[0]["law.given"][tables[0]["law.true"] == true]).tolist()
        if true not in given:
            continue  # nothing to compare with
        values = {g: np.stack([_areas(table, true, g, horizons) for table in tables]) for g in given}  # (seeds, episodes)
        for g in given:
            areas[float(true), g] = bootstrap(values[g][:, :, None])[0]
            rises[float(true), g] = bootstrap((values[g] - values[true])[:, :, None])[0]
    return Counterfactual(arm, law, len(tables), horizons, areas, rises)


def _same(one: Evaluation, path: Path) -> bool:
    """Whether the file is of the very model and data that were evaluated, read by the same probe."""
    settings, mine = artifact.read_record(CounterfactualRecord, path.parent).settings, one.about.settings
    same = (settings["model"], settings["data"]) == (mine.model, mine.data)
    return same and bool(settings["config"]["forecast"] == mine.config)


def _areas(table: Table, true: float, given: float, horizons: tuple[int, ...]) -> np.ndarray:
    """One number per episode, in the order of episode numbers."""
    chosen = select(table, **{"law.true": true, "law.given": given})
    return area(_by_episode(chosen, "nmse", horizons), np.array(horizons, float))


def _by_episode(table: Table, metric: str, horizons: Sequence[int]) -> np.ndarray:
    """(episodes, horizons), in the order of episode numbers."""
    rows = np.isin(table["horizon"], horizons)
    order = np.lexsort((table["horizon"][rows], table["episode"][rows]))
    values: np.ndarray = table[metric][rows][order].reshape(-1, len(horizons)).astype(float)
    return values
