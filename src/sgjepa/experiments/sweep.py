"""Sweeps: arms that differ in one or two settings of a run, and the table, figures and sentences that all sweeps share.

A sweep is declared by its settings and its measurements; a sentence names the setting with the lowest value, and those that
do not differ from it significantly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap
from sgjepa.data.store import open_dataset
from sgjepa.evaluation.evaluate import default_forecast
from sgjepa.evaluation.probes import fit_probe
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.report.blocks import Block, Cell, Data, Number, Row, Text
from sgjepa.report.figures import against_setting, without_interval
from sgjepa.report.words import capital, fixed, join
from sgjepa.results.claims import MIN_TRAININGS, Claims
from sgjepa.results.paper_numbers import published_study
from sgjepa.results.selection import Horizon, at
from sgjepa.results.training import cost, curve, peak_memory

SINGLE_TRAINING_NOTE = (
    "Every setting was trained once: the intervals cover the choice of episodes, not of the training seed."
)
THRICE = {"mini": MIN_TRAININGS, "small": MIN_TRAININGS, "paper": 1}  # trainings of each setting, for sweeps with a claim
Values = Callable[[Evidence, str], np.ndarray]  # of an arm: (trainings, episodes), or one number for each training


@dataclass(frozen=True)
class Setting(Training):
    """An arm of a sweep. values: for the table. x: its position in a figure. line: its curve, if there are several."""

    values: tuple[str, ...] = ()
    x: float = math.nan
    line: str = ""


@dataclass(frozen=True)
class Panel:
    """A figure of measurements against the setting. log: the scale of the setting. names: of values, instead of numbers."""

    name: str
    title: str
    measured: str
    setting: str
    log: bool = False


@dataclass(frozen=True)
class Column:
    """A measurement of every setting. panel, line: its figure and curve. judged: whether a sentence is about it."""

    head: str
    values: Values
    decimals: int = 3
    panel: Panel | None = None
    line: str = ""
    judged: bool = False


Measured = Mapping[str, tuple[Setting, Mapping[str, np.ndarray]]]  # by arm: its setting, and values by column


def nothing_more(evidence: Evidence, measured: Measured) -> tuple[Sequence[str], Sequence[Block | None], Claims]:
    """The default further results of a sweep: no sentences, blocks or claims."""
    return (), (), ()


def sweep(
    name: str,
    question: str,
    claim: str,
    settings: Callable[[str], Sequence[Setting]],
    heads: Sequence[str],
    columns: Callable[[Evidence], Sequence[Column]],
    caption: str,
    more: Callable[[Evidence, Measured], tuple[Sequence[str], Sequence[Block | None], Claims]] = nothing_more,
    seeds: Mapping[str, int] | None = None,
    context: Mapping[str, int] | None = None,
) -> Experiment:
    """An experiment that is a sweep. heads: of the settings' values in the table. seeds: default one each.

    more: a function for further sentences, blocks and claims.
    """
    return Experiment(
        name=name,
        question=question,
        claim=claim,
        arms=settings,
        analyse=partial(answer, name=name, heads=heads, columns=columns, caption=caption, more=more),
        seeds=dict.fromkeys(WORLDS, 1) if seeds is None else seeds,
        context=context or {},
    )


def answer(
    evidence: Evidence,
    name: str,
    heads: Sequence[str],
    columns: Callable[[Evidence], Sequence[Column]],
    caption: str,
    more: Callable[[Evidence, Measured], tuple[Sequence[str], Sequence[Block | None], Claims]],
) -> Answer:
    """The table of all settings with the paper's below, a figure for each panel, and sentences on the lowest values."""
    results, measurements = evidence.results, columns(evidence)
    settings = {results.arm(arm.name): arm for arm in evidence.arms if isinstance(arm, Setting)}
    measured = {arm: (setting, {c.head: c.values(evidence, arm) for c in measurements}) for arm, setting in settings.items()}
    judged = {c.head: lowest({arm: values[c.head] for arm, (_, values) in measured.items()}, c) for c in measurements}
    words, blocks, claims = more(evidence, measured)
    paper = published_study(name)
    extra = [head for head in (paper.columns if paper else ()) if head not in judged]
    rows: list[Row] = []
    records: list[dict[str, Any]] = []
    for arm, (setting, values) in measured.items():
        cells = [Number(interval(values[c.head]), c.decimals, mark=judged[c.head][1].get(arm, "")) for c in measurements]
        count = len(results.seeds(arm))
        rows.append(Row(["measured", *setting.values, str(count), *cells, *("" for _ in extra)]))
        about = {"arm": setting.name, **dict(zip(heads, setting.values, strict=True)), "seeds": count}
        for c, cell in zip(measurements, cells, strict=True):
            records.append({**about, "measured": c.head, **cell.interval.numbers, "episodes": cell.interval.count})
    for row in paper.rows if paper else ():
        numbers_by_head = dict(zip(paper.columns if paper else (), row[len(heads) :], strict=True))
        numbers = [numbers_by_head.get(head) for head in (*judged, *extra)]
        cells_ = [_plain(value) for value in (*row[: len(heads)], paper.trainings if paper else "", *numbers)]
        rows.append(Row(["paper", *cells_], "paper"))
    about_paper = f" The paper's: {paper.source.removeprefix('SG-JEPA paper, ')}. {paper.says}" if paper else ""
    notes = [Text(SINGLE_TRAINING_NOTE, quiet=True)] if all(len(results.seeds(arm)) == 1 for arm in settings) else []
    table = main_table(("", *heads, "trainings", *judged, *extra), rows, f"{caption}{about_paper}")
    sentences = [judged[c.head][0] for c in measurements if c.judged]
    return Answer(
        "Every setting",
        [*sentences, *words],
        [*_figures(measurements, measured), *blocks, table, *notes, Data(name, records)],
        claims,
    )


def _figures(columns: Sequence[Column], measured: Measured) -> list[Block | None]:
    """A figure for each panel, with a curve for each line of a setting and a column."""
    drawn: list[Block | None] = []
    for panel in dict.fromkeys(column.panel for column in columns if column.panel):
        curves: dict[str, list[tuple[float, Interval]]] = {}
        for column in (column for column in columns if column.panel == panel):
            for setting, values in measured.values():
                line = ", ".join(part for part in (setting.line, column.line) if part) or column.head
                curves.setdefault(line, []).append((setting.x, interval(values[column.head])))
        figure = against_setting(panel.name, panel.title, panel.setting, panel.measured, curves, panel.log)
        drawn.append(figure)
    return drawn


def interval(values: np.ndarray) -> Interval:
    """The mean of (trainings, episodes), or of one number per training; a single number has no interval."""
    values = values.reshape(len(values), -1)
    return without_interval(float(values.mean())) if values.size == 1 else bootstrap(values[..., None])[0]


def over_trainings(values: np.ndarray) -> Interval:
    """The mean of one number per training, for a claim; a single number is its own interval."""
    return bootstrap(values.reshape(-1, 1, 1))[0]


def lowest(measured: Mapping[str, np.ndarray], column: Column) -> tuple[str, dict[str, str]]:
    """A sentence about the lowest, and marks: "best" for it and for all that do not differ from it significantly.

    Trainings with the same seed are paired. With one number of each there is no interval, and no difference is significant.
    """
    best = min(measured, key=lambda arm: measured[arm].mean())
    mine = measured[best]
    words = f"{capital(best)} has the lowest {column.head}: {fixed(float(mine.mean()), column.decimals)}"
    others = {arm: values for arm, values in measured.items() if arm != best}
    if not others:
        return f"{words}.", {}
    if mine.size == 1 or any(values.shape != mine.shape for values in others.values()):
        return f"{words} (one training each: no verdict).", {}
    tied = [arm for arm, values in others.items() if interval(values - mine).low <= 0]
    rest = f"not significantly different: {join(tied)}" if tied else "all others are significantly higher"
    return f"{words}; {rest}.", dict.fromkeys([best, *tied], "best")


def _plain(value: str | float | None) -> Cell:
    return value if isinstance(value, str) else "" if value is None else f"{value:g}"


# --- measurements --------------------------------------------------------------------------------------------------


def error(metric: str, horizon: Horizon, source: str | None = None) -> Values:
    """A measurement of an error at a horizon."""
    return lambda evidence, arm: at(evidence.results.values(arm, metric, source), [horizon])[..., 0]


def validation_loss(evidence: Evidence, arm: str) -> np.ndarray:
    """The lowest validation loss of each training."""
    return np.array([curve(run, "loss")[:, 1].min() for run in evidence.results.evaluations(arm)])


def probe_nmse(evidence: Evidence, arm: str) -> np.ndarray:
    """NMSE of the rollouts' probe on validation windows of true frames."""
    return np.array([run.about.scores.probe["validation_nmse"] for run in evidence.results.evaluations(arm)])


def linear_nmse(evidence: Evidence, arm: str) -> np.ndarray:
    """NMSE of a linear probe on validation windows of true frames; the probe is fitted if necessary."""
    dataset = open_dataset(evidence.datasets / evidence.results.about.dataset, verify=False)
    probe = default_forecast(dataset.settings, "linear").probe
    fitted = [fit_probe(run.run, dataset, probe) for run in evidence.results.evaluations(arm)]
    return np.array([probe_.scores["validation_nmse"] for probe_ in fitted])


def rank(evidence: Evidence, arm: str) -> np.ndarray:
    """The effective rank of the latents at the last context frame."""
    return np.array([run.about.scores.effective_rank for run in evidence.results.evaluations(arm)])


def training_seconds(evidence: Evidence, arm: str) -> np.ndarray:
    """The duration of each training."""
    return np.array([cost(run).seconds for run in evidence.results.evaluations(arm)])


def training_memory(evidence: Evidence, arm: str) -> np.ndarray:
    """The peak memory of each training's process, in GiB."""
    return np.array([peak_memory(run) for run in evidence.results.evaluations(arm)])


def up_to_last(evidence: Evidence, horizons: Sequence[int]) -> tuple[int, ...]:
    """The horizons, with the last one that was evaluated in place of those beyond it."""
    return tuple(dict.fromkeys(min(h, evidence.results.horizons) for h in horizons))
