"""Does L_law tell beforehand where the error will be large?

L_law is computed from the training laws alone, before any training (`sgjepa coverage`). Here it is put beside the errors of
trained models: the rank correlation over the test laws, by method and horizon, with an interval over the episodes of each
law and over the trainings. A method may err most where it was told least, or err so much everywhere that the order is lost.

The runs are the usual recipes, which other studies train too. No number of the paper's: it states a bound.
"""

from __future__ import annotations

from typing import Any

from sgjepa.core.stats import Interval
from sgjepa.core.tables import to_csv
from sgjepa.data.probe_targets import METRICS
from sgjepa.experiments import sweep
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import fixed
from sgjepa.results.compare import MEAN, Horizon
from sgjepa.results.coverage import rank_with_coverage
from sgjepa.results.gather import MAIN, Results

RECIPES = ("gru", "transformer", "lewm", "dino")
TABLE = "tables/coverage.csv"


def analyse(done: Done) -> Finding:
    """The report's section: a correlation for each method, metric and horizon; the sentences are about the last one."""
    results = done.results
    columns: tuple[Horizon, ...] = results.columns
    found: dict[tuple[str, str, Horizon], Interval] = {
        (method.label, metric, h): rank_with_coverage(results, method, metric, h)
        for method in results.methods
        for metric in results.metrics
        for h in columns
    }
    records: list[dict[str, Any]] = [
        {"method": label, "metric": metric, "horizon": h, "correlation": one.mean, "low": one.low, "high": one.high}
        for (label, metric, h), one in found.items()
    ]
    rows = tuple(
        (method.label, str(len(method.seeds)), METRICS[metric], *(_shown(found[method.label, metric, h]) for h in columns))
        for method in results.methods
        for metric in results.metrics
    )
    curves = {
        method.label: [(float(h), found[method.label, MAIN, h]) for h in results.horizons] for method in results.methods
    }
    measured = "rank correlation with L_law"
    pictures = against_setting("coverage_by_horizon", METRICS[MAIN], "horizon h (steps)", measured, curves)
    head = ("method", "trainings", "error", *("mean" if h == MEAN else f"h = {h}" for h in columns))
    about = sweep.caption("coverage", "Rank correlation over the test laws between L_law and the error.")
    words = (*_said(results, {label: found[label, MAIN, results.last] for label in curves}), *sweep.once(done))
    shown = "The correlation by horizon; whiskers are 95 % intervals over episodes and trainings."
    title = "Does coverage tell beforehand where the error is large?"
    return Finding(title, words, about, head, rows, {TABLE: to_csv(records)}, tuple(pictures), shown)


def _said(results: Results, found: dict[str, Interval]) -> list[str]:
    if not results.coverage:
        return ["L_law has no meaning here: the training laws never vary."]
    said = []
    for label, one in found.items():
        if one.low > 0:
            told = "the error is larger where L_law is"
        elif one.high < 0:
            told = "the error is smaller where L_law is larger"
        else:
            told = "L_law does not tell for certain where the error is larger"
        laws = results.axes[0].several if len(results.axes) == 1 else "laws"
        said.append(f"{label}: {told} (rank correlation at h = {results.last} over {one.count} {laws}: {_shown(one)}).")
    return said


def _shown(one: Interval) -> str:
    if one.mean != one.mean:
        return ""
    return f"{fixed(one.mean, 2)} ({fixed(one.low, 2)} to {fixed(one.high, 2)})"


EXPERIMENT = Experiment(
    name="coverage",
    question="Does L_law tell beforehand where the error will be large?",
    claim="The error grows with L_law, the distance of a law from the training laws.",
    arms=lambda size: [Training(recipe(f"{WORLDS[size]}_{method}", size)) for method in RECIPES],
    analyse=analyse,
)
