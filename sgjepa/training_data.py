"""What a training reads: stretches of episodes, in an order that is a function of seed and step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sgjepa import parallel
from sgjepa.data.store import Dataset, fit_normalisers, open_dataset, split_episodes
from sgjepa.data.windows import Batch, Clips, Together
from sgjepa.errors import InputError
from sgjepa.latents import cached_latents
from sgjepa.models.dino import DinoWM
from sgjepa.models.world import WorldModel
from sgjepa.parallel import Group
from sgjepa.run import Run


@dataclass(frozen=True)
class Data:
    """Stretches of training and of validation episodes."""

    train: Together
    validation: Together


@dataclass(frozen=True)
class Tensors:
    """A batch on its device; frames are bytes, or latents of a frozen encoder."""

    frames: Tensor
    control: Tensor
    law: Tensor
    episode: np.ndarray


def to_device(batch: Batch, device: torch.device) -> Tensors:
    """NumPy to torch."""
    frames, control, law = (torch.from_numpy(x).to(device) for x in (batch.frames, batch.control, batch.law))
    return Tensors(frames, control, law, batch.episode)


def encode(model: WorldModel | DinoWM, batch: Tensors, chunk: int | None) -> tuple[Tensor, Tensor]:
    """z (B, T, ...) and c (B, T, D). Frames that are not bytes are latents already, from a frozen encoder's cache."""
    z = model.encode(batch.frames, chunk) if batch.frames.dtype == torch.uint8 else batch.frames.float()
    return z, model.condition(batch.control, batch.law)


def open_data(run: Run, model: WorldModel | DinoWM, datasets: Path) -> Data:
    """Open the datasets, split by episode, fit the normalisers on training episodes, decode (or encode) every frame once."""
    opened = [_open(datasets / name) for name in run.data]
    parts: dict[str, list[Clips]] = {"train": [], "validation": []}
    controls, laws = [], []
    for found in opened:
        train_episodes, validation_episodes = split_episodes(found.train.episodes, seed=run.split_seed)
        controls.append(found.train.control[train_episodes])
        laws.append(found.train.law[train_episodes])
        content = cached_latents(model, found.train) if isinstance(model, DinoWM) else None
        for name, episodes in (("train", train_episodes), ("validation", validation_episodes)):
            parts[name].append(Clips(found.train, episodes, run.train.frames, content=content))
    scores = fit_normalisers(np.concatenate(controls), np.concatenate(laws))
    if run.init is None:  # a model that was trained before keeps the statistics it knows
        model.normalise(scores.control, scores.law)
    return Data(Together(parts["train"]), Together(parts["validation"]))


def _open(path: Path) -> Dataset:
    if not path.exists():
        world, _, size = path.name.rpartition("-")
        raise InputError(f"{path} does not exist; make it: sgjepa data {world or 'WORLD'} --size {size or 'SIZE'}")
    return open_dataset(path)


def stretches_of(run: Run, count: int, step: int, group: Group) -> np.ndarray:
    """Which stretches this process trains on: its share of the batch, in the epoch's own order."""
    per_epoch = count // run.train.batch
    epoch, place = divmod(step, per_epoch)
    batch = _order(run.seed, epoch, count)[place * run.train.batch : (place + 1) * run.train.batch]
    return batch[parallel.rank(group) :: parallel.world_size(group)]


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, count: int) -> np.ndarray:
    """The epoch's order of all stretches; at paper size 288,000 of them, so not drawn anew at every step."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def windows_of(run: Run, step: int) -> list[int] | None:
    """First frames of the windows drawn from every stretch of this step; None for all."""
    if run.train.drawn is None:
        return None
    count = run.train.frames - run.history - run.loss.steps + 1
    drawn = np.random.default_rng([run.seed, step, 4]).permutation(count)[: run.train.drawn]
    return sorted(drawn.tolist())
