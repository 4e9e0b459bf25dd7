"""Muon or AdamW? The hybrid optimiser against AdamW alone, for GRU, SSM and Transformer with SG-JEPA's loss.

AdamW takes the matrices too, at the rate of the other tensors; everything else is the recipe. At paper size training stops
after three epochs without a better validation loss, on the square; at mini size both have the same updates, on Approach
Ball. Losses of one predictor can be compared: same data, same objective. The rates of the mini recipe were tried with Muon
alone (docs/log.md); the paper's AdamW has the best of a sweep of its own (`learning_rate`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sgjepa.core.stats import Interval
from sgjepa.experiments import sweep
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.experiments.sweep import Column, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import compare, fixed
from sgjepa.results.claims import Claims, measure
from sgjepa.results.compare import Method, paired
from sgjepa.results.gather import MAIN
from sgjepa.results.paper_numbers import of_the_square, published_study
from sgjepa.results.training import curve
from sgjepa.training.optim import Kind

PREDICTORS = {"gru": "GRU", "ssm": "SSM", "transformer": "Transformer"}
OPTIMISERS: dict[Kind, str] = {"muon": "Muon", "adamw": "AdamW"}
PATIENCE = 3  # epochs, at paper size
TABLE = "tables/optimiser.csv"


def points(size: str) -> list[Setting]:
    """Every predictor with both optimisers; with Muon it is the recipe itself."""
    found = []
    for predictor, name in PREDICTORS.items():
        base = recipe(f"{WORLDS[size]}_{predictor}", size)
        train = replace(base.train, patience=PATIENCE) if size == "paper" else base.train
        for kind, label in OPTIMISERS.items():
            run = replace(base, name=f"{base.name}_{kind}", optim=replace(base.optim, kind=kind), train=train)
            found.append(Setting(run, label=f"{name}, {label}", values=(name, label)))
    return found


def best_epoch(method: Method) -> Interval:
    """The validation with the lowest loss; they come once per epoch."""
    return sweep.over_trainings([1.0 + int(np.argmin(curve(one, "loss")[:, 1])) for one in method.seeds])


def analyse(done: Done) -> Finding:
    """The report's section: for each predictor, which optimiser reaches the lower validation loss, and which errs less?"""
    found = sweep.there(done, points, list(WORLDS))
    by_setting = {point.values: method for point, method in found.values()}
    last = done.results.last
    columns = [
        Column("best validation loss", sweep.validation_loss),
        Column("at epoch", best_epoch, 0),
        Column(f"position error at h = {last} (m)", sweep.error(MAIN, last)),
    ]
    words: list[str] = []
    pictures = []
    claims: Claims = ()
    for predictor in PREDICTORS.values():
        pair = [by_setting.get((predictor, label)) for label in OPTIMISERS.values()]
        muon, adamw = pair
        if muon is None or adamw is None:  # it was not asked for
            continue
        words.append(losses(predictor, muon, adamw))
        claims += lower(done, predictor, muon, adamw)
        words.append(f"{compare(muon.label, adamw.label, paired(muon, adamw, MAIN, [last])[last])} at h = {last}.")
        curves = {
            label: [(float(step), sweep.over_trainings([loss])) for step, loss in curve(method.first, "loss")]
            for label, method in zip(OPTIMISERS.values(), (muon, adamw), strict=True)
        }
        pictures += against_setting(
            f"optimiser_{predictor.lower()}", f"{predictor}, first seed", "updates", "validation loss", curves
        )
    head, rows, text = sweep.table("optimiser", ("predictor", "optimiser"), columns, list(found.values()))
    title, about = (
        "Muon or AdamW?",
        sweep.caption("optimiser", "The lowest validation loss of each training, and its rollouts."),
    )
    shown = "The validation loss of each predictor's first training after every epoch."
    return Finding(title, (*words, *sweep.once(done)), about, head, rows, {TABLE: text}, tuple(pictures), shown, claims)


def lower(done: Done, predictor: str, muon: Method, adamw: Method) -> Claims:
    """The lowest validation loss with Muon relative to that with AdamW, minus 1, seed by seed."""
    what = "lowest validation loss with Muon relative to AdamW's, minus 1"
    where = f"{done.results.world.replace('_', ' ')}, {predictor}"
    paper = published_study("optimiser")
    says = {row[1]: float(row[2] or "nan") for row in (paper.rows if paper else ()) if row[0] == predictor}
    said = of_the_square(fixed(says["Muon"] / says["AdamW"] - 1, 3), done.results.world) if says else ""
    found, note = relative(muon, adamw), "AdamW has the recipe's rate, not one chosen for itself"
    return measure("muon", where, what, sweep.over_trainings(found), "below", len(found), paper=said, note=note)


def relative(muon: Method, adamw: Method) -> list[float]:
    """The lowest validation loss with Muon over that with AdamW, minus 1, of each training seed."""
    mine, theirs = (sweep.validation_losses(method) for method in (muon, adamw))
    return [one / other - 1 for one, other in zip(mine, theirs, strict=False)]


def losses(predictor: str, muon: Method, adamw: Method) -> str:
    """Seed by seed; with one training each there is no interval, and none is claimed."""
    mine, theirs = (float(np.mean(sweep.validation_losses(method))) for method in (muon, adamw))
    change = [100 * one for one in relative(muon, adamw)]
    said = f"{predictor}: Muon reaches a validation loss of {fixed(mine, 3)}, AdamW {fixed(theirs, 3)}"
    one = sweep.over_trainings(change)
    said += f" ({'+' if one.mean > 0 else ''}{fixed(one.mean, 1)} %"
    if len(change) < 2:
        return f"{said}, one training each)."
    certain = "certain" if one.high < 0 or one.low > 0 else "not certain"
    return f"{said}, {fixed(one.low, 1)} to {fixed(one.high, 1)} over {len(change)} trainings: {certain})."


EXPERIMENT = Experiment(
    name="optimiser",
    question="Muon or AdamW?",
    claim="With every predictor Muon reaches a lower validation loss than AdamW.",
    arms=points,
    analyse=analyse,
)
