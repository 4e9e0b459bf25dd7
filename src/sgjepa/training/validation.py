"""Validation after every epoch, and BatchNorm's statistics taken anew before it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from sgjepa.core.errors import InputError
from sgjepa.data.windows import Together
from sgjepa.models.base import WorldModel
from sgjepa.training import losses, monitor, parallel
from sgjepa.training.batches import all_windows, encode, to_device, windows_of
from sgjepa.training.learner import Learner
from sgjepa.training.parallel import Group
from sgjepa.training.readable import Reader
from sgjepa.training.run import Run
from sgjepa.training.seeds import DIRECTIONS, mix

_CALIBRATION = 16  # batches that BatchNorm's statistics are averaged over


@torch.no_grad()
def calibrate(run: Run, learner: Learner, data: Together, device: torch.device, group: Group) -> None:
    """Take BatchNorm's running statistics anew, as plain averages over some training batches.

    Their usual moving average lags behind weights that move fast: at mini learning rates the validation loss in eval mode
    was 16 times what the same weights reach with statistics of their own (docs/log.md). Weights are not touched.
    """
    norms = [m for m in learner.modules() if isinstance(m, nn.BatchNorm1d)]
    if run.train.trains == "predictor":
        frozen = {m for part in learner.model.encoder_modules() for m in part.modules()}
        norms = [m for m in norms if m not in frozen]
    if not norms:
        return
    learner.eval()
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # BatchNorm's spelling of a plain average
        norm.train()
    ranks, count = parallel.world_size(group), min(_CALIBRATION, len(data) // run.train.batch)
    for numbers in np.linspace(0, len(data) - 1, count * run.train.batch).astype(int).reshape(count, -1):
        batch = to_device(data.batch(numbers[parallel.rank(group) :: ranks]), device)
        z, c = encode(learner.model, batch, None)
        generator = torch.Generator(device).manual_seed(0)
        starts = windows_of(run, 0)
        losses.compute(run.loss, learner.model, z, c, generator, history=run.history, starts=starts, group=group)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum


@torch.no_grad()
def validate(run: Run, learner: Learner, data: Together, device: torch.device, group: Group) -> dict[str, float]:
    """Mean of every loss term over validation stretches, with the same directions at every epoch, in eval mode.

    And, on the first process and from its share, how well a linear probe reads what the world declares readable.
    """
    learner.eval()
    ranks = parallel.world_size(group)
    size = min(run.train.batch, len(data) // ranks * ranks)  # equal shares
    if size == 0:
        raise InputError(f"{len(data)} validation stretches cannot be shared by {ranks} processes")
    count = len(data) // size
    if run.train.validation is not None:
        count = min(count, run.train.validation)
    numbers = np.linspace(0, len(data) - 1, count * size).astype(int).reshape(count, size)
    changes = learner.model.collapse_width is not None and run.train.trains == "all"
    reader = Reader(data, numbers.size // ranks) if changes and parallel.rank(group) == 0 else None
    terms = []
    for index, chosen in enumerate(numbers):
        mine = chosen[parallel.rank(group) :: ranks]
        read = data.batch(mine)
        batch = to_device(read, device)
        z, c = encode(learner.model, batch, None)
        if reader is not None:
            reader.take(learner.model, z, read, mine)
        generator = torch.Generator(device).manual_seed(mix(0, index, DIRECTIONS))
        _, parts = losses.compute(
            run.loss, learner.model, z, c, generator, history=run.history, starts=all_windows(run), group=group
        )
        terms.append({name: float(value) for name, value in over_ranks(parts, group).items()} | health(learner.model, z))
    means = {name: float(np.mean([term[name] for term in terms])) for name in terms[0]}
    return means | (reader.scores() if reader is not None else {})


def over_ranks(parts: dict[str, Tensor], group: Group) -> dict[str, Tensor]:
    """Means of the loss terms over all processes."""
    values = parallel.all_reduce_mean(torch.stack(list(parts.values())).float(), group)
    return dict(zip(parts, values.unbind(), strict=True))


def health(model: WorldModel, z: Tensor) -> dict[str, float]:
    """Signs of collapse; none where the encoder is frozen and cannot collapse."""
    return monitor.latent_health(z) if model.collapse_width is not None else {}
