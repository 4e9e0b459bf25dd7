"""Errors of the latents themselves on held-out clips: H true frames, then K predictions fed back (a table of the paper).

clip     t ............ t + H - 1 | t + H ... t + H + K - 1        every t of every episode
latents  encoded                  | fed back, with the true controls and law

No probe is involved, and latents of two models are not on one scale: the numbers are the paper's, to be read beside success.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.core.stats import Interval, bootstrap
from sgjepa.data.store import Dataset, Split
from sgjepa.evaluation.forecast import blocks
from sgjepa.models.base import WorldModel
from sgjepa.models.rollout import unroll
from sgjepa.training import checkpoint
from sgjepa.training.latents import latents_of


@dataclass(frozen=True)
class LatentErrors:
    """Mean squared errors, per number of a latent. errors: (episodes, K), each the mean over an episode's clips."""

    errors: np.ndarray
    clips: int  # of all episodes

    def at_last(self) -> Interval:
        """After K predictions, with the interval over episodes."""
        return bootstrap(self.errors[:, -1:])[0]

    def mean(self) -> Interval:
        """Over the predictions 1 to K."""
        return bootstrap(self.errors.mean(axis=1, keepdims=True))[0]


def latent_errors(folder: Path, dataset: Dataset, steps: int = 5, split: str = "test") -> LatentErrors:
    """Of the finished run in `folder`, on all clips of a split. steps: K"""
    run, model = checkpoint.load_run(folder)
    part = dataset.test if split == "test" else dataset.train
    return errors_of_clips(model, part, latents_of(model, part, folder), run.history, steps, f"clips {folder.name}")


@torch.no_grad()
def errors_of_clips(
    model: WorldModel, split: Split, latents: np.ndarray, history: int, steps: int, label: str = "clips"
) -> LatentErrors:
    """latents: (N, T, ...) of all frames of the split."""
    length = history + steps
    if steps < 1 or length > split.frames:
        raise InputError(
            f"clips of {history} frames and {steps} predictions do not fit into {split.frames}; choose fewer steps"
        )
    starts, numbers, found = range(split.frames - length + 1), np.arange(split.episodes), []
    with progress(split.episodes, 0, label, "episodes") as bar:
        for rows in blocks(numbers, latents, len(starts) * length):
            z = torch.from_numpy(np.array(latents[rows], dtype=np.float32))  # (n, T, ...)
            c = model.condition(torch.tensor(split.control[rows]), torch.tensor(split.law[rows]))  # (n, T, D)
            clips, conditions = (
                torch.cat([x[:, t : t + length] for t in starts]) for x in (z, c)
            )  # clips of a start together
            predicted = unroll(model, clips[:, :history], conditions, steps)  # (S n, K, ...)
            error = (predicted - clips[:, history:]).square().flatten(2).mean(dim=2)  # (S n, K)
            found.append(error.reshape(len(starts), len(rows), steps).mean(dim=0).double().numpy())
            bar.update(len(rows))
    return LatentErrors(np.concatenate(found), split.episodes * len(starts))
