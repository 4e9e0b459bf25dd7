"""The report's tables: what the page shows, and the same numbers in full as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval
from sgjepa.data.probe_targets import METRICS
from sgjepa.results.compare import MEAN, Horizon, Method, decides, marks, paired, ratio, verdict
from sgjepa.results.counterfactual import Counterfactual
from sgjepa.results.gather import REFERENCES, Results

Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """interval: low and high are not-a-number where the paper gives none."""

    interval: Interval
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """kind: "method", "reference" (needs no learned dynamics) or "paper" (published, at paper size)."""

    label: str
    kind: str
    seeds: int
    cells: dict[Horizon, Cell]


@dataclass(frozen=True)
class Group:
    """One metric in one region."""

    metric: str
    region: str
    lines: tuple[Line, ...]


def groups(results: Results, region: str) -> list[Group]:
    """One table: for each metric our methods, staying put, and the paper's numbers (they are over all laws)."""
    found = []
    for metric in results.metrics:
        none = [""] * len(results.methods)
        mark = {h: marks(results.methods, metric, h, region) if results.decides else none for h in results.columns}
        lines = []
        for i, method in enumerate(results.methods):
            found_here = method.at(metric, results.columns, region=region)
            cells = {h: Cell(one, mark[h][i]) for h, one in found_here.items()}
            lines.append(Line(method.label, "method", len(method.seeds), cells))
        lines += _references(results, metric, region)
        if region == "all":
            lines += _published(results, metric)
        found.append(Group(metric, region, tuple(lines)))
    return found


def _references(results: Results, metric: str, region: str) -> list[Line]:
    """Staying put, and what a perfect simulator makes of the state that each method's probe sees."""
    asked = [(REFERENCES["stay"], "stay", results.baseline)]
    asked += [(f"simulator from {method.label}'s probe", "simulator", method) for method in results.methods]
    found = []
    for label, source, method in asked:
        here = method.at(metric, results.columns, source, region)
        if np.isfinite(here[MEAN].mean):
            found.append(Line(label, "reference", 0, {h: Cell(one) for h, one in here.items()}))
    return found


def _published(results: Results, metric: str) -> list[Line]:
    paper = results.published
    found = []
    for label, values in (paper.values.get(metric, {}) if paper else {}).items():
        shown = {h: Cell(Interval(values[h], np.nan, np.nan, 0)) for h in results.columns if h in values}
        if shown:
            found.append(Line(f"paper: {label}", "paper", 1, shown))
    return found


def table_records(tables: Sequence[Group]) -> list[Record]:
    """A row for each cell of the page's tables."""
    return [
        {
            "region": group.region,
            "metric": group.metric,
            "method": line.label,
            "kind": line.kind,
            "horizon": h,
            **_interval(cell.interval),
            "seeds": line.seeds,
            "mark": cell.mark,
        }
        for group in tables
        for line in group.lines
        for h, cell in line.cells.items()
    ]


def by_horizon(results: Results) -> list[Record]:
    """Every metric, source, region and horizon: the figures' curves."""
    found = []
    for method in results.methods:
        for metric in results.metrics:
            for source in ("predicted", *REFERENCES):
                for region in results.regions:
                    intervals = method.by_horizon(metric, source, region)
                    if not np.isfinite(intervals[-1].mean):
                        continue
                    head = _head(method, metric) | {"source": source, "region": region}
                    found += [head | {"horizon": h} | _interval(one) for h, one in enumerate(intervals, start=1)]
    return found


def by_law(results: Results, names: Sequence[str]) -> list[Record]:
    """Every metric at the last horizon, for each combination of these laws' values.

    L_law is that of the combination, where these are all the laws there are.
    """
    found = []
    for method in results.methods:
        complete = tuple(names) == method.first.laws
        for metric in results.metrics:
            for values, one in method.by_law(metric, results.last, names).items():
                far = results.coverage.get(values, float("nan")) if complete else float("nan")
                laws = {f"law.{name}": value for name, value in zip(names, values, strict=True)}
                found.append(_head(method, metric) | laws | {"L_law": far, "horizon": results.last} | _interval(one))
    return found


@dataclass(frozen=True)
class Comparison:
    """A method against the baseline at one horizon, on the same episodes. decides: whether there are enough trainings."""

    method: str
    metric: str
    region: str
    horizon: Horizon
    difference: Interval
    ratio: Interval
    decides: bool

    @property
    def verdict(self) -> str:
        """Empty where there are too few trainings for any."""
        return verdict(self.difference) if self.decides else ""


def comparisons(results: Results) -> list[Comparison]:
    """Every method but the baseline, every metric, region and horizon of the tables."""
    found = []
    for method in results.others:
        for metric in results.metrics:
            for region in results.regions:
                differences = paired(method, results.baseline, metric, results.columns, region)
                ratios = ratio(method, results.baseline, metric, results.columns, region)
                enough = decides(method, results.baseline)
                found += [
                    Comparison(method.label, metric, region, h, differences[h], ratios[h], enough) for h in results.columns
                ]
    return found


def comparison_records(results: Results, found: Sequence[Comparison]) -> list[Record]:
    """A row for each comparison."""
    return [
        {
            "method": one.method,
            "baseline": results.baseline.label,
            "metric": one.metric,
            "region": one.region,
            "horizon": one.horizon,
            **_interval(one.difference, "difference"),
            **_interval(one.ratio, "ratio"),
            "verdict": one.verdict,
        }
        for one in found
    ]


def counterfactual_records(found: Sequence[Counterfactual]) -> list[Record]:
    """A row for each method, true law and given law."""
    return [
        {
            "method": one.label,
            "law": one.law,
            "law.true": true,
            "law.given": given,
            **_interval(one.area[true, given], "area"),
            **_interval(one.rise[true, given], "rise"),
            "seeds": one.seeds,
            "verdict": verdict(one.rise[true, given]) if given != true else "",
        }
        for one in found
        for true, given in sorted(one.area)
    ]


def _head(method: Method, metric: str) -> Record:
    return {"method": method.label, "seeds": len(method.seeds), "metric": metric}


def _interval(one: Interval, name: str = "mean") -> Record:
    low, high = ("low", "high") if name == "mean" else (f"{name}_low", f"{name}_high")
    return {name: one.mean, low: one.low, high: one.high, "episodes": one.count}


TITLES = {metric: name[0].upper() + name[1:] for metric, name in METRICS.items()}
