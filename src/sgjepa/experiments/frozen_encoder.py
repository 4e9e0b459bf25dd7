"""A fresh predictor on the frozen encoder of a finished training: the arm that several experiments are made of."""

from __future__ import annotations

from dataclasses import replace

from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS
from sgjepa.recipes.training import recipe

PREDICTORS = {"gru": "GRU", "transformer": "Transformer"}
ENCODERS = {**PREDICTORS, "lewm": "LeWM"}  # by what they were trained with


def joint(source: str, size: str) -> Training:
    """The training whose encoder is frozen: the recipe itself."""
    return Training(recipe(f"{WORLDS[size]}_{source}", size))


def fresh(predictor: str, source: str, size: str) -> Training:
    """The recipe of `predictor` with the encoder of `source` kept as it is: same data, batches, updates and rates.

    SIGReg is left out: it speaks to the encoder alone.
    """
    world = WORLDS[size]
    run = recipe(f"{world}_{predictor}", size)
    train, loss = replace(run.train, trains="predictor", decoder=False), replace(run.loss, sigreg=0.0)
    run = replace(run, name=name_of(world, predictor, source), loss=loss, train=train)
    return Training(run, start=f"{world}_{source}", label=label_of(predictor, source))


def name_of(world: str, predictor: str, source: str) -> str:
    """The name of such an arm."""
    return f"{world}_{predictor}_on_{source}"


def label_of(predictor: str, source: str) -> str:
    """What pages call it."""
    return f"{ENCODERS[source]}'s encoder, fresh {PREDICTORS[predictor]}"
