"""The data of a training: its datasets, split by episode, and their frames.

Frames are sampled in three units. A *stretch* is a piece of an episode that is encoded at once, `train.frames` long. A
*window* is the H + K frames of one prediction: a stretch is one window (`loss.windows` "clip"), or holds many ("dense"), of
which `train.drawn` are trained on, none before frame `train.skip`. An *update* takes `train.batch` stretches; an epoch sees
every stretch at most once. `count_updates` counts the updates.

Of several processes, the first makes the caches, and all map the same files: a frame is decoded once, and held once in the
memory of a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.data.manifest import MANIFEST, read_manifest
from sgjepa.data.store import Dataset, Normalisers, fit_normalisers, open_dataset, split_episodes
from sgjepa.data.windows import Batch, Clips, JointClips, check_alike
from sgjepa.models.base import WorldModel
from sgjepa.training import distributed
from sgjepa.training.config import Run
from sgjepa.training.distributed import Group
from sgjepa.training.latent_cache import latents_of


@dataclass(frozen=True)
class Data:
    """Open datasets that fit together; nothing is decoded yet. digests: by name. worlds: in the datasets' order."""

    datasets: list[Dataset]
    normalisers: Normalisers
    digests: dict[str, str]
    worlds: list[str]


def open_data(run: Run, datasets: Path, group: Group = None) -> Data:
    """Open the run's datasets, and fit the normalisers on training episodes."""
    first = distributed.rank(group) == 0
    opened = distributed.first_before_others(
        lambda: [open_existing(datasets / name, verify=first) for name in run.data], group
    )
    check_alike([dataset.train for dataset in opened])
    controls, laws = [], []
    for dataset in opened:
        episodes, _ = split_episodes(dataset.train.episodes, seed=run.split_seed)
        controls.append(dataset.train.control[episodes])
        laws.append(dataset.train.law[episodes])
    return Data(
        opened,
        fit_normalisers(np.concatenate(controls), np.concatenate(laws)),
        {name: dataset.manifest.digest for name, dataset in zip(run.data, opened, strict=True)},
        [dataset.settings.world for dataset in opened],
    )


def read_stretches(
    run: Run, data: Data, model: WorldModel, folder: Path, group: Group = None
) -> tuple[JointClips, JointClips]:
    """Stretches of training and of validation episodes; every frame is decoded, or encoded, once.

    folder: the run's folder, for latents of an encoder that another run trained.
    """
    keep = "auto" if group is None else "disk"
    parts: tuple[list[Clips], list[Clips]] = ([], [])
    latents = [
        latents_of(model, dataset.train, folder, group) if _reads_latents(run, model) else None for dataset in data.datasets
    ]
    splits = [split_episodes(dataset.train.episodes, seed=run.split_seed) for dataset in data.datasets]
    if run.init is None:  # as with control and law: a pretrained model keeps its statistics
        pairs = zip(latents, splits, strict=True)
        model.standardise(content[number] for content, (fitting, _) in pairs if content is not None for number in fitting)
    for dataset, content, split in zip(data.datasets, latents, splits, strict=True):
        for clips, episodes in zip(parts, split, strict=True):
            make = partial(Clips, dataset.train, episodes, run.train.frames, keep, content)
            clips.append(distributed.first_before_others(make, group))
    return JointClips(parts[0]), JointClips(parts[1])


def _reads_latents(run: Run, model: WorldModel) -> bool:
    """Whether to train on latents instead of frames: the encoder is frozen, and no picture decoder needs the frames."""
    return model.frozen_encoder is not None or (run.train.trains == "predictor" and not run.train.decoder)


def with_laws(run: Run, datasets: Path) -> Run:
    """The run with the number of laws of its datasets, which may draw more than the recipe's world has."""
    laws = len(open_existing(datasets / run.data[0], verify=False).train.laws)
    return replace(run, model=replace(run.model, laws=laws))


def dataset_digests(run: Run, datasets: Path) -> dict[str, str]:
    """The digests of the run's existing datasets, from their manifests; nothing else is read."""
    return {name: read_manifest(datasets / name).digest for name in run.data if (datasets / name / MANIFEST).is_file()}


def open_existing(path: Path, verify: bool) -> Dataset:
    """Open a dataset; the error for a missing one names the command that makes it."""
    if not path.exists():
        world, dash, size = path.name.rpartition("-")
        made = f"make it: sgjepa data {world} --size {size}" if dash else "make it with `sgjepa data`, or say where it is"
        raise InputError(f"{path} does not exist; {made}")
    return open_dataset(path, verify)


@dataclass(frozen=True)
class Tensors:
    """A batch on its device: B stretches of T frames."""

    frames: Tensor  # (B, T, h, w, 3) uint8, or latents of an encoder that does not change, (B, T, ...) float
    control: Tensor  # (B, T, A)
    law: Tensor  # (B, L)
    episode: np.ndarray  # (B,)


def to_device(batch: Batch, device: torch.device) -> Tensors:
    """Convert a batch from NumPy to torch, on the device."""
    return move(in_memory(batch, device), device)


def in_memory(batch: Batch, device: torch.device) -> Tensors:
    """Convert a batch from NumPy to torch in main memory; for a GPU in pinned memory, for asynchronous copies."""
    arrays = (torch.from_numpy(x) for x in (batch.frames, batch.control, batch.law))
    frames, control, law = (x.pin_memory() if device.type == "cuda" else x for x in arrays)
    return Tensors(frames, control, law, batch.episode)


def move(batch: Tensors, device: torch.device) -> Tensors:
    """Move a batch to its device."""
    frames, control, law = (x.to(device, non_blocking=True) for x in (batch.frames, batch.control, batch.law))
    return Tensors(frames, control, law, batch.episode)


def encode(model: WorldModel, batch: Tensors, chunk: int | None) -> tuple[Tensor, Tensor]:
    """Encode a batch to z (B, T, ...) and c (B, T, D). Frames that are not bytes are already latents of a frozen encoder."""
    z = model.encode(batch.frames, chunk) if batch.frames.dtype == torch.uint8 else batch.frames.float()
    return z, model.condition(batch.control, batch.law)


def stretches_of(run: Run, count: int, per_epoch: int, step: int, group: Group) -> np.ndarray:
    """The numbers, of `count` stretches, of this process's share of the batch at a step, in the epoch's order."""
    epoch, position = divmod(step, per_epoch)
    batch = order(run.seed, epoch, count)[position * run.train.batch : (position + 1) * run.train.batch]
    return batch[distributed.rank(group) :: distributed.world_size(group)]


@lru_cache(maxsize=2)
def order(seed: int, epoch: int, count: int) -> np.ndarray:
    """The random order of an epoch's stretches, cached: at paper size there are 288,000."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def windows_of(run: Run, step: int) -> list[int] | None:
    """First frames of the windows drawn from every stretch of this step; None for all."""
    if run.train.drawn is None:
        return all_windows(run)
    count = run.train.frames - run.train.skip - run.history - run.loss.steps + 1
    drawn = np.random.default_rng([run.seed, step, 4]).permutation(count)[: run.train.drawn]
    return [run.train.skip + start for start in sorted(drawn.tolist())]


def all_windows(run: Run) -> list[int] | None:
    """First frames of all windows of a stretch that the run may see; None for all."""
    return list(range(run.train.skip, run.train.frames - run.history - run.loss.steps + 1)) if run.train.skip else None


@dataclass(frozen=True)
class Updates:
    """The length of a training. stretches: the number of training stretches."""

    stretches: int
    per_epoch: int
    total: int


def count_updates(run: Run, episodes: Sequence[tuple[int, int]]) -> Updates:
    """The updates of a run. episodes: for each dataset the number of training episodes and of frames in each."""
    stretches = 0
    for count, frames in episodes:
        if run.train.frames > frames:
            raise InputError(f"{run.name}: a stretch must have 1 to {frames} frames, got {run.train.frames}")
        fitting, _ = split_episodes(count, seed=run.split_seed)
        stretches += len(fitting) * (frames - run.train.frames + 1)
    per_epoch = min(stretches // run.train.batch, run.train.updates or stretches)
    return Updates(stretches, per_epoch, per_epoch * run.train.epochs)


def total_updates(run: Run, datasets: Path) -> int:
    """The number of updates of the whole training, from the datasets' manifests."""
    parts = [open_existing(datasets / name, verify=False).manifest.parts["train"] for name in run.data]
    return count_updates(run, [(part.episodes, part.frames // part.episodes) for part in parts]).total


def with_updates(run: Run, total: int, datasets: Path) -> Run:
    """The run with a total number of updates, rounded up to equal epochs; more than an epoch holds needs several."""
    if total < 1:
        raise InputError(f"a training needs at least one update, got {total}")
    most = total_updates(replace(run, train=replace(run.train, epochs=1, updates=None)), datasets)
    epochs = -(-total // most)
    return replace(run, train=replace(run.train, epochs=epochs, updates=-(-total // epochs)))
