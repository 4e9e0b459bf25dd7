"""A fresh predictor on the frozen encoder of a finished training: an arm of several experiments."""

from __future__ import annotations

from dataclasses import replace

from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS
from sgjepa.recipes.training import recipe

PREDICTORS = {"gru": "GRU", "transformer": "Transformer"}
ENCODERS = {**PREDICTORS, "lewm": "LeWM"}  # by what they were trained with


def joint(source: str, size: str) -> Training:
    """The joint training whose encoder is frozen, which is the recipe."""
    return Training(recipe(f"{WORLDS[size]}_{source}", size))


def fresh(predictor: str, source: str, size: str) -> Training:
    """The recipe of `predictor` with the frozen encoder of `source`: same data, batches, updates and rates.

    SIGReg is left out, because it only affects the encoder.
    """
    world = WORLDS[size]
    run = recipe(f"{world}_{predictor}", size)
    train, loss = replace(run.train, trains="predictor", decoder=False), replace(run.loss, sigreg=0.0)
    run = replace(run, name=name_of(world, predictor, source), loss=loss, train=train)
    return Training(run, start=f"{world}_{source}", label=label_of(predictor, source))


def name_of(world: str, predictor: str, source: str) -> str:
    """The name of the arm with this predictor and encoder."""
    return f"{world}_{predictor}_on_{source}"


def label_of(predictor: str, source: str) -> str:
    """The label of the arm with this predictor and encoder."""
    return f"{ENCODERS[source]}'s encoder, fresh {PREDICTORS[predictor]}"
