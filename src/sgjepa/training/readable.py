"""What can still be read out of the latents while they are trained: a linear probe at every validation.

Effective rank and spread cannot tell what was lost: latents may fill all their dimensions with the position alone. So for
everything that the world declares readable (`World.probed`) a linear probe is fitted to the latents that validation encodes
anyway, in closed form, on one half of the episodes and scored on the other, and the other way round. It takes some tens of
milliseconds at mini size. It is no match for the probes of the evaluation, which see more episodes; it is for comparing one
validation with the next.

An encoder that is not trained loses nothing, so there it is left out, and in worlds that declare nothing to read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sgjepa.data.readable import readable_in, usual_window
from sgjepa.data.targets import Targets
from sgjepa.data.windows import Batch, Together
from sgjepa.models.base import WorldModel

_STRETCHES = 512  # about so many of a validation are looked at; at mini size all 168
# of the features' mean square. Small ones tell velocities, which are small differences of latents; large ones are for few
# episodes. Each target is scored with the one that reads it best, so that an error does not rise for want of episodes
_RIDGES = (1e-4, 1e-2, 1.0)
_LEAST = 1e-6  # variance of a target that can be scored
PREFIX = "readable."


class Reader:
    """Takes the stretches of a validation batch by batch, then says how well each target can be read."""

    def __init__(self, data: Together, stretches: int):
        """stretches: how many will come."""
        self.data, self._every = data, -(-stretches // _STRETCHES)
        self._targets = [readable_in(part.split) for part in data.parts]
        self._windows = [usual_window(part.split.spec, part.split.picture[0]) for part in data.parts]
        self._kept: dict[int, list[tuple[Tensor, np.ndarray, np.ndarray]]] = defaultdict(list)

    def take(self, model: WorldModel, z: Tensor, batch: Batch, numbers: np.ndarray) -> None:
        """z (B, T, ...): latents of the stretches with these numbers."""
        part = self.data.part_of(numbers)
        looked_at = np.arange(len(part)) % self._every == 0
        for index in np.unique(part).tolist():
            if self._targets[index] is not None:
                rows = (part == index) & looked_at
                features = model.features(z[torch.from_numpy(rows).to(z.device)]).double().cpu()
                self._kept[index].append((features, batch.state[rows], batch.episode[rows]))

    def scores(self) -> dict[str, float]:
        """NMSE by target: 0 is read without error, 1 is no better than the mean. Empty if there is too little to tell."""
        found: dict[str, float] = {}
        for index, kept in self._kept.items():
            targets, window = self._targets[index], self._windows[index]
            assert targets is not None
            features, states, episodes = (list(values) for values in zip(*kept, strict=True))
            world = f"{self.data.parts[index].split.about['task']}." if len(self.data.parts) > 1 else ""
            scored = probe_scores(targets, torch.cat(features), np.concatenate(states), np.concatenate(episodes), window)
            found |= {f"{PREFIX}{world}{name}": value for name, value in scored.items()}
        return found


def stack(features: Tensor, window: int) -> Tensor:
    """What a probe sees: (B, T, F) -> (B, T - window + 1, window * F), oldest first."""
    return features.unfold(1, window, 1).transpose(2, 3).flatten(2)


def probe_scores(
    targets: Targets, features: Tensor, states: np.ndarray, episodes: np.ndarray, window: int
) -> dict[str, float]:
    """NMSE of linear probes on `window` frames, oldest first, for the state at the last of them.

    features (B, T, F), states (B, T, S), episodes (B,): no episode is fitted to and scored on.
    """
    half = np.searchsorted(np.unique(episodes), episodes) % 2  # every other episode
    if window > features.shape[1] or not 0 < half.sum() < len(half) or not torch.isfinite(features).all():
        return {}
    x = stack(features, window)  # (B, T - window + 1, window F)
    y = torch.from_numpy(targets.of(states[:, window - 1 :].astype(np.float64)))  # (B, ·, Y)
    spread = y.flatten(0, 1).var(dim=0, correction=0)
    errors = []  # of each half: (ridges, windows, Y)
    for fitted in (0, 1):
        here, there = (torch.from_numpy(half == fitted), torch.from_numpy(half != fitted))
        weight, offset = ridge(x[here].flatten(0, 1), y[here].flatten(0, 1), _RIDGES)
        errors.append((x[there].flatten(0, 1) @ weight + offset - y[there].flatten(0, 1)).square())
    nmse = torch.cat(errors, dim=1).mean(dim=1).amin(dim=0) / spread.clamp(min=_LEAST)
    return {n: v for n, v, s in zip(targets.names, nmse.tolist(), spread.tolist(), strict=True) if s > _LEAST}


def ridge(x: Tensor, y: Tensor, ridges: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Least squares on centred x (N, F), y (N, Y) for each ridge: weights (R, F, Y) and offsets (R, 1, Y)."""
    x_mean, y_mean = x.mean(dim=0), y.mean(dim=0)
    x = x - x_mean
    gram = x.T @ x
    small = torch.tensor(ridges, dtype=gram.dtype)[:, None, None] * gram.diagonal().mean() + 1e-12
    weight = torch.linalg.solve(gram + small * torch.eye(len(gram), dtype=gram.dtype), x.T @ (y - y_mean))
    return weight, (y_mean - x_mean @ weight)[:, None]
