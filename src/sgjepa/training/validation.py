"""Validation: loss terms on held-out episodes, signs of collapse, and errors of a linear probe of the world's targets.

Collapse shows in the effective rank and the spread of the latents (paper, eq. sigreg-effective-rank).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from sgjepa.core.errors import InputError
from sgjepa.data.probe_targets import Targets, default_probe_window, split_targets
from sgjepa.data.windows import Batch, JointClips
from sgjepa.models.base import WorldModel
from sgjepa.training import distributed, losses
from sgjepa.training.config import DIRECTIONS, Run, mix
from sgjepa.training.data import all_windows, encode, to_device, windows_of
from sgjepa.training.distributed import Group
from sgjepa.training.learner import Learner


def effective_rank(z: Tensor) -> float:
    """exp of the entropy of the covariance's normalised eigenvalues; z (N, D). Between 1 and D."""
    centred = (z - z.mean(dim=0)).double()
    values = torch.linalg.eigvalsh(centred.T @ centred).clamp(min=0)
    p = values / values.sum().clamp(min=1e-300)
    p = p[p > 0]
    return float(torch.exp(-(p * p.log()).sum())) if len(p) else 0.0


def latent_health(z: Tensor) -> dict[str, float]:
    """z (B, T, ...) -> effective rank, and the smallest and mean standard deviation over dimensions."""
    flat = z.detach().float().flatten(0, 1).flatten(1)  # (N, D)
    if not torch.isfinite(flat).all():
        return dict.fromkeys(("rank", "std_min", "std_mean"), math.nan)
    std = flat.std(dim=0)
    return {"rank": effective_rank(flat), "std_min": float(std.min()), "std_mean": float(std.mean())}


def warning(health: dict[str, float], dimensions: int) -> str | None:
    """A warning of collapsing latents, or None."""
    if health["std_mean"] < 0.1:
        return f"latents are collapsing: mean standard deviation {health['std_mean']:.3f}; raise the weight of SIGReg"
    if health["rank"] < 0.05 * dimensions:
        return f"latents use few directions: effective rank {health['rank']:.1f} of {dimensions}; raise the weight of SIGReg"
    if health["std_min"] < 0.05:
        return f"a latent dimension is dead: its standard deviation is {health['std_min']:.3f}; raise the weight of SIGReg"
    return None


class ProbeWatch:
    """Warns once per target that a probe could read but no longer can.

    A fluctuating error gives no warning: it must have been below READ and now be above LOST and twice its best.
    """

    READ, LOST = 0.3, 0.6  # NMSE

    def __init__(self) -> None:
        self._best: dict[str, float] = {}
        self._warned: set[str] = set()

    def warnings(self, errors: dict[str, float]) -> list[str]:
        """The warnings of one validation. errors: those of the probe, by target."""
        words = []
        for name, error in errors.items():
            best = self._best[name] = min(error, self._best.get(name, math.inf))
            if best < self.READ and error > max(self.LOST, 2 * best) and name not in self._warned:
                self._warned.add(name)
                words.append(
                    f"{name} is leaving the latents: its probe error rose from {best:.2f} to {error:.2f}; "
                    f"raise the weight of SIGReg"
                )
        return words


_STRETCHES = 512  # about this many stretches of a validation are probed; at mini size all 168
# of the features' mean square. Small ones tell velocities, which are small differences of latents; large ones are for few
# episodes. Each target is scored with the one that reads it best, so that an error does not rise for want of episodes
_RIDGES = (1e-4, 1e-2, 1.0)
_SMALLEST_VARIANCE = 1e-6  # of a target that can be scored
PREFIX = "readable."


class ProbeScores:
    """Probe errors of each target on the stretches of a validation, which are added batch by batch."""

    def __init__(self, data: JointClips, stretches: int):
        """stretches: the number of stretches that will be added."""
        self.data, self._every = data, -(-stretches // _STRETCHES)
        self._targets = [split_targets(part.split) for part in data.parts]
        self._windows = [default_probe_window(part.split.env_spec, part.split.picture[0]) for part in data.parts]
        self._rows: dict[int, list[tuple[Tensor, np.ndarray, np.ndarray]]] = defaultdict(list)

    def add(self, model: WorldModel, z: Tensor, batch: Batch, numbers: np.ndarray) -> None:
        """Add latents z (B, T, ...) of the stretches with these numbers."""
        part = self.data.part_of(numbers)
        probed = np.arange(len(part)) % self._every == 0
        for index in np.unique(part).tolist():
            if self._targets[index] is not None:
                rows = (part == index) & probed
                features = model.features(z[torch.from_numpy(rows).to(z.device)]).double().cpu()
                self._rows[index].append((features, batch.state[rows], batch.episode[rows]))

    def scores(self) -> dict[str, float]:
        """NMSE by target: 0 is read without error, 1 is no better than the mean. Empty for too few stretches."""
        errors: dict[str, float] = {}
        for index, rows in self._rows.items():
            targets, window = self._targets[index], self._windows[index]
            assert targets is not None
            features, states, episodes = (list(values) for values in zip(*rows, strict=True))
            world = f"{self.data.parts[index].split.about['task']}." if len(self.data.parts) > 1 else ""
            scored = probe_scores(targets, torch.cat(features), np.concatenate(states), np.concatenate(episodes), window)
            errors |= {f"{PREFIX}{world}{name}": value for name, value in scored.items()}
        return errors


def stack(features: Tensor, window: int) -> Tensor:
    """Concatenate the frames of a probe's window: (B, T, F) -> (B, T - window + 1, window * F), oldest first."""
    return features.unfold(1, window, 1).transpose(2, 3).flatten(2)


def probe_scores(
    targets: Targets, features: Tensor, states: np.ndarray, episodes: np.ndarray, window: int
) -> dict[str, float]:
    """NMSE of linear probes on `window` frames, oldest first, for the state at the last of them.

    features (B, T, F), states (B, T, S), episodes (B,): no episode is used for both fitting and scoring.
    """
    half = np.searchsorted(np.unique(episodes), episodes) % 2  # every other episode
    if window > features.shape[1] or not 0 < half.sum() < len(half) or not torch.isfinite(features).all():
        return {}
    x = stack(features, window)  # (B, T - window + 1, window F)
    y = torch.from_numpy(targets.of(states[:, window - 1 :].astype(np.float64)))  # (B, ·, Y)
    spread = y.flatten(0, 1).var(dim=0, correction=0)
    errors = []  # of each half: (ridges, windows, Y)
    for fitted in (0, 1):
        own, other = (torch.from_numpy(half == fitted), torch.from_numpy(half != fitted))
        weight, offset = ridge(x[own].flatten(0, 1), y[own].flatten(0, 1), _RIDGES)
        errors.append((x[other].flatten(0, 1) @ weight + offset - y[other].flatten(0, 1)).square())
    nmse = torch.cat(errors, dim=1).mean(dim=1).amin(dim=0) / spread.clamp(min=_SMALLEST_VARIANCE)
    return {n: v for n, v, s in zip(targets.names, nmse.tolist(), spread.tolist(), strict=True) if s > _SMALLEST_VARIANCE}


def ridge(x: Tensor, y: Tensor, ridges: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Least squares on centred x (N, F), y (N, Y) for each ridge: weights (R, F, Y) and offsets (R, 1, Y)."""
    x_mean, y_mean = x.mean(dim=0), y.mean(dim=0)
    x = x - x_mean
    gram = x.T @ x
    small = torch.tensor(ridges, dtype=gram.dtype)[:, None, None] * gram.diagonal().mean() + 1e-12
    weight = torch.linalg.solve(gram + small * torch.eye(len(gram), dtype=gram.dtype), x.T @ (y - y_mean))
    return weight, (y_mean - x_mean @ weight)[:, None]


_CALIBRATION = 16  # batches that BatchNorm's statistics are averaged over


@torch.no_grad()
def calibrate(run: Run, learner: Learner, data: JointClips, device: torch.device, group: Group) -> None:
    """Set BatchNorm's running statistics to plain averages over some training batches.

    Their usual moving average lags behind weights that move fast: at mini learning rates the validation loss in eval mode
    was 16 times that of the same weights with statistics of their own (docs/log.md). Weights are not touched.
    """
    norms = [m for m in learner.modules() if isinstance(m, nn.BatchNorm1d)]
    if run.train.trains == "predictor":
        frozen = {m for part in learner.model.encoder_modules() for m in part.modules()}
        norms = [m for m in norms if m not in frozen]
    if not norms:
        return
    learner.eval()
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # BatchNorm's spelling of a plain average
        norm.train()
    ranks, count = distributed.world_size(group), min(_CALIBRATION, len(data) // run.train.batch)
    for numbers in np.linspace(0, len(data) - 1, count * run.train.batch).astype(int).reshape(count, -1):
        batch = to_device(data.batch(numbers[distributed.rank(group) :: ranks]), device)
        z, c = encode(learner.model, batch, None)
        generator = torch.Generator(device).manual_seed(0)
        starts = windows_of(run, 0)
        losses.compute(run.loss, learner.model, z, c, generator, history=run.history, starts=starts, group=group)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


@torch.no_grad()
def validate(run: Run, learner: Learner, data: JointClips, device: torch.device, group: Group) -> dict[str, float]:
    """Mean of every loss term over validation stretches, with the same directions at every epoch, in eval mode.

    On the first process also the errors of a linear probe of the world's targets, from its share.
    """
    learner.eval()
    ranks = distributed.world_size(group)
    size = min(run.train.batch, len(data) // ranks * ranks)  # equal shares
    if size == 0:
        raise InputError(f"{len(data)} validation stretches cannot be shared by {ranks} processes")
    count = len(data) // size
    if run.train.validation is not None:
        count = min(count, run.train.validation)
    numbers = np.linspace(0, len(data) - 1, count * size).astype(int).reshape(count, size)
    changes = learner.model.collapse_width is not None and run.train.trains == "all"
    reader = ProbeScores(data, numbers.size // ranks) if changes and distributed.rank(group) == 0 else None
    terms = []
    for index, indices in enumerate(numbers):
        mine = indices[distributed.rank(group) :: ranks]
        read = data.batch(mine)
        batch = to_device(read, device)
        z, c = encode(learner.model, batch, None)
        if reader is not None:
            reader.add(learner.model, z, read, mine)
        generator = torch.Generator(device).manual_seed(mix(0, index, DIRECTIONS))
        _, parts = losses.compute(
            run.loss, learner.model, z, c, generator, history=run.history, starts=all_windows(run), group=group
        )
        terms.append({name: float(value) for name, value in over_ranks(parts, group).items()} | health(learner.model, z))
    means = {name: float(np.mean([term[name] for term in terms])) for name in terms[0]}
    return means | (reader.scores() if reader is not None else {})


def over_ranks(parts: dict[str, Tensor], group: Group) -> dict[str, Tensor]:
    """Means of the loss terms over all processes."""
    values = distributed.all_reduce_mean(torch.stack(list(parts.values())).float(), group)
    return dict(zip(parts, values.unbind(), strict=True))


def health(model: WorldModel, z: Tensor) -> dict[str, float]:
    """Signs of collapse; empty for a frozen encoder, which cannot collapse."""
    return latent_health(z) if model.collapse_width is not None else {}
