"""Errors of the latents themselves on held-out clips: H true frames, then K predictions fed back (a table of the paper).

clip     t ............ t + H - 1 | t + H ... t + H + K - 1        every t of every episode
latents  encoded                  | fed back, with the true controls and law

No probe is involved, and latents of two models are not on one scale: the numbers are the paper's, to be read beside success
and the latents' own variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.data.store import Dataset, Split, unseen
from sgjepa.evaluation.forecast import blocks
from sgjepa.evaluation.latent_errors import LatentErrors
from sgjepa.models.base import WorldModel
from sgjepa.models.rollout import unroll
from sgjepa.training import checkpoint
from sgjepa.training.latent_cache import latents_of


def latent_errors(folder: Path, dataset: Dataset, steps: int = 5, held_out: bool = False) -> LatentErrors:
    """Of the finished run in `folder`, on all clips of the test split. steps: K. held_out: see `unseen`"""
    run, model = checkpoint.load_run(folder)
    part, numbers = unseen(dataset, held_out)
    latents = latents_of(model, part, folder)
    return errors_of_clips(model, part, latents, numbers, run.history, steps, f"clips {folder.name}")


@torch.no_grad()
def errors_of_clips(
    model: WorldModel,
    split: Split,
    latents: np.ndarray,
    episodes: Sequence[int],
    history: int,
    steps: int,
    label: str = "clips",
) -> LatentErrors:
    """latents: (N, T, ...) of all frames of the split; of which these episodes count."""
    length = history + steps
    if steps < 1 or length > split.frames:
        raise InputError(
            f"clips of {history} frames and {steps} predictions do not fit into {split.frames}; choose fewer steps"
        )
    starts, numbers = range(split.frames - length + 1), np.asarray(episodes)
    found: dict[str, list[np.ndarray]] = {"errors": [], "unchanged": []}
    with progress(len(numbers), 0, label, "episodes") as bar:
        for rows in blocks(numbers, latents, len(starts) * length):
            z = torch.from_numpy(np.array(latents[rows], dtype=np.float32))  # (n, T, ...)
            c = model.condition(torch.tensor(split.control[rows]), torch.tensor(split.law[rows]))  # (n, T, D)
            clips, conditions = (
                torch.cat([x[:, t : t + length] for t in starts]) for x in (z, c)
            )  # clips of a start together
            predicted = unroll(model, clips[:, :history], conditions, steps)  # (S n, K, ...)
            for name, guess in (("errors", predicted), ("unchanged", clips[:, history - 1 : history])):
                error = (guess - clips[:, history:]).square().flatten(2).mean(dim=2)  # (S n, K)
                found[name].append(error.reshape(len(starts), len(rows), steps).mean(dim=0).double().numpy())
            bar.update(len(rows))
    variance = float(np.asarray(latents[numbers], np.float64).var(axis=(0, 1)).mean())
    return LatentErrors(
        **{name: np.concatenate(parts) for name, parts in found.items()},
        variance=variance,
        clips=len(numbers) * len(starts),
    )
