"""`sgjepa demo`: the paper's question in minutes. Train on a narrow band of gravity, test far outside it, read the report.

It makes data, trains SG-JEPA and its baselines with equal budgets in parallel, probes and evaluates them, and writes a page.
It is a study whose sizes are lengths: quick, short and long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sgjepa.core import artifact
from sgjepa.core.errors import InputError
from sgjepa.core.methods import label_of
from sgjepa.data import preview as looks
from sgjepa.data.collect import collect
from sgjepa.data.config import DatasetConfig
from sgjepa.data.store import Dataset, open_dataset
from sgjepa.envs import get_env
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import Experiment
from sgjepa.laws import get_law
from sgjepa.models.encoders.frozen import MobileNetV2
from sgjepa.recipes.datasets import dataset
from sgjepa.recipes.training import recipe
from sgjepa.results.claims import MIN_TRAININGS
from sgjepa.training.config import Run

WORLD = "approach_ball"
METHODS = ("dino", "gru", "lewm")  # the longest training first
QUICK_EPISODES = (400, 100)  # training and test
SHORTENED = {"quick": (1, 140), "short": (3, 130)}  # epochs, and updates of each


def check(out: Path, world: str, length: str, methods: tuple[str, ...]) -> None:
    """Raise an InputError, before any work, for an unknown world or method, or folders that the demo did not make."""
    demo = experiment(world, methods, length)
    demo.arms(length)
    artifact.require_free(out / page(world, length), demo.command)
    artifact.require_free(out / preview_folder(world), looks.MADE_BY)


def page(world: str, length: str) -> str:
    """The name of the report's folder."""
    return f"report-{length}" if world == WORLD else f"report-{world}-{length}"


def preview_folder(world: str) -> str:
    """The name of the folder of the contact sheet and the film."""
    return "preview" if world == WORLD else f"preview-{world}"


def introduction(world: str, methods: Sequence[str], seeds: int) -> str:
    """An announcement of the trainings."""
    train, test = dataset(world, "mini").train.laws, dataset(world, "mini").test.laws
    names = {method: label_of(f"{world}_{method}", world, None) for method in methods}
    led, *baselines = sorted(names.values(), key=lambda name: not name.startswith("SG-JEPA"))
    about = (
        "SG-JEPA is a world model that is conditioned on the law of physics and is trained on its own rollouts.\n"
        if led.startswith("SG-JEPA")
        else ""
    )
    known = {law: get_law(law) for law in train}
    bands = " and ".join(
        f"{known[law].label} {sampler.description} {known[law].unit}".replace("^2", "²") for law, sampler in train.items()
    )
    grids = " and ".join(f"{get_law(law).label} {sampler.description}" for law, sampler in test.items())
    laws = f"{bands} and tested at {grids}" if train else "pictures and tested on held-out episodes"
    compared = f", next to {' and '.join(baselines)}" if baselines else ""
    each = "one training" if seeds == 1 else f"{seeds} trainings"
    few = f" Too few for a verdict, which needs {MIN_TRAININGS}." if seeds < MIN_TRAININGS else ""
    return f"{about}{led} is trained at {laws}{compared}: {each} of each.{few}"


def settings(world: str, length: str) -> DatasetConfig:
    """The settings of the world's mini dataset, or of a part of it."""
    mini = dataset(world, "mini")
    if length != "quick":
        return mini
    train, test = (replace(part, episodes=n) for part, n in zip((mini.train, mini.test), QUICK_EPISODES, strict=True))
    return replace(mini, train=train, test=test)


def make_data(out: Path, world: str, length: str, workers: int | None) -> Dataset:
    """Make the dataset in `out/datasets`, with a contact sheet and a film."""
    made = open_dataset(collect(settings(world, length), out / "datasets" / _data(world, length), workers))
    looks.preview(made, out / preview_folder(world))
    return made


def without_weights() -> str | None:
    """The reason why DINO-WM is not available, or None."""
    try:
        MobileNetV2(64).build()
    except InputError as error:
        return str(error)
    return None


def experiment(world: str = WORLD, methods: tuple[str, ...] = METHODS, length: str = "short") -> Experiment:
    """The demo as an experiment: every method with the same data and the same number of updates.

    The quick one reads latents with a linear probe, fitted in a second, and has no counterfactual laws.
    """
    get_env(world)
    quick = length == "quick"
    return Experiment(
        name="demo",
        question="Does a world model stay right when gravity changes?",
        claim="SG-JEPA stays closer to the truth than LeWM and DINO-WM over long horizons and at unseen gravities.",
        arms=lambda length: [Training(_run(world, method, length)) for method in methods],
        seeds={"quick": 1, "short": 1, "long": 1},  # the budget is minutes
        counterfactual=not quick,
        probe="linear" if quick else "mlp",
    )


def _run(world: str, method: str, length: str) -> Run:
    run = replace(recipe(f"{world}_{method}", "mini"), data=(_data(world, length),))
    train = replace(run.train, decoder=method != "dino")
    if length != "long":
        epochs, updates = SHORTENED[length]
        train = replace(train, epochs=epochs, updates=updates)
    return replace(run, train=train)


def shortened(world: str, length: str) -> str:
    """A note for the page on the length of these runs."""
    if length == "long":
        return ""
    train, episodes = recipe(f"{world}_gru", "mini").train, dataset(world, "mini").train.episodes
    assert train.updates is not None
    few = f" on {QUICK_EPISODES[0]:,} episodes instead of {episodes:,} and a linear probe" if length == "quick" else ""
    return (
        f"This is the {length} version: {math.prod(SHORTENED[length])} updates{few}, where the mini recipe has "
        f"{train.epochs * train.updates}. For the recipe's own result: sgjepa demo --long."
    )


def _data(world: str, length: str) -> str:
    return f"{world}-quick" if length == "quick" else f"{world}-mini"
