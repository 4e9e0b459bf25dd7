"""What do a few episodes under new laws gain? A finished model is trained further on them, alone or mixed with old ones.

Target: a tenth of the training set's episodes at each of four laws outside of training. Mixed: the same and five eighths of
the source episodes. Both start from the finished training's weights with a fresh optimiser and get its whole budget again.
They are judged where the source model is, on test laws that are in neither set:

    gain of c = 100 [1 - mean over metrics and laws of E_c / E_0]     at the last horizon, E_0 the model before

over the test laws between the lowest and the highest target, without the targets. Retention: over the source laws (within
three standard deviations, without the targets) no metric's error may grow by more than 5 %. Both get as many updates as the
model before had; in the paper as many epochs, so that its mixed training has 2.6 times as many updates as the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sgjepa.core.methods import LABELS
from sgjepa.core.stats import Interval, bootstrap_of
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.evaluation.metrics import METRICS
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.laws import Grid
from sgjepa.recipes.datasets import dataset
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Cell, Data, Number
from sgjepa.report.figures import PAPER, against_setting, without_interval
from sgjepa.report.words import fixed, with_interval
from sgjepa.results.claims import Claims, measure, side_of
from sgjepa.results.paper_numbers import ablation, of_the_square
from sgjepa.results.table import Results

LAW = "gravity"
# the paper's for planar worlds, four and eight deviations away; at Earth's gravity, three and five, as the tested laws reach
TARGETS = {"square": (0.0, 2.0, 6.0, 8.0), "approach_ball": (0.0, 4.0, 16.0, 20.0)}
METHODS = {"mini": ("gru", "lewm"), "small": ("gru", "lewm"), "paper": ("gru", "lewm", "ssm", "dino")}
ARMS = {"target": "new laws alone", "mixed": "mixed with source episodes"}
SHARES = {"target": 0.4, "mixed": 0.625}  # 3,200 and 5,000 of the paper's 8,000 episodes
KEPT = ("position_l2", "velocity_l2", "rotation_turns")
SOURCE, GROWTH = 3, 1.05  # deviations within which laws are the source's; how much an error may grow there


def datasets(size: str) -> dict[str, DatasetConfig]:
    """Episodes at the target laws, with a seed of their own so that none begins as a source episode; and source episodes."""
    world = WORLDS[size]
    usual = dataset(world, size)
    target, source = (round(share * usual.train.episodes) for share in SHARES.values())
    unused = replace(usual.test, episodes=len(usual.test.laws[LAW].parameters))  # they are judged on the usual test episodes
    new = Part(target, {**usual.train.laws, LAW: Grid(TARGETS[world])})
    return {
        _data("sparse", size): replace(usual, train=new, test=unused, seed=usual.seed + 1),
        _data("replay", size): replace(usual, train=replace(usual.train, episodes=source), test=unused),
    }


def _data(what: str, size: str) -> str:
    return f"{WORLDS[size]}-{what}-{size}"


def arms(size: str) -> list[Training]:
    """For each method the model before, and after training on either set."""
    world, compared = WORLDS[size], []
    for method in METHODS[size]:
        before = recipe(f"{world}_{method}", size)
        compared.append(Training(before))
        for arm in ARMS:
            data = (_data("sparse", size), *((_data("replay", size),) if arm == "mixed" else ()))
            after, label = replace(before, name=f"{before.name}_{arm}", data=data), f"{LABELS[method]}, {ARMS[arm]}"
            compared.append(Training(after, before.name, before.data[0], label))
    return compared


def between(results: Results) -> np.ndarray:
    """(episodes,) those at laws between the targets."""
    law, targets = results.laws[LAW], np.array(TARGETS[results.world])
    return (law > targets.min()) & (law < targets.max()) & ~at_targets(results)


def at_targets(results: Results) -> np.ndarray:
    """(episodes,) those at the new laws themselves."""
    chosen: np.ndarray = np.isclose(results.laws[LAW][:, None], TARGETS[results.world]).any(axis=1)
    return chosen


def by_law(results: Results, arm: str, chosen: np.ndarray) -> np.ndarray:
    """(seeds, episodes, metrics * laws): errors at the last horizon, each in the column of its metric and law."""
    law = results.laws[LAW][chosen]
    here = (law[:, None] == np.unique(law)).astype(float)  # (E, laws)
    metrics = [metric for metric in KEPT if metric in results.metrics]
    return np.concatenate([results.values(arm, metric, None, chosen)[..., -1:] * here for metric in metrics], axis=-1)


def gain(results: Results, after: str, before: str, other: str = "") -> Interval:
    """In percent; of `after`, or of `after` minus that of `other`, each relative to the model before."""
    stacks = [by_law(results, arm, between(results)) for arm in (after, before, *([other] if other else []))]
    return bootstrap_of(_lead if other else _gain, *stacks, mirrored=True)[0]


def _gain(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Of means (..., columns). The number of episodes at a law cancels; a law that a resample lacks says nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gained: np.ndarray = 100 * (1 - np.nanmean(after / before, axis=-1, keepdims=True))
    return gained


def _lead(after: np.ndarray, before: np.ndarray, other: np.ndarray) -> np.ndarray:
    return _gain(after, before) - _gain(other, before)


def retention(results: Results, after: str, before: str) -> dict[str, Interval]:
    """Error after over error before on the source laws, by metric."""
    chosen = (results.deviations <= SOURCE + 1e-6) & ~at_targets(results)

    def last(arm: str, metric: str) -> np.ndarray:
        return results.values(arm, metric, None, chosen)[..., -1:]

    return {
        metric: bootstrap_of(lambda a, b: a / b, last(after, metric), last(before, metric))[0]
        for metric in KEPT
        if metric in results.metrics
    }


def answer(evidence: Evidence) -> Answer:
    """Gain and retention of each method and arm, and whether mixing gains more."""
    results, paper = evidence.results, ablation("post_training")
    rows, words = list[tuple[Cell, ...]](), list[str]()
    claims: Claims = ()
    records: list[dict[str, Any]] = []
    curves: dict[str, list[tuple[float, Interval]]] = {}
    methods = [name for name in LABELS if evidence.has(*_names(results.world, name))]
    for x, name in enumerate(methods):
        before, *others = map(results.arm, _names(results.world, name))
        after = dict(zip(ARMS, others, strict=True))
        for kind, arm in after.items():
            one, kept = gain(results, arm, before), retention(results, arm, before)
            curves.setdefault(ARMS[kind], []).append((float(x), one))
            curves.setdefault(PAPER + ARMS[kind], []).append((float(x), without_interval(paper[kind][name])))
            growth = " / ".join(fixed(100 * (ratio.mean - 1), 1) for ratio in kept.values())
            retained = "yes" if all(ratio.mean <= GROWTH for ratio in kept.values()) else "no"
            rows.append((LABELS[name], ARMS[kind], Number(one, 1, note=f"[{paper[kind][name]}]"), growth, retained))
            numbers = {"gain": one.mean, "low": one.low, "high": one.high, "paper": paper[kind][name], "retained": retained}
            ratios = {f"source_{metric}": ratio.mean for metric, ratio in kept.items()}
            records.append({"method": name, "arm": kind, **numbers, **ratios})
        lead = gain(results, after["mixed"], before, after["target"])
        words.append(_said(LABELS[name], gain(results, after["mixed"], before), lead))
        claims += measure(
            "mixed",
            f"{results.world.replace('_', ' ')}, {LABELS[name]}",
            "gain of mixed post-training minus that of the new laws alone",
            lead,
            "above",
            results.trainings(),
            unit="points",
            paper=of_the_square(f"{fixed(paper['mixed'][name] - paper['target'][name], 2)} points", results.world),
        )
    laws = ", ".join(f"{value:g}" for value in TARGETS[results.world])
    grown = " / ".join(METRICS[metric].label for metric in KEPT if metric in results.metrics)
    caption = (
        f"Gain (%) over the model before at h = {results.horizons}, on test laws between the targets ({LAW} {laws}) that "
        "are in no training set; in square brackets the paper's for the square. Growth (%) of the errors on the source "
        f"laws: {grown}; retained if none grew by more than 5 %."
    )
    heads = ("method", "post-trained on", "gain (%)", "growth on source laws (%)", "retained")
    names = {float(x): LABELS[name] for x, name in enumerate(methods)}
    measured = "gain over the model before (%)"
    figure = against_setting("post_training_gain", "Between the new laws", "", measured, curves, names=names)
    return Answer(
        "A few new laws", words, [figure, main_table(heads, rows, caption), Data("post_training", records)], claims
    )


def _names(world: str, method: str) -> list[str]:
    """The model before, and after training on either set."""
    return [f"{world}_{method}", *(f"{world}_{method}_{kind}" for kind in ARMS)]


def _said(label: str, mixed: Interval, lead: Interval) -> str:
    helps = {-1: "raises the error", 0: "makes no significant difference", 1: "lowers the error"}[side_of(mixed)]
    than = {-1: "less than", 0: "not significantly more than", 1: "more than"}[side_of(lead)]
    return (
        f"{label}: mixed post-training {helps} at laws it never saw ({with_interval(mixed, 1)} %), and gains {than} the new "
        f"laws alone ({with_interval(lead, 1)} points)."
    )


EXPERIMENT = Experiment(
    name="post_training",
    question="What do a few episodes under new laws gain?",
    claim="Post-training on four new laws mixed with source episodes gains more between them than on the new laws alone.",
    arms=arms,
    needs=lambda size: [_names(WORLDS[size], method) for method in METHODS[size]],
    analyse=answer,
    datasets=datasets,
)
