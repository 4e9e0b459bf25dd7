"""What a training reads: stretches of episodes, in an order that is a function of seed and step.

Of several processes, the first makes what has to be made, and all map the same files: a frame is decoded once, and held once
in the memory of a machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.data.manifest import MANIFEST, read_manifest
from sgjepa.data.store import Dataset, Split, fit_normalisers, open_dataset, split_episodes
from sgjepa.data.windows import Batch, Clips, Together
from sgjepa.models.dino import DinoWM
from sgjepa.models.jepa import WorldModel
from sgjepa.training import parallel
from sgjepa.training.latents import cached_latents, trained_latents
from sgjepa.training.parallel import Group
from sgjepa.training.run import Run


@dataclass(frozen=True)
class Data:
    """Stretches of training and of validation episodes, the digest of each dataset by name, and the worlds they are of."""

    train: Together
    validation: Together
    digests: dict[str, str]
    worlds: list[str]


@dataclass(frozen=True)
class Tensors:
    """A batch on its device; frames are bytes, or latents of a frozen encoder."""

    frames: Tensor
    control: Tensor
    law: Tensor
    episode: np.ndarray


def to_device(batch: Batch, device: torch.device) -> Tensors:
    """NumPy to torch."""
    return _move(_tensors(batch, device), device)


def _tensors(batch: Batch, device: torch.device) -> Tensors:
    """Still in main memory; for a GPU in pages from which it copies while it computes."""
    found = (torch.from_numpy(x) for x in (batch.frames, batch.control, batch.law))
    frames, control, law = (x.pin_memory() if device.type == "cuda" else x for x in found)
    return Tensors(frames, control, law, batch.episode)


def _move(batch: Tensors, device: torch.device) -> Tensors:
    frames, control, law = (x.to(device, non_blocking=True) for x in (batch.frames, batch.control, batch.law))
    return Tensors(frames, control, law, batch.episode)


def batches(
    run: Run, data: Together, start: int, total: int, device: torch.device, group: Group
) -> Iterator[tuple[int, Tensors]]:
    """Steps start .. total - 1, each with its batch, which a thread makes ready during the step before.

    What is in a batch depends on the step alone, so nothing is lost or doubled when a run stops and goes on.
    """

    def ready(step: int) -> Tensors:
        return _tensors(data.batch(stretches_of(run, len(data), step, group)), device)

    with ThreadPoolExecutor(1, "batches") as thread:
        coming = thread.submit(ready, start)
        for step in range(start, total):
            batch = coming.result()
            if step + 1 < total:
                coming = thread.submit(ready, step + 1)
            yield step, _move(batch, device)


def encode(model: WorldModel | DinoWM, batch: Tensors, chunk: int | None) -> tuple[Tensor, Tensor]:
    """z (B, T, ...) and c (B, T, D). Frames that are not bytes are latents already, of an encoder that stays as it is."""
    z = model.encode(batch.frames, chunk) if batch.frames.dtype == torch.uint8 else batch.frames.float()
    return z, model.condition(batch.control, batch.law)


def open_data(run: Run, model: WorldModel | DinoWM, datasets: Path, group: Group = None) -> Data:
    """Open the datasets, split by episode, fit the normalisers on training episodes, decode (or encode) every frame once."""
    first = parallel.rank(group) == 0
    opened = parallel.first_before_others(lambda: [_open(datasets / name, verify=first) for name in run.data], group)
    keep = "auto" if group is None else "disk"
    parts: dict[str, list[Clips]] = {"train": [], "validation": []}
    controls, laws = [], []
    for found in opened:
        train_episodes, validation_episodes = split_episodes(found.train.episodes, seed=run.split_seed)
        controls.append(found.train.control[train_episodes])
        laws.append(found.train.law[train_episodes])
        content = _content(run, model, found.train, group)
        for name, episodes in (("train", train_episodes), ("validation", validation_episodes)):
            clips = partial(Clips, found.train, episodes, run.train.frames, keep, content)
            parts[name].append(parallel.first_before_others(clips, group))
    scores = fit_normalisers(np.concatenate(controls), np.concatenate(laws))
    if run.init is None:  # a model that was trained before keeps the statistics it knows
        model.normalise(scores.control, scores.law)
    digests = {name: found.manifest.digest for name, found in zip(run.data, opened, strict=True)}
    worlds = [found.settings.world for found in opened]
    return Data(Together(parts["train"]), Together(parts["validation"]), digests, worlds)


def _content(run: Run, model: WorldModel | DinoWM, split: Split, group: Group) -> np.ndarray | None:
    """Latents in place of frames, if the encoder does not change; None: the frames."""
    if isinstance(model, DinoWM):
        return parallel.first_before_others(partial(cached_latents, model, split), group)
    if run.train.trains == "predictor" and not run.train.decoder:  # a decoder learns from the frames
        return trained_latents(model, split, group)
    return None


def digests_there(run: Run, datasets: Path) -> dict[str, str]:
    """The digests of those datasets of the run that are there, from their manifests; nothing else is read."""
    return {name: read_manifest(datasets / name).digest for name in run.data if (datasets / name / MANIFEST).is_file()}


def _open(path: Path, verify: bool) -> Dataset:
    if not path.exists():
        world, _, size = path.name.rpartition("-")
        raise InputError(f"{path} does not exist; make it: sgjepa data {world or 'WORLD'} --size {size or 'SIZE'}")
    return open_dataset(path, verify)


def updates_of(run: Run, count: int) -> int:
    """Updates an epoch with so many stretches: none twice, and no more than the run wants."""
    return min(count // run.train.batch, run.train.updates or count)


def updates_there(run: Run, datasets: Path) -> int:
    """Updates of the whole training, from the datasets' manifests alone."""
    count = 0
    for name in run.data:
        split = _open(datasets / name, verify=False).manifest.parts["train"]
        kept, _ = split_episodes(split.episodes, seed=run.split_seed)
        count += len(kept) * (split.frames // split.episodes - run.train.frames + 1)
    return updates_of(run, count) * run.train.epochs


def with_updates(run: Run, total: int, datasets: Path) -> Run:
    """The run with so many updates in all, rounded up to equal epochs; more than one epoch holds needs several."""
    if total < 1:
        raise InputError(f"a training needs at least one update, got {total}")
    most = updates_there(replace(run, train=replace(run.train, epochs=1, updates=None)), datasets)
    epochs = -(-total // most)
    return replace(run, train=replace(run.train, epochs=epochs, updates=-(-total // epochs)))


def stretches_of(run: Run, count: int, step: int, group: Group) -> np.ndarray:
    """Which stretches this process trains on: its share of the batch, in the epoch's own order."""
    per_epoch = updates_of(run, count)
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
