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
from sgjepa.results.compare import Method
from sgjepa.results.evaluations import Evaluation
from sgjepa.results.gather import Results, beside

_NEEDED = ("episode", "horizon", "law.true", "law.given", "nmse")
HORIZONS = (1, 3, 5, 9, 20, 32, 44)  # the paper's


@dataclass(frozen=True)
class Counterfactual:
    """Of one method and one law. area: (true, given) -> mean NMSE over horizons; rise: what it adds to the true one's."""

    label: str
    law: str
    seeds: int
    horizons: tuple[int, ...]
    area: dict[tuple[float, float], Interval]
    rise: dict[tuple[float, float], Interval]

    @property
    def true(self) -> list[float]:
        return sorted({true for true, _ in self.area})

    def given(self, true: float) -> list[float]:
        return sorted(given for other, given in self.area if other == true)


def area(nmse: np.ndarray, horizons: np.ndarray) -> np.ndarray:
    """(episodes, horizons) -> the trapezoid over horizons, divided by their span: (episodes,)."""
    between: np.ndarray = (nmse[:, 1:] + nmse[:, :-1]) / 2 * np.diff(horizons)
    return between.sum(axis=1) / (horizons[-1] - horizons[0])


def counterfactuals(results: Results) -> list[Counterfactual]:
    """Of every law, and every method whose runs all have one."""
    tables = {method.label: _tables(method) for method in results.methods}
    found = [
        _of(method, axis.name, [select(table, law=axis.name) for table in tables[method.label]])
        for i, axis in enumerate(results.axes)
        for method in results.methods
        if tables[method.label]
    ]
    return [one for one in found if one is not None]


def told_by_horizon(method: Method, law: str, true: float, metric: str) -> dict[float, dict[int, Interval]]:
    """The error at the paper's horizons for each value that was told, in episodes of one true law.

    Empty where there is no counterfactual of the method.
    """
    tables = [select(table, law=law) for table in _tables(method)]
    tables = [select(table, **{"law.true": true}) for table in tables]
    if not tables or metric not in tables[0]:
        return {}
    horizons = [h for h in HORIZONS if h in tables[0]["horizon"]]
    found = {}
    for given in np.unique(tables[0]["law.given"]).tolist():
        values = np.stack([_of_episodes(select(table, **{"law.given": given}), metric, horizons) for table in tables])
        found[given] = dict(zip(horizons, bootstrap(values), strict=True))
    return found


def _tables(method: Method) -> list[Table]:
    """One per seed; none if a seed has no counterfactual of the model and data that were evaluated."""
    beside_each = [(one, beside(one, COUNTERFACTUALS, COUNTERFACTUAL_ROWS)) for one in method.seeds]
    found = [(one, path) for one, path in beside_each if path and _same(one, path)]
    if len(found) < len(method.seeds):
        return []
    return [read_checked(path, _NEEDED) for _, path in found]


def _of(method: Method, law: str, tables: list[Table]) -> Counterfactual | None:
    there = set(np.unique(tables[0]["horizon"]).tolist())
    horizons = tuple(h for h in HORIZONS if h in there)
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
    return Counterfactual(method.label, law, len(method.seeds), horizons, areas, rises)


def _same(one: Evaluation, path: Path) -> bool:
    """Whether the file is of the very model and data that were evaluated, read by the same probe."""
    settings, mine = artifact.read_record(CounterfactualRecord, path.parent).settings, one.about.settings
    same = (settings["model"], settings["data"]) == (mine.model, mine.data)
    return same and bool(settings["config"]["forecast"] == mine.config)


def _areas(table: Table, true: float, given: float, horizons: tuple[int, ...]) -> np.ndarray:
    """One number per episode, in the order of episode numbers."""
    chosen = select(table, **{"law.true": true, "law.given": given})
    return area(_of_episodes(chosen, "nmse", horizons), np.array(horizons, float))


def _of_episodes(table: Table, metric: str, horizons: Sequence[int]) -> np.ndarray:
    """(episodes, horizons), in the order of episode numbers."""
    rows = np.isin(table["horizon"], horizons)
    order = np.lexsort((table["horizon"][rows], table["episode"][rows]))
    values: np.ndarray = table[metric][rows][order].reshape(-1, len(horizons)).astype(float)
    return values
