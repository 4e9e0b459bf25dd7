"""Batches of stretches, in an order that is a function of seed and step."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from sgjepa.data.windows import Batch, Together
from sgjepa.models.base import WorldModel
from sgjepa.training import parallel
from sgjepa.training.budget import updates_per_epoch
from sgjepa.training.parallel import Group
from sgjepa.training.run import Run


@dataclass(frozen=True)
class Tensors:
    """A batch on its device: B stretches of T frames."""

    frames: Tensor  # (B, T, h, w, 3) uint8, or latents of an encoder that does not change, (B, T, ...) float
    control: Tensor  # (B, T, A)
    law: Tensor  # (B, L)
    episode: np.ndarray  # (B,)


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


def encode(model: WorldModel, batch: Tensors, chunk: int | None) -> tuple[Tensor, Tensor]:
    """z (B, T, ...) and c (B, T, D). Frames that are not bytes are latents already, of an encoder that stays as it is."""
    z = model.encode(batch.frames, chunk) if batch.frames.dtype == torch.uint8 else batch.frames.float()
    return z, model.condition(batch.control, batch.law)


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


def stretches_of(run: Run, count: int, step: int, group: Group) -> np.ndarray:
    """Which of `count` stretches this process trains on: its share of the batch, in the epoch's own order."""
    epoch, place = divmod(step, updates_per_epoch(run, count))
    batch = order(run.seed, epoch, count)[place * run.train.batch : (place + 1) * run.train.batch]
    return batch[parallel.rank(group) :: parallel.world_size(group)]


@lru_cache(maxsize=2)
def order(seed: int, epoch: int, count: int) -> np.ndarray:
    """The epoch's order of all that is trained on; at paper size 288,000 stretches, so not drawn anew at every step."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def windows_of(run: Run, step: int) -> list[int] | None:
    """First frames of the windows drawn from every stretch of this step; None for all."""
    if run.train.drawn is None:
        return all_windows(run)
    count = run.train.frames - run.train.skip - run.history - run.loss.steps + 1
    drawn = np.random.default_rng([run.seed, step, 4]).permutation(count)[: run.train.drawn]
    return [run.train.skip + start for start in sorted(drawn.tolist())]


def all_windows(run: Run) -> list[int] | None:
    """First frames of all windows of a stretch that the run may see; None for all there are."""
    return list(range(run.train.skip, run.train.frames - run.history - run.loss.steps + 1)) if run.train.skip else None
