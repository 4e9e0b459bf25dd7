"""`sgjepa demo`: the paper's question in minutes. Train on a narrow band of gravity, ask far outside it, read the report.

Data, then SG-JEPA and its baselines with equal budgets, side by side, each probed and evaluated; then one page. It is a
study whose sizes are lengths: quick, short and long.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from sgjepa.core import output
from sgjepa.core.errors import InputError
from sgjepa.data import preview as looks
from sgjepa.data.collect import collect
from sgjepa.data.config import DatasetConfig
from sgjepa.data.preview import preview
from sgjepa.data.store import Dataset, open_dataset
from sgjepa.models.encoders.frozen import MobileNetV2
from sgjepa.recipes.datasets import dataset
from sgjepa.recipes.training import recipe
from sgjepa.studies.study import Cell, Study
from sgjepa.training.run import Run

METHODS = ("dino", "gru", "lewm")  # the longest first: it starts first
PREVIEW = "preview"
QUICK_EPISODES = (400, 100)  # training and test
SHORTENED = {"quick": (1, 40), "short": (3, 90)}  # epochs, and updates of each


def check(out: Path, length: str, methods: tuple[str, ...]) -> None:
    """Refuse, before any work, a method that is not there and folders that the demo did not make."""
    asked = study(methods)
    asked.cells(length)
    output.check(out / page(length), asked.command)
    output.check(out / PREVIEW, looks.MADE_BY, looks.FILES)


def page(length: str) -> str:
    """The report's folder."""
    return f"report-{length}"


def make_data(out: Path, length: str, workers: int | None) -> Dataset:
    """The square under 25 gravities, in `out/datasets`, with a contact sheet and a film."""
    settings: DatasetConfig = dataset("square", "mini")
    if length == "quick":
        train, test = (
            replace(part, episodes=n) for part, n in zip((settings.train, settings.test), QUICK_EPISODES, strict=True)
        )
        settings = replace(settings, train=train, test=test)
    made = open_dataset(collect(settings, out / "datasets" / _data(length), workers))
    preview(made, out / PREVIEW)
    return made


def without_weights() -> str | None:
    """Why DINO-WM cannot take part, or None."""
    try:
        MobileNetV2(64).build()
    except InputError as error:
        return str(error)
    return None


def study(methods: tuple[str, ...] = METHODS) -> Study:
    """The demo as a study: every method with the same data and the same number of updates."""
    return Study(
        name="demo",
        question="Does a world model stay right when gravity changes?",
        claim="SG-JEPA stays closer to the truth than LeWM and DINO-WM over long horizons and at unseen gravities.",
        cells=lambda length: [Cell(_run(method, length)) for method in methods],
        seeds={"quick": 1, "short": 1, "long": 1},  # the budget is minutes
        counterfactual=True,
    )


def _run(method: str, length: str) -> Run:
    run = replace(recipe(f"square_{method}", "mini"), data=(_data(length),))
    train = replace(run.train, decoder=method != "dino")
    if length != "long":
        epochs, updates = SHORTENED[length]
        train = replace(train, epochs=epochs, updates=updates)
    return replace(run, train=train)


def shortened(length: str) -> str:
    """What a reader of the page must know about these runs."""
    if length == "long":
        return ""
    train, episodes = recipe("square_gru", "mini").train, dataset("square", "mini").train.episodes
    assert train.updates is not None
    few = f" on {QUICK_EPISODES[0]:,} episodes instead of {episodes:,}" if length == "quick" else ""
    return (
        f"This is the {length} version: {math.prod(SHORTENED[length])} updates{few}, where the mini recipe has "
        f"{train.epochs * train.updates}. For the recipe's own result: sgjepa demo --long."
    )


def _data(length: str) -> str:
    return "square-quick" if length == "quick" else "square-mini"
