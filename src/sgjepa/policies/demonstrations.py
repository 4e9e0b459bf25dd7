"""Training data of policies: windows of the successful training episodes, in memory, selected by number.

    features of frames t - H + 1 .. t (before frame 0: frame 0's again), the law  ->  controls t .. t + A - 1

The last stored control has no effect and is not used. Episodes that the world model was validated on are held out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.core.stats import fit_minmax, fit_zscore
from sgjepa.data.store import Dataset, split_episodes
from sgjepa.policies.features import Features
from sgjepa.policies.files import Counts, Scaling
from sgjepa.policies.tasks import Task, ends, learned, task_of
from sgjepa.training.data import order

if TYPE_CHECKING:
    from sgjepa.policies.learned import PolicyConfig


@dataclass(frozen=True)
class Windows:
    """E episodes of T frames, scaled, and n windows in them."""

    features: Tensor  # (E, T, F)
    control: Tensor  # (E, T - 1, C)
    law: Tensor  # (E, L); L is 0 if the policy is not conditioned on the law
    episode: np.ndarray  # (E,) their numbers in the split
    row: np.ndarray  # (n,) the episode of each window, among the E
    start: np.ndarray  # (n,) its newest frame, t
    urgent: np.ndarray  # (m,) numbers of the windows that fill half of every batch; empty: uniform sampling
    history: int
    horizon: int

    def __len__(self) -> int:
        return len(self.row)

    def batch(self, numbers: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """The windows with these numbers: features (B, H, F), law (B, L), controls (B, A, C)."""
        row, start = torch.from_numpy(self.row[numbers]), torch.from_numpy(self.start[numbers])[:, None]
        back = (start + torch.arange(1 - self.history, 1)).clamp(min=0)
        ahead = start + torch.arange(self.horizon)
        return self.features[row[:, None], back], self.law[row], self.control[row[:, None], ahead]

    def drawn(self, seed: int, step: int, size: int) -> np.ndarray:
        """The window numbers of an update, (size,), a function of seed and step: each pool is shuffled again every epoch."""
        if not len(self.urgent):
            return _turn(seed, step, size, len(self))
        half = size // 2
        return np.concatenate(
            [_turn(seed, step, size - half, len(self)), self.urgent[_turn(seed, step, half, len(self.urgent), stream=1)]]
        )


def _turn(seed: int, step: int, size: int, count: int, stream: int = 0) -> np.ndarray:
    """Elements step * size .. (step + 1) * size - 1 of an endless sequence of permutations of 0 .. count - 1."""
    epoch, index = np.divmod(np.arange(step * size, (step + 1) * size), count)
    numbers = np.empty(size, np.int64)
    for number in np.unique(epoch).tolist():
        numbers[epoch == number] = order(seed, 2 * number + stream, count)[index[epoch == number]]
    return numbers


def demonstrations(
    cfg: PolicyConfig, features: Features, split_seed: int, dataset: Dataset
) -> tuple[Scaling, Windows, Windows]:
    """The scaling, the training windows and the held-out windows of a policy."""
    split, task = dataset.train, task_of(dataset.settings.world)
    if cfg.horizon > split.frames - 1:
        raise InputError(
            f"{split.folder.parent} has episodes of {split.frames} frames, too short for {cfg.horizon} controls ahead: "
            "set a shorter horizon"
        )
    fitting, held_out = (part[split.success[part]] for part in split_episodes(split.episodes, seed=split_seed))
    if not len(fitting):
        raise InputError(f"{split.folder.parent} has no successful training episode to learn from; make a larger dataset")
    spec = dataset.env_spec
    seen = {name: features.of_split(split, part) for name, part in (("fit", fitting), ("held", held_out)) if len(part)}
    control = learned(spec, split.control[:, :-1])  # (N, T - 1, C)
    scaling = Scaling(
        fit_zscore(seen["fit"].reshape(-1, seen["fit"].shape[2])),
        fit_minmax(control[fitting].reshape(-1, control.shape[2])),
        fit_zscore(split.law[fitting]),
    )
    last = ends(task, split)

    def windows(part: np.ndarray, frames: np.ndarray) -> Windows:
        row, start, urgent = _starts(last[part], split.frames - cfg.horizon, task)
        laws = scaling.law(split.law[part]) if cfg.law else np.zeros((len(part), 0), np.float32)
        return Windows(
            features=torch.from_numpy(scaling.features(frames)),
            control=torch.from_numpy(scaling.control(control[part])),
            law=torch.from_numpy(laws),
            episode=part,
            row=row,
            start=start,
            urgent=urgent,
            history=cfg.history,
            horizon=cfg.horizon,
        )

    nothing = np.zeros((0, *seen["fit"].shape[1:]), np.float32)
    cut = windows(fitting, seen["fit"]), windows(held_out, seen.get("held", nothing))
    if not len(cut[0]):
        raise InputError(f"{split.folder.parent} has no window to learn from before {task.until}; make a larger dataset")
    return scaling, *cut


def _starts(last: np.ndarray, count: int, task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row and newest frame of every window, and the numbers of the urgent windows. last (E,): see `tasks.ends`."""
    row, start = np.divmod(np.arange(len(last) * count), count)
    before_end = start < last[row]
    row, start = row[before_end], start[before_end]
    urgent = np.flatnonzero(start >= last[row] - task.urgent) if task.until else np.zeros(0, np.int64)
    return row, start, urgent


def counts(training: Windows, validation: Windows) -> Counts:
    """The numbers of episodes and windows, for the policy's record."""
    return Counts(len(training.features), len(training), len(validation.features), len(validation))
