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

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sgjepa.core.methods import LABELS
from sgjepa.core.stats import Interval, bootstrap_of
from sgjepa.core.tables import to_csv
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.data.probe_targets import METRICS
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.laws import Grid
from sgjepa.recipes.datasets import dataset
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.sweep_figures import PAPER, against_setting, alone
from sgjepa.report.words import fixed, with_interval
from sgjepa.results.claims import Claims, measure
from sgjepa.results.compare import Method
from sgjepa.results.paper_numbers import ablation, of_the_square

LAW = "gravity"
# the paper's for planar worlds, four and eight deviations away; at Earth's gravity, three and five, as the tested laws reach
TARGETS = {"square": (0.0, 2.0, 6.0, 8.0), "approach_ball": (0.0, 4.0, 16.0, 20.0)}
METHODS = {"mini": ("gru", "lewm"), "small": ("gru", "lewm"), "paper": ("gru", "lewm", "ssm", "dino")}
ARMS = {"target": "new laws alone", "mixed": "mixed with source episodes"}
SHARES = {"target": 0.4, "mixed": 0.625}  # 3,200 and 5,000 of the paper's 8,000 episodes
KEPT = ("position_l2", "velocity_l2", "rotation_turns")
SOURCE, GROWTH = 3, 1.05  # deviations within which laws are the source's; how much an error may grow there
TABLE = "tables/post_training.csv"


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
    world, found = WORLDS[size], []
    for method in METHODS[size]:
        before = recipe(f"{world}_{method}", size)
        found.append(Training(before))
        for arm in ARMS:
            data = (_data("sparse", size), *((_data("replay", size),) if arm == "mixed" else ()))
            after, label = replace(before, name=f"{before.name}_{arm}", data=data), f"{LABELS[method]}, {ARMS[arm]}"
            found.append(Training(after, before.name, before.data[0], label))
    return found


def between(method: Method) -> np.ndarray:
    """(episodes,) those at laws between the targets."""
    law, targets = _law(method), np.array(TARGETS[method.first.about.world])
    return (law > targets.min()) & (law < targets.max()) & ~at_targets(method)


def at_targets(method: Method) -> np.ndarray:
    """(episodes,) those at the new laws themselves."""
    found: np.ndarray = np.isclose(_law(method)[:, None], TARGETS[method.first.about.world]).any(axis=1)
    return found


def by_law(method: Method, chosen: np.ndarray) -> np.ndarray:
    """(seeds, episodes, metrics * laws): errors at the last horizon, each in the column of its metric and law."""
    law = _law(method)[chosen]
    here = (law[:, None] == np.unique(law)).astype(float)  # (E, laws)
    metrics = [metric for metric in KEPT if metric in method.first.table]
    columns = [method.stack(metric)[:, chosen, -1:] * here for metric in metrics]
    return np.concatenate(columns, axis=-1)


def gain(after: Method, before: Method, other: Method | None = None) -> Interval:
    """In percent; of `after`, or of `after` minus that of `other`, each relative to the model before."""
    stacks = [by_law(method, between(before)) for method in (after, before, *([other] if other else []))]
    return bootstrap_of(_gain if other is None else _lead, *stacks, mirrored=True)[0]


def _gain(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Of means (..., columns). The number of episodes at a law cancels; a law that a resample lacks says nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gained: np.ndarray = 100 * (1 - np.nanmean(after / before, axis=-1, keepdims=True))
    return gained


def _lead(after: np.ndarray, before: np.ndarray, other: np.ndarray) -> np.ndarray:
    return _gain(after, before) - _gain(other, before)


def retention(after: Method, before: Method) -> dict[str, Interval]:
    """Error after over error before on the source laws, by metric."""
    chosen = (before.first.deviations <= SOURCE + 1e-6) & ~at_targets(before)
    return {
        metric: bootstrap_of(lambda a, b: a / b, *(one.stack(metric)[:, chosen, -1:] for one in (after, before)))[0]
        for metric in KEPT
        if metric in before.first.table
    }


def _law(method: Method) -> np.ndarray:
    found: np.ndarray = method.first.law[:, method.first.laws.index(LAW)]
    return found


def answer(done: Done) -> Finding:
    """The report's section: gain and retention of each method and arm, and whether mixing gains more."""
    world, paper = done.results.world, ablation("post_training")
    rows, words = [], list[str]()
    claims: Claims = ()
    records: list[dict[str, Any]] = []
    curves: dict[str, list[tuple[float, Interval]]] = {}
    for place, name in enumerate(_methods(done)):
        before = done.method(f"{world}_{name}")
        after = {arm: done.method(f"{world}_{name}_{arm}") for arm in ARMS}
        for arm, method in after.items():
            one, kept = gain(method, before), retention(method, before)
            curves.setdefault(ARMS[arm], []).append((float(place), one))
            curves.setdefault(PAPER + ARMS[arm], []).append((float(place), alone(paper[arm][name])))
            growth = " / ".join(fixed(100 * (ratio.mean - 1), 1) for ratio in kept.values())
            retained = "yes" if all(ratio.mean <= GROWTH for ratio in kept.values()) else "no"
            rows.append((LABELS[name], ARMS[arm], f"{with_interval(one, 1)} [{paper[arm][name]}]", growth, retained))
            numbers = {"gain": one.mean, "low": one.low, "high": one.high, "paper": paper[arm][name], "retained": retained}
            ratios = {f"source_{metric}": ratio.mean for metric, ratio in kept.items()}
            records.append({"method": name, "arm": arm, **numbers, **ratios})
        lead = gain(after["mixed"], before, after["target"])
        words.append(_said(LABELS[name], gain(after["mixed"], before), lead))
        claims += measure(
            "mixed",
            f"{world.replace('_', ' ')}, {LABELS[name]}",
            "gain of mixed post-training minus that of the new laws alone",
            lead,
            "above",
            done.seeds,
            unit="points",
            paper=of_the_square(f"{fixed(paper['mixed'][name] - paper['target'][name], 2)} points", done.results.world),
        )
    laws = ", ".join(f"{value:g}" for value in TARGETS[world])
    grown = " / ".join(METRICS[metric] for metric in KEPT if metric in done.results.metrics)
    caption = (
        f"Gain (%) over the model before at h = {done.results.last}, on test laws between the targets ({LAW} {laws}) that "
        "are in no training set, with 95 % intervals; in square brackets the paper's for the square. Growth (%) of the "
        f"errors on the source laws: {grown}; retained if none grew by more than 5 %."
    )
    head = ("method", "post-trained on", "gain (%)", "growth on source laws (%)", "retained")
    names = {float(place): LABELS[name] for place, name in enumerate(_methods(done))}
    title = "Between the new laws"
    pictures = against_setting("post_training_gain", title, "", "gain over the model before (%)", curves, names=names)
    shown = "Gain at laws that are in no training set, beside the paper's for the square; whiskers are 95 % intervals."
    more = {TABLE: to_csv(records)}
    return Finding("A few new laws", tuple(words), caption, head, tuple(rows), more, tuple(pictures), shown, claims)


def _methods(done: Done) -> Sequence[str]:
    """Those that were asked for."""
    return [name for name in LABELS if done.has(*_names(done.results.world, name))]


def _names(world: str, method: str) -> list[str]:
    """The model before, and after training on either set."""
    return [f"{world}_{method}", *(f"{world}_{method}_{arm}" for arm in ARMS)]


def _said(label: str, mixed: Interval, lead: Interval) -> str:
    helps = "lowers the error" if mixed.low > 0 else "raises the error" if mixed.high < 0 else "does nothing that shows"
    more = "more" if lead.low > 0 else "less" if lead.high < 0 else "as much, as far as one can tell, as"
    than = more if more.endswith("as") else f"{more} than"
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
