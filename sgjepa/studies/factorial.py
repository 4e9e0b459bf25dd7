"""Is it the law or the rollout? (law given or constant) x (one step or rollout), one predictor, one budget.

All four cells are the GRU recipe: same encoder, predictor, data, order of batches, updates, learning rates and weight of
SIGReg. "Constant" tells the model the mean training law whatever holds; "one step" scores one teacher-forced prediction at
every position of as many windows of the same episodes. At paper size, with clips of H + 1 frames, an epoch of one-step
training has a tenth more updates; at mini size both have the same.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sgjepa.experiment import Chain, run_chains
from sgjepa.losses import OneStepLoss
from sgjepa.models.world import ModelConfig
from sgjepa.recipes.worlds import recipe
from sgjepa.run import Run
from sgjepa.training_data import updates_there, with_updates

CELLS = ("given_rollout", "constant_rollout", "given_one_step", "constant_one_step")


def cell(name: str, size: str) -> Run:
    """One cell of the square's factorial."""
    law, loss = name.split("_", 1)
    run = recipe("square_gru", size)
    assert isinstance(run.model, ModelConfig)
    if law == "constant":
        run = replace(run, model=replace(run.model, blind=True))
    if loss == "one_step":
        one = OneStepLoss(sigreg=run.loss.sigreg, windows=run.loss.windows, flatten=run.loss.flatten)
        frames = run.train.frames if run.loss.windows == "dense" else run.history + 1
        run = replace(run, loss=one, train=replace(run.train, frames=frames))
    return run if name == "given_rollout" else replace(run, name=f"square_gru_{name}")


def main(runs: Path, datasets: Path, size: str, seeds: int, updates: int | None = None) -> list[Path]:
    """Train and evaluate every cell with so many seeds; returns their folders, the cells of one seed together."""
    chains = []
    for seed in range(seeds):
        for name in CELLS:
            run = replace(cell(name, size), seed=seed)
            if updates is not None:
                run = with_updates(run, updates, datasets)
            folder = runs / f"{run.name}-{size}-seed{seed}"
            chains.append(Chain(run, folder, updates_there(run, datasets)))
    run_chains(chains, datasets)
    return [chain.folder for chain in chains]
