"""`sgjepa demo`: the paper's question in minutes. Train on a narrow band of gravity, ask far outside it, read the report.

Data, then SG-JEPA and its baselines with equal budgets, side by side, each probed and evaluated; then one page. Every stage
is kept: interrupted and run again, it goes on.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect
from sgjepa.data.config import DatasetConfig
from sgjepa.data.preview import preview
from sgjepa.data.store import Dataset, open_dataset
from sgjepa.models.encoders.frozen import MobileNetV2
from sgjepa.recipes.datasets import dataset
from sgjepa.recipes.training import recipe
from sgjepa.report.write import report
from sgjepa.studies.chains import Chain, run_chains
from sgjepa.training.budget import updates_there
from sgjepa.training.run import Run

METHODS = ("dino", "gru", "lewm")  # the longest first: it starts first
QUICK_EPISODES = (400, 100)  # training and test
SHORTENED = {"quick": (1, 40), "short": (3, 90)}  # epochs, and updates of each


def make_data(out: Path, length: str, workers: int | None) -> Dataset:
    """The square under 25 gravities, in `out/datasets`, with a contact sheet and a film."""
    settings: DatasetConfig = dataset("square", "mini")
    if length == "quick":
        train, test = (
            replace(part, episodes=n) for part, n in zip((settings.train, settings.test), QUICK_EPISODES, strict=True)
        )
        settings = replace(settings, train=train, test=test)
    made = open_dataset(collect(settings, out / "datasets" / _data(length), workers))
    preview(made, out / "preview")
    return made


def without_weights() -> str | None:
    """Why DINO-WM cannot take part, or None."""
    try:
        MobileNetV2(64).build()
    except InputError as error:
        return str(error)
    return None


def runs(length: str, seeds: int, methods: tuple[str, ...] = METHODS) -> list[Run]:
    """What is trained: every method with every seed, all with the same data and the same number of updates."""
    found = []
    for seed in range(seeds):
        for method in methods:
            run = replace(recipe(f"square_{method}", "mini"), seed=seed, data=(_data(length),))
            train = replace(run.train, decoder=method != "dino" and seed == 0)
            if length != "long":
                epochs, updates = SHORTENED[length]
                train = replace(train, epochs=epochs, updates=updates)
            found.append(replace(run, train=train))
    return found


def train_and_evaluate(out: Path, length: str, chosen: list[Run], workers: int | None) -> list[Path]:
    """Every run from nothing to its evaluation; returns their folders."""
    datasets = out / "datasets"
    chains = []
    for run in chosen:
        folder = out / "runs" / f"{run.name}-{length}-seed{run.seed}"
        chains.append(Chain(run, folder, updates_there(run, datasets), counterfactual=True))
    run_chains(chains, datasets, workers)
    return [chain.folder for chain in chains]


def write_page(out: Path, length: str, folders: list[Path]) -> Path:
    """The report of these runs; returns its page, which says how much of the recipe's training they had."""
    return report(folders, out / f"report-{length}", note=_shortened(length))


def _shortened(length: str) -> str:
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
