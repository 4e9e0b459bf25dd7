"""Muon or AdamW? The hybrid optimiser against AdamW alone, for GRU, SSM and Transformer with SG-JEPA's loss.

AdamW takes the matrices too, at the rate of the other tensors; everything else is the recipe. At paper size training stops
after three epochs without a better validation loss, on the square; at mini size both have the same updates, on Approach
Ball. Losses of one predictor can be compared: same data, same objective. The rates of the mini recipe were tried with Muon
alone (docs/log.md); the paper's AdamW has the best of a sweep of its own (`learning_rate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sgjepa.evaluation.metrics import MAIN
from sgjepa.experiments import sweep
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.engine import WORLDS
from sgjepa.experiments.sweep import Column, Measured, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Block
from sgjepa.report.figures import against_setting, without_interval
from sgjepa.report.words import fixed, with_interval
from sgjepa.results.claims import Claims, measure
from sgjepa.results.paper_numbers import of_the_square, published_study
from sgjepa.results.training import curve
from sgjepa.training.optim import Kind

PREDICTORS = {"gru": "GRU", "ssm": "SSM", "transformer": "Transformer"}
OPTIMISERS: dict[Kind, str] = {"muon": "Muon", "adamw": "AdamW"}
PATIENCE = 3  # epochs, at paper size
LOSS = "best validation loss"


def settings(size: str) -> list[Setting]:
    """Every predictor with both optimisers; with Muon it is the recipe itself."""
    arms = []
    for predictor, name in PREDICTORS.items():
        base = recipe(f"{WORLDS[size]}_{predictor}", size)
        train = replace(base.train, patience=PATIENCE) if size == "paper" else base.train
        for kind, label in OPTIMISERS.items():
            run = replace(base, name=f"{base.name}_{kind}", optim=replace(base.optim, kind=kind), train=train)
            arms.append(Setting(run, label=f"{name}, {label}", values=(name, label)))
    return arms


def best_epoch(evidence: Evidence, arm: str) -> np.ndarray:
    """The validation with the lowest loss; they come once per epoch."""
    return np.array([1.0 + int(np.argmin(curve(run, "loss")[:, 1])) for run in evidence.results.evaluations(arm)])


def columns(evidence: Evidence) -> list[Column]:
    """The loss, when it was reached, and what rollouts come to."""
    last = evidence.results.horizons
    error = Column(f"position error at h = {last} (m)", sweep.error(MAIN, last))
    return [Column(LOSS, sweep.validation_loss), Column("at epoch", best_epoch, 0), error]


def compared(evidence: Evidence, measured: Measured) -> tuple[Sequence[str], Sequence[Block | None], Claims]:
    """For each predictor the lowest loss with Muon relative to that with AdamW, seed by seed, and the curves of both."""
    words, blocks = list[str](), list[Block | None]()
    claims: Claims = ()
    by_setting = {setting.values: (arm, values[LOSS]) for arm, (setting, values) in measured.items()}
    world, paper = evidence.results.world, published_study("optimiser")
    for name in PREDICTORS.values():
        pair = [by_setting[name, label] for label in OPTIMISERS.values() if (name, label) in by_setting]
        if len(pair) < len(OPTIMISERS):
            continue
        (_, muon), (_, adamw) = pair
        less = sweep.interval(relative(muon, adamw))
        text = (
            with_interval(less.percent(), 1) if less.low == less.low else f"{fixed(100 * less.mean, 1)}, one training each"
        )
        words.append(f"{name}: the lowest validation loss with Muon lies {text} % from that with AdamW.")
        losses = {row[1]: float(row[2] or "nan") for row in (paper.rows if paper else ()) if row[0] == name}
        claims += measure(
            "muon",
            f"{world.replace('_', ' ')}, {name}",
            "lowest validation loss with Muon relative to AdamW's, minus 1",
            sweep.over_trainings(relative(muon, adamw)),
            "below",
            min(len(muon), len(adamw)),
            paper=of_the_square(fixed(losses["Muon"] / losses["AdamW"] - 1, 3), world),
            note="AdamW has the recipe's rate, not one chosen for itself",
        )
        curves = {
            label: [
                (float(step), without_interval(float(loss)))
                for step, loss in curve(evidence.results.evaluations(arm)[0], "loss")
            ]
            for label, (arm, _) in zip(OPTIMISERS.values(), pair, strict=True)
        }
        title, file = f"{name}, first seed", f"optimiser_{name.lower()}"
        figure = against_setting(file, title, "updates", "validation loss", curves)
        blocks.append(figure)
    return words, blocks, claims


def relative(muon: np.ndarray, adamw: np.ndarray) -> np.ndarray:
    """The lowest validation loss with Muon over that with AdamW, minus 1, of each training seed."""
    both = min(len(muon), len(adamw))
    ratio: np.ndarray = muon[:both] / adamw[:both] - 1
    return ratio


EXPERIMENT = sweep.sweep(
    name="optimiser",
    question="Muon or AdamW?",
    claim="With every predictor Muon reaches a lower validation loss than AdamW.",
    settings=settings,
    heads=("predictor", "optimiser"),
    columns=columns,
    caption="The lowest validation loss of each training, and its rollouts.",
    more=compared,
    seeds=sweep.THRICE,
)
