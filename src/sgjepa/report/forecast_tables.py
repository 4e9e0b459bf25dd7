"""Tables of forecasts, for pages and as records for CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval
from sgjepa.evaluation.metrics import MAIN, METRICS
from sgjepa.report import figures
from sgjepa.report.blocks import Block, Data, Group, Label, Number, Row, Table, Text, labels_of
from sgjepa.report.forecast_figures import judged_regions
from sgjepa.report.words import capital, count, decimals_of, few, measured, too_few, unit, where
from sgjepa.results.claims import BETTER, UNDECIDED, WORSE, verdict
from sgjepa.results.counterfactual import Counterfactual
from sgjepa.results.paper_numbers import published
from sgjepa.results.selection import BASELINES, MEAN, REGIONS, Axis, Horizon
from sgjepa.results.table import Results

Record = dict[str, Any]


def arm_names(results: Results) -> dict[str, Label]:
    """Labels of arms with the number of their trainings."""
    return labels_of(results.arms, lambda arm: count(len(results.seeds(arm)), "seed"))


@dataclass(frozen=True)
class Line:
    """An arm, a baseline or a method of the paper in one table. kind: "method", "reference" or "paper"."""

    label: str
    kind: str
    seeds: int
    cells: dict[Horizon, Number]


def lines(results: Results, metric: str, region: str) -> list[Line]:
    """The lines of a metric in a region: arms, baselines, and the paper's numbers, which are over all laws."""
    columns, decimals = results.columns, decimals_of(metric)
    marks = {h: results.marks(metric, h, region) for h in columns} if results.decides() else {}
    rows = []
    for arm in results.arms:
        means = results.mean(arm, metric, columns, None, region)
        cells = {h: Number(interval, decimals, marks[h][arm] if marks else "") for h, interval in means.items()}
        rows.append(Line(arm, "method", len(results.seeds(arm)), cells))
    baselines = [(BASELINES["stay"], "stay", results.baseline)]
    baselines += [(f"simulator from {arm}'s probe", "simulator", arm) for arm in results.arms]
    for label, source, arm in baselines:
        means = results.mean(arm, metric, columns, source, region)
        if np.isfinite(means[MEAN].mean):
            rows.append(Line(label, "reference", 0, {h: Number(interval, decimals) for h, interval in means.items()}))
    paper = published(results.world) if region == "all" else None
    for label, values in (paper.values.get(metric, {}) if paper else {}).items():
        cells = {h: Number(figures.without_interval(values[h]), decimals) for h in columns if h in values}
        rows += [Line(f"paper: {label}", "paper", 1, cells)] if cells else []
    return rows


def line_rows(results: Results, title: str, several: Sequence[Line]) -> list[Row | Group]:
    """Lines below a heading, as rows of a table."""
    arms = arm_names(results)
    names = arms | {line.label: Label(line.label, note="at paper size") for line in several if line.kind == "paper"}
    cells = [[names.get(line.label, line.label), *map(line.cells.get, results.columns)] for line in several]
    return [Group(title), *(Row(row, line.kind) for row, line in zip(cells, several, strict=True))]


def heads_of(results: Results) -> list[str]:
    """The columns of a table of errors."""
    return ["Method", *("mean" if h == MEAN else f"h = {h}" for h in results.columns)]


def marks_note(results: Results) -> str:
    """A note on bold and underlined numbers, or on why there are none."""
    return too_few(results) or (
        "Bold: the lowest error, and every method that does not differ from it significantly; underlined: the next."
    )


def difference_table(results: Results) -> Table:
    """Every other arm minus the baseline in the main metric."""
    rows: list[Row | Group] = []
    arms = arm_names(results)
    for region in judged_regions(results):
        rows.append(Group(capital(where(results, region))))
        for arm in results.others:
            gaps = results.difference(arm, results.baseline, MAIN, None, region)
            decided = results.decides(arm, results.baseline)
            cells = [Number(gap, 3, verdict=verdict(gap) if decided else "", signed=True) for gap in gaps.values()]
            rows.append(Row([arms[arm], *cells]))
    caption = (
        f"Difference from {results.baseline} on the same episodes in {unit(MAIN)}, below zero where a method errs less."
    )
    judged = too_few(results) or "Better or worse: the 95 % interval excludes zero."
    return Table(heads_of(results), rows, f"{caption} {judged}")


def comparisons(results: Results) -> tuple[Table, list[Record]]:
    """Every error relative to the baseline's: at the last horizon as a table, at all horizons as numbers."""
    base, last = results.baseline, results.horizons
    compared: list[Record] = []
    cells: dict[tuple[str, str, str], Number] = {}
    for arm in results.others:
        decided = results.decides(arm, base)
        for metric in results.comparable:
            for region in results.regions:
                gaps, ratios = (ask(arm, base, metric, None, region) for ask in (results.difference, results.ratio))
                for h, gap in gaps.items():
                    word = verdict(gap) if decided else ""
                    head = {"method": arm, "baseline": base, "metric": metric, "region": region, "horizon": h}
                    ends = interval_columns(gap, "difference") | interval_columns(ratios[h], "ratio")
                    compared.append({**head, **ends, "verdict": word})
                    if h == last:
                        cells[arm, metric, region] = Number(ratios[h], change=True, verdict=word)
    arms, rows = arm_names(results), list[Row | Group]()
    for metric in results.comparable:
        rows.append(Group(measured(metric)))
        rows += [Row([arms[arm], *(cells[arm, metric, region] for region in results.regions)]) for arm in results.others]
    caption = f"Change of the error at h = {last} against {base}, 95 % interval below. " + (
        too_few(results) or "Better or worse: the interval of the paired difference excludes zero."
    )
    heads = ["Method", *(capital(REGIONS[region]) for region in results.regions)]
    return Table(heads, rows, caption), compared


def baseline_table(results: Results) -> Table:
    """Each rollout minus staying put, and minus the simulator from what the probe reads."""
    arms, rows = arm_names(results), list[Row | Group]()
    for region in results.regions:
        rows.append(Group(capital(where(results, region))))
        for arm in results.arms:
            gaps = [results.against(arm, source, MAIN, region)[-1] for source in ("stay", "simulator")]
            cells = [Number(gap, 3, verdict=verdict(gap) if results.decides(arm) else "", signed=True) for gap in gaps]
            rows.append(Row([arms[arm], *cells]))
    caption = (
        f"{measured(MAIN)} of each rollout at h = {results.horizons} minus that of its own baselines on the same episodes, "
        f"below zero where the rollout errs less. {too_few(results)}"
    )
    return Table(["Method", f"minus {BASELINES['stay']}", f"minus {BASELINES['simulator']}"], rows, caption.strip())


def all_errors(results: Results) -> list[Block]:
    """Tables of all errors in all regions, and their records for errors.csv."""
    paper = published(results.world)
    note = "Mean error over episodes, 95 % interval below; the last column is the mean over all horizons."
    note += f" {marks_note(results)}"
    if paper:
        note += f" Lines in italics are the paper's numbers ({paper.source}), which have no intervals."
    blocks: list[Block] = [Text(note, quiet=True)]
    records: list[Record] = []
    for region in results.regions:
        rows: list[Row | Group] = []
        for metric in results.comparable:
            several = lines(results, metric, region)
            rows += line_rows(results, measured(metric), several)
            for line in several:
                head = {"region": region, "metric": metric, "method": line.label, "kind": line.kind}
                for h, cell in line.cells.items():
                    ends = interval_columns(cell.interval)
                    records.append({**head, "horizon": h, **ends, "seeds": line.seeds, "mark": cell.mark})
        caption = f"Errors {where(results, region)}; lower is better.{few(results.count(region))}"
        blocks.append(Table(heads_of(results), rows, caption))
    return [*blocks, Data("errors", records)]


def horizon_records(results: Results) -> list[Record]:
    """Records of all curves: every metric, source, region and horizon."""
    return [
        {**head, "source": source, "region": region, "horizon": h, **interval_columns(interval)}
        for arm in results.arms
        for metric in results.comparable
        for head in [record_head(results, arm, metric)]
        for source in ("predicted", *BASELINES)
        for region in results.regions
        for h, interval in enumerate(results.curve(arm, metric, source, region), start=1)
        if np.isfinite(interval.mean)
    ]


def law_records(results: Results, names: Sequence[str]) -> list[Record]:
    """Records of every metric at the last horizon by these laws' values; with L_law if these are all laws."""
    last, complete = results.horizons, tuple(names) == results.law_names
    return [
        {
            **record_head(results, arm, metric),
            **{f"law.{name}": value for name, value in zip(names, values, strict=True)},
            "L_law": results.coverage.get(values, float("nan")) if complete else float("nan"),
            "horizon": last,
            **interval_columns(interval),
        }
        for arm in results.arms
        for metric in results.comparable
        for values, interval in results.by_law(arm, metric, last, names).items()
    ]


def coverage_table(results: Results) -> Table:
    """A table of the rank correlation between coverage L_law and the error."""
    caption = (
        "Coverage L_law says how far outside the training laws an episode lies, before any training: its rank correlation "
        f"with the {METRICS[MAIN].label} at h = {results.horizons} over the test laws."
    )
    ranks = {arm: results.coverage_correlation(arm, MAIN) for arm in results.arms}
    rows = [(arm_names(results)[arm], Number(rank, 2, note=""), rank.count) for arm, rank in ranks.items()]
    return Table(["Method", "Rank correlation", "Laws"], rows, caption)


def rise_table(entry: Counterfactual, law: Axis, decides: bool) -> Table:
    """A table of NMSE with each value of a law given, minus NMSE with the true value."""
    chips = {BETTER: "larger", WORSE: "smaller", UNDECIDED: "not significant"} if decides else {}
    fed = sorted({value for _, value in entry.area})
    rows: list[Row] = []
    for true in entry.true:
        rises = {value: entry.rise.get((true, value)) for value in fed if value != true}
        cells = [
            Number(rise, verdict=chips.get(verdict(rise, 1), ""), signed=True) if (rise := rises.get(value)) else None
            for value in fed
        ]
        rows.append(Row([f"true {law.symbol} = {true:g}", *cells]))
    n = next(iter(entry.area.values())).count
    caption = (
        f"{entry.label}: NMSE with the {law.name} given minus NMSE with the true one; {count(n, 'episode')} each, "
        f"{count(entry.seeds, 'seed')}.{few(n)}"
    )
    return Table(["Episodes", *(f"{law.symbol} = {value:g} given" for value in fed)], rows, caption)


def counterfactual_records(changed: Sequence[Counterfactual]) -> list[Record]:
    """Records of every method, true law and law given."""
    return [
        {
            "method": entry.label,
            "law": entry.law,
            "law.true": true,
            "law.given": fed,
            **interval_columns(entry.area[true, fed], "area"),
            **interval_columns(entry.rise[true, fed], "rise"),
            "seeds": entry.seeds,
            "verdict": verdict(entry.rise[true, fed]) if fed != true else "",
        }
        for entry in changed
        for true, fed in sorted(entry.area)
    ]


def interval_columns(interval: Interval, name: str = "mean") -> Record:
    """An interval as columns of a CSV file."""
    low, high = ("low", "high") if name == "mean" else (f"{name}_low", f"{name}_high")
    return {name: interval.mean, low: interval.low, high: interval.high, "episodes": interval.count}


def record_head(results: Results, arm: str, metric: str) -> Record:
    """The columns that begin a record."""
    return {"method": arm, "seeds": len(results.seeds(arm)), "metric": metric}
