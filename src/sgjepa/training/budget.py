"""How many updates a run makes: counted from the sizes of its datasets, before anything is decoded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sgjepa.core.errors import InputError
from sgjepa.data.store import split_episodes
from sgjepa.training.data import open_existing
from sgjepa.training.run import Run


def stretches_in(run: Run, episodes: int, frames: int) -> int:
    """Stretches that a dataset of so many episodes of so many frames offers to training, without validation episodes."""
    if run.train.frames > frames:
        raise InputError(f"{run.name}: a stretch must have 1 to {frames} frames, got {run.train.frames}")
    kept, _ = split_episodes(episodes, seed=run.split_seed)
    return len(kept) * (frames - run.train.frames + 1)


def updates_per_epoch(run: Run, stretches: int) -> int:
    """With so many stretches: none twice, and no more than the run wants."""
    return min(stretches // run.train.batch, run.train.updates or stretches)


def updates_there(run: Run, datasets: Path) -> int:
    """Updates of the whole training, from the datasets' manifests alone."""
    parts = [open_existing(datasets / name, verify=False).manifest.parts["train"] for name in run.data]
    stretches = sum(stretches_in(run, part.episodes, part.frames // part.episodes) for part in parts)
    return updates_per_epoch(run, stretches) * run.train.epochs


def with_updates(run: Run, total: int, datasets: Path) -> Run:
    """The run with so many updates in all, rounded up to equal epochs; more than one epoch holds needs several."""
    if total < 1:
        raise InputError(f"a training needs at least one update, got {total}")
    most = updates_there(replace(run, train=replace(run.train, epochs=1, updates=None)), datasets)
    epochs = -(-total // most)
    return replace(run, train=replace(run.train, epochs=epochs, updates=-(-total // epochs)))
