"""`sgjepa demo`: the paper's question in minutes. Train on a narrow band of gravity, ask far outside it, read the report.

Data, then SG-JEPA and its baselines with equal budgets, side by side, each probed and evaluated; then one page. It is a
study whose sizes are lengths: quick, short and long.
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
METHODS = ("dino", "gru", "lewm")  # the longest first: it starts first
QUICK_EPISODES = (400, 100)  # training and test
SHORTENED = {"quick": (1, 140), "short": (3, 130)}  # epochs, and updates of each


def check(out: Path, world: str, length: str, methods: tuple[str, ...]) -> None:
    """Refuse, before any work, a world or method that is not there and folders that the demo did not make."""
    demo = experiment(world, methods, length)
    demo.arms(length)
    artifact.require_free(out / page(world, length), demo.command)
    artifact.require_free(out / preview_folder(world), looks.MADE_BY)


def page(world: str, length: str) -> str:
    """The report's folder."""
    return f"report-{length}" if world == WORLD else f"report-{world}-{length}"


def preview_folder(world: str) -> str:
    """The contact sheet's and the film's."""
    return "preview" if world == WORLD else f"preview-{world}"


def introduction(world: str, methods: Sequence[str], seeds: int) -> str:
    """What is about to happen, before it does."""
    train, test = dataset(world, "mini").train.laws, dataset(world, "mini").test.laws
    names = {method: label_of(f"{world}_{method}", world, None) for method in methods}
    led, *baselines = sorted(names.values(), key=lambda name: not name.startswith("SG-JEPA"))
    about = (
        "SG-JEPA is a world model that is told the law of physics and is trained on its own rollouts.\n"
        if led.startswith("SG-JEPA")
        else ""
    )
    known = {law: get_law(law) for law in train}
    bands = " and ".join(
        f"{known[law].label} {one.description} {known[law].unit}".replace("^2", "²") for law, one in train.items()
    )
    grids = " and ".join(f"{get_law(law).label} {one.description}" for law, one in test.items())
    laws = f"{bands} and tested at {grids}" if train else "pictures and tested on held-out episodes"
    beside = f", beside {' and '.join(baselines)}" if baselines else ""
    each = "one training" if seeds == 1 else f"{seeds} trainings"
    few = f" Too few for a verdict, which needs {MIN_TRAININGS}." if seeds < MIN_TRAININGS else ""
    return f"{about}{led} is trained at {laws}{beside}: {each} of each.{few}"


def settings(world: str, length: str) -> DatasetConfig:
    """The world's mini dataset, or a part of it."""
    usual = dataset(world, "mini")
    if length != "quick":
        return usual
    train, test = (replace(part, episodes=n) for part, n in zip((usual.train, usual.test), QUICK_EPISODES, strict=True))
    return replace(usual, train=train, test=test)


def make_data(out: Path, world: str, length: str, workers: int | None) -> Dataset:
    """The world under all its test laws, in `out/datasets`, with a contact sheet and a film."""
    made = open_dataset(collect(settings(world, length), out / "datasets" / _data(world, length), workers))
    looks.preview(made, out / preview_folder(world))
    return made


def without_weights() -> str | None:
    """Why DINO-WM cannot take part, or None."""
    try:
        MobileNetV2(64).build()
    except InputError as error:
        return str(error)
    return None


def experiment(world: str = WORLD, methods: tuple[str, ...] = METHODS, length: str = "short") -> Experiment:
    """The demo as an experiment: every method with the same data and the same number of updates.

    The quick one reads latents with a linear probe, fitted in a second, and tells no model a wrong law.
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
    """What a reader of the page must know about these runs."""
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
