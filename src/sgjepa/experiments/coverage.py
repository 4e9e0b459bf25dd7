"""Does L_law predict where the error will be large?

L_law is computed from the training laws alone, before any training (`sgjepa coverage`). Here it is put beside the errors of
trained models: the rank correlation over the test laws, by method and horizon, with an interval over the episodes of each
law and over the trainings. A method may err most where it was told least, or err so much everywhere that the order is lost.

The runs are the usual recipes, which other experiments train too. No number of the paper's: it states a bound.
"""

from __future__ import annotations

from itertools import product

from sgjepa.core.stats import Interval
from sgjepa.evaluation.metrics import MAIN, METRICS
from sgjepa.experiments.answer import Answer, Evidence, cell_text, main_table
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Cell, Data, Number
from sgjepa.report.figures import against_setting
from sgjepa.results.claims import BETTER, UNDECIDED, WORSE, verdict
from sgjepa.results.selection import MEAN

RECIPES = ("gru", "transformer", "lewm", "dino")
VERDICT_WORDS = {
    BETTER: "larger where L_law is",
    WORSE: "smaller where L_law is larger",
    UNDECIDED: "not significantly related to L_law",
}


def analyse(evidence: Evidence) -> Answer:
    """The rank correlation for each method, metric and horizon; sentences are on the last horizon."""
    results = evidence.results
    columns, metrics = results.columns, results.comparable
    correlations = {key: results.coverage_correlation(*key) for key in product(results.arms, metrics, columns)}
    records = [
        {
            "method": arm,
            "metric": metric,
            "horizon": h,
            "correlation": correlation.mean,
            "low": correlation.low,
            "high": correlation.high,
        }
        for (arm, metric, h), correlation in correlations.items()
    ]
    rows: list[tuple[Cell, ...]] = [
        (
            arm,
            str(len(results.seeds(arm))),
            METRICS[metric].label,
            *(Number(correlations[arm, metric, h], 2) for h in columns),
        )
        for arm, metric in product(results.arms, metrics)
    ]
    curves = {arm: [(float(h), correlations[arm, MAIN, h]) for h in results.steps] for arm in results.arms}
    measured = "rank correlation with L_law"
    figure = against_setting("coverage_by_horizon", METRICS[MAIN].label, "horizon h (steps)", measured, curves)
    heads = ("method", "trainings", "error", *("mean" if h == MEAN else f"h = {h}" for h in columns))
    table = main_table(heads, rows, "Rank correlation over the test laws between L_law and the error.")
    last = {arm: correlations[arm, MAIN, results.horizons] for arm in results.arms}
    words = [_sentence(arm, correlation, results.horizons) for arm, correlation in last.items()]
    if not results.coverage:
        words = ["L_law is not defined here: the training laws do not vary."]
    return Answer("Coverage and error", words, [figure, table, Data("coverage", records)])


def _sentence(arm: str, correlation: Interval, last: int) -> str:
    text = cell_text(Number(correlation, 2))
    relation, laws = VERDICT_WORDS[verdict(correlation, 1)], correlation.count
    return f"{arm}: the error at h = {last} is {relation} (rank correlation over {laws} laws: {text})."


EXPERIMENT = Experiment(
    name="coverage",
    question="Does L_law predict where the error will be large?",
    claim="The error grows with L_law, the distance of a law from the training laws.",
    arms=lambda size: [Training(recipe(f"{WORLDS[size]}_{method}", size)) for method in RECIPES],
    analyse=analyse,
)
