"""Is it the law or the rollout? (law given or constant) x (one step or rollout), one predictor, one budget.

All four cells are the GRU recipe: same encoder, predictor, data, order of batches, updates, learning rates and weight of
SIGReg. "Constant" always gives the model the mean training law; "one step" scores one teacher-forced prediction at
every position of as many windows of the same episodes. At paper size, with clips of H + 1 frames, an epoch of one-step
training has a tenth more updates; at mini size both have the same.

An independent replication of the paper uses the square; at mini size Approach Ball has enough room for an answer.

The interaction is the rollout's gain with the law minus its gain without the law: below zero, the two help each other.
"""

from __future__ import annotations

from dataclasses import replace

from sgjepa.core.stats import Interval, bootstrap
from sgjepa.evaluation.metrics import MAIN, METRICS
from sgjepa.experiments.answer import Answer, Evidence, main_table, region_words
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Cell, Text
from sgjepa.report.figures import by_horizon
from sgjepa.report.words import capital, fixed, join, signed, unit, where
from sgjepa.results.claims import BETTER, UNDECIDED, WORSE, Claims, measure, verdict
from sgjepa.results.paper_numbers import ablation
from sgjepa.training.config import Run
from sgjepa.training.losses import OneStepLoss

CELLS = {  # with their labels; the whole method has its own
    "given_rollout": "",
    "constant_rollout": "GRU, constant law, rollout",
    "given_one_step": "GRU, law given, one step",
    "constant_one_step": "GRU, constant law, one step",
}
VERDICT_WORDS = {
    BETTER: "law and rollout help each other: together they lower the error by more than apart",
    WORSE: "law and rollout get in each other's way",
    UNDECIDED: "law and rollout neither help nor hinder each other significantly",
}


def cell(name: str, size: str) -> Run:
    """One cell of the factorial."""
    law, loss = name.split("_", 1)
    run = recipe(f"{WORLDS[size]}_gru", size)
    if law == "constant":
        run = replace(run, model=replace(run.model, blind=True))
    if loss == "one_step":
        shared = ("sigreg", "windows", "flatten")
        objective = OneStepLoss(**{name: getattr(run.loss, name) for name in shared})
        frames = run.train.frames if run.loss.windows == "dense" else run.history + 1
        run = replace(run, loss=objective, train=replace(run.train, frames=frames))
    return replace(run, name=_run_name(WORLDS[size], name))


def _run_name(world: str, name: str) -> str:
    """The name of a cell's run; the complete method has its recipe's name."""
    return f"{world}_gru" if name == "given_rollout" else f"{world}_gru_{name}"


def interaction(evidence: Evidence) -> Answer:
    """The interaction of law and rollout by horizon, in and out of distribution."""
    results, paper = evidence.results, ablation("factorial")["interaction"]
    rows, words = list[tuple[Cell, ...]](), list[str]()
    claims: Claims = ()
    curves = {region: interactions(evidence, region) for region in results.regions}
    for region, curve in curves.items():
        last = curve[-1]
        subject = f"{results.world.replace('_', ' ')}, {region_words(region)}, h = {results.horizons}"
        what = f"interaction of law and rollout in the {METRICS[MAIN].label}"
        claims += measure("law_and_rollout", subject, what, last, "below", results.trainings(), unit=unit(MAIN))
        rows.append((f"{region}, {results.count(region)} episodes", *(curve[h - 1] for h in results.steps)))
        sentence = f"{capital(where(results, region))}, {VERDICT_WORDS[verdict(last)]}"
        words.append(f"{sentence} (interaction at h = {results.horizons}: {signed(last, MAIN)}).")
    caption = (
        f"Interaction of law and rollout in the {METRICS[MAIN].label} ({unit(MAIN)}): what the rollout gains when the law "
        "is given, minus what it gains when it is not. Below zero: they help each other. Not in the paper; a replication "
        f"(square, one training) has {join([f'{fixed(value, 3)} m at h = {h}' for h, value in paper.items()])}."
    )
    labelled = {capital(where(results, region)): curve for region, curve in curves.items()}
    measured = f"interaction ({unit(MAIN)})"
    figure = by_horizon("factorial_interaction", f"In the {METRICS[MAIN].label}", measured, labelled, results.steps)
    about = Text("The interaction at every horizon, with 95 % intervals: below zero, law and rollout help each other.", True)
    table = main_table(("region", *(f"h = {h}" for h in results.steps)), rows, caption)
    return Answer("Interaction of law and rollout", words, [about, figure, table], claims)


def interactions(evidence: Evidence, region: str) -> list[Interval]:
    """The interaction with its interval at each horizon, paired by episode and seed."""
    names = (_run_name(evidence.results.world, name) for name in CELLS)
    both, rollout, law, neither = (evidence.values(name, MAIN, region=region) for name in names)
    return bootstrap((both - law) - (rollout - neither))


EXPERIMENT = Experiment(
    name="factorial",
    question="Is it the law or the rollout?",
    claim="Giving the law and training through a rollout help most together, far from the training laws.",
    arms=lambda size: [Training(cell(name, size), label=label) for name, label in CELLS.items()],
    needs=lambda size: [[_run_name(WORLDS[size], name) for name in CELLS]],
    analyse=interaction,
)
