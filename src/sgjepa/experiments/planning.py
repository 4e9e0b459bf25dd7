"""Does the predictor matter where no law changes? Conventional benchmarks, planned by CEM on the latent (the paper's table).

Models that differ in the predictor alone, the same cases and the same search for all. References: random controls below, and
above them the search in the true simulator, which knows state and dynamics. Beside success stand the errors of the latents
on held-out clips, as a share of their variance too, and what a plan takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap
from sgjepa.envs import ENVS
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Arm, Planner, Reference, Training
from sgjepa.experiments.control import trainings_of
from sgjepa.experiments.engine import Experiment
from sgjepa.policies.goal_tasks import Cases
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Cell, Data, Number
from sgjepa.report.closed_loop import measure_records
from sgjepa.report.figures import against_setting
from sgjepa.report.words import fixed, with_sign
from sgjepa.results.claims import MIN_TRAININGS, Claims, measure, side_of
from sgjepa.results.paper_numbers import published_plans
from sgjepa.results.table import Results
from sgjepa.results.trials import SUCCESS

METHODS = ("transformer", "gru", "ssm")
REFERENCES = ("random", "simulator")
OLD, NEW = "SG-JEPA (Transformer)", ("SG-JEPA (GRU)", "SG-JEPA (SSM)")
LOST = -10.0  # points of success: what would be a material loss


def arms(size: str) -> list[Arm]:
    """In every world with a goal the references, and a model with each predictor."""
    declared = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.goal}
    worlds = [name for name, spec in declared.items() if spec.defaults and size in spec.defaults.sizes]
    compared: list[Arm] = []
    for world in worlds:
        compared += [Reference(kind, f"{world}-{size}", cases=Cases()) for kind in REFERENCES]
        for run in (recipe(f"{world}_{method}", size) for method in METHODS):
            compared.append(Planner(Training(replace(run, train=replace(run.train, decoder=False))), Cases()))
    return compared


def summary(evidence: Evidence) -> Answer:
    """Success and errors of every model in every world, and what the differences on the same cases say."""
    rows: list[tuple[Cell, ...]] = []
    records: list[dict[str, Any]] = []
    words: list[str] = []
    claims: Claims = ()
    curves: dict[str, list[tuple[float, Interval]]] = {}
    names = {float(x): world for x, world in enumerate(evidence.by_world)}
    for x, (world, results) in zip(names, evidence.by_world.items(), strict=True):
        records += [{"world": world, **record} for record in measure_records(results)]
        paper = published_plans(world)
        for arm in results.arms:
            driven, method = results.driven(arm), arm.partition(",")[0]
            success = results.estimate(arm, results.about.measures[0]).interval
            paper_success = "" if method not in paper or driven.baseline else f"{paper[method].success:g}"
            trainings = "" if driven.baseline else str(len(driven.trainings))
            seconds = "" if driven.latency is None else fixed(driven.latency.median, 2)
            share = Number(success, 1, scale=100, note="")
            rows.append((world, method, trainings, share, *_errors(evidence, results, arm), seconds, paper_success))
            curves.setdefault(method, []).append((x, success.percent()))
        for label, gap, count in _gaps(results):
            words.append(_said(world, label, gap, count))
            known = {OLD, label} <= set(paper)
            theirs = f"{with_sign(paper[label].success - paper[OLD].success, 0)} points" if known else ""
            what = f"success with {label} minus with {OLD}"
            claims += measure("planning", world, what, gap, "above", count, bound=LOST, unit="points", paper=theirs)
    cases = len(next(iter(evidence.by_world.values())).episodes)
    caption = (
        f"Success in {cases} cases, over cases and, where there are several, trainings. Errors of the latents after five "
        "predictions on held-out clips, and if nothing changed, are shares of their variance. The time of a plan is the "
        "median where it was made. The paper's success is of its own size."
    )
    figure = against_setting("planning_success", "Cases solved", "", "success (%)", curves, names=names)
    errors = ("latent error (%)", "nothing changed (%)")
    heads = ("world", "predictor", "trainings", "success (%)", *errors, "a plan takes (s)", "paper, success (%)")
    return Answer(
        "Success of planning", words, [figure, main_table(heads, rows, caption), Data("planning", records)], claims
    )


def _errors(evidence: Evidence, results: Results, arm: str) -> tuple[Cell, Cell]:
    """After the last prediction, and if nothing changed, in per cent of the variance."""
    weights = [tries[0].driver.weights for tries in results.driven(arm).trainings]
    known = [evidence.latents[digest] for digest in weights if digest in evidence.latents]
    if not known:
        return "", ""
    last, still = (
        np.stack([100 * getattr(one, name)[:, -1:] / one.variance for one in known]) for name in ("errors", "unchanged")
    )
    return Number(bootstrap(last)[0], 1), fixed(float(still.mean()), 1)


def _gaps(results: Results) -> Iterator[tuple[str, Interval, int]]:
    """Success with each predictor minus with the Transformer, in points, and of how many trainings."""
    arms = {arm.partition(",")[0]: arm for arm in results.arms}
    for label in (label for label in NEW if {label, OLD} <= set(arms)):
        gap = results.gap(arms[label], arms[OLD], SUCCESS).percent()
        yield label, gap, trainings_of(results, arms[label], arms[OLD])


def _said(world: str, label: str, gap: Interval, trainings: int) -> str:
    if trainings < MIN_TRAININGS:
        verdict = f"not decided with {'one training' if trainings == 1 else f'{trainings} trainings'} each"
    else:
        verdict = {1: "no material loss", 0: "not decided", -1: "a material loss"}[side_of(gap, LOST)]
    ends = f"{with_sign(gap.mean, 1)} points, {fixed(gap.low, 1)} to {fixed(gap.high, 1)}"
    return f"{world.capitalize()}: {label} minus {OLD} {ends}; {verdict}. Material would be more than {-LOST:g} points."


EXPERIMENT = Experiment(
    name="planning",
    question="Does the predictor matter where no law changes? (Reacher and Cube, planned)",
    claim="On conventional tasks a GRU or an SSM plans as well as the Transformer, and the GRU's plans take the shortest.",
    arms=arms,
    analyse=summary,
    worlds=True,
)
