"""Latent prediction errors on held-out clips: H true frames, then K predictions fed back (a table of the paper).

clip     t ............ t + H - 1 | t + H ... t + H + K - 1        every t of every episode
latents  encoded                  | fed back, with the true controls and law

No probe is involved, and the latents of two models have different scales: compare errors only as shares of the latents'
variance. Torch is imported only by the functions that measure, so that reports can read such errors without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.core.stats import Interval, bootstrap
from sgjepa.data.store import Dataset, Split, unseen

if TYPE_CHECKING:
    from sgjepa.models.base import WorldModel


@dataclass(frozen=True)
class LatentErrors:
    """Mean squared errors per component of a latent. errors, unchanged: (episodes, K), the means over an episode's clips.

    unchanged: the errors of repeating the last true latent. variance: of the latents, over all frames; as shares of it the
    errors of two models can be compared.
    """

    errors: np.ndarray
    unchanged: np.ndarray
    variance: float
    clips: int  # of all episodes

    def __post_init__(self) -> None:
        assert self.errors.shape == self.unchanged.shape

    @property
    def steps(self) -> int:
        """K, the number of predictions of a clip."""
        return int(self.errors.shape[1])

    def at(self, step: int) -> Interval:
        """The error of prediction `step`, counted from 1, with the interval over episodes."""
        return bootstrap(self.errors[:, step - 1 : step])[0]

    def mean(self) -> Interval:
        """The mean error over the predictions 1 to K, with the interval over episodes."""
        return bootstrap(self.errors.mean(axis=1, keepdims=True))[0]

    def row(self) -> dict[str, Any]:
        """The errors as a table row, by column."""
        last, mean, still = self.at(self.steps), self.mean(), self.unchanged.mean(axis=0)
        row: dict[str, Any] = {"clips": self.clips, "variance": self.variance, "k1": self.at(1).mean}
        row |= {f"k{self.steps}": last.mean, "low": last.low, "high": last.high}
        row |= {"mean": mean.mean, "mean_low": mean.low, "mean_high": mean.high}
        return row | {"unchanged_k1": still[0], f"unchanged_k{self.steps}": still[-1]}


def latent_errors(folder: Path, dataset: Dataset, steps: int = 5, held_out: bool = False) -> LatentErrors:
    """Errors of the finished run in `folder` on all clips of the test split. steps: K. held_out: see `unseen`."""
    from sgjepa.training import checkpoint
    from sgjepa.training.latent_cache import latents_of

    run, model = checkpoint.load_run(folder)
    part, numbers = unseen(dataset, held_out)
    latents = latents_of(model, part, folder)
    return errors_of_clips(model, part, latents, numbers, run.history, steps, f"clips {folder.name}")


def errors_of_clips(
    model: WorldModel,
    split: Split,
    latents: np.ndarray,
    episodes: Sequence[int],
    history: int,
    steps: int,
    label: str = "clips",
) -> LatentErrors:
    """Errors on all clips of some episodes. latents: (N, T, ...) of all frames of the split."""
    import torch

    from sgjepa.evaluation.forecast import blocks
    from sgjepa.models.rollout import unroll

    length = history + steps
    if steps < 1 or length > split.frames:
        raise InputError(
            f"clips of {history} frames and {steps} predictions do not fit into {split.frames}; choose fewer steps"
        )
    starts, numbers = range(split.frames - length + 1), np.asarray(episodes)
    parts: dict[str, list[np.ndarray]] = {"errors": [], "unchanged": []}
    with torch.no_grad(), progress(len(numbers), 0, label, "episodes") as bar:
        for indices in blocks(numbers, latents, len(starts) * length):
            rows = numbers[indices]
            z = torch.from_numpy(np.array(latents[rows], dtype=np.float32))  # (n, T, ...)
            c = model.condition(torch.tensor(split.control[rows]), torch.tensor(split.law[rows]))  # (n, T, D)
            clips, conditions = (torch.cat([x[:, t : t + length] for t in starts]) for x in (z, c))  # grouped by start
            predicted = unroll(model, clips[:, :history], conditions, steps)  # (S n, K, ...)
            for name, guess in (("errors", predicted), ("unchanged", clips[:, history - 1 : history])):
                error = (guess - clips[:, history:]).square().flatten(2).mean(dim=2)  # (S n, K)
                parts[name].append(error.reshape(len(starts), len(rows), steps).mean(dim=0).double().numpy())
            bar.update(len(rows))
    variance = float(np.asarray(latents[numbers], np.float64).var(axis=(0, 1)).mean())
    return LatentErrors(
        **{name: np.concatenate(blocks_) for name, blocks_ in parts.items()},
        variance=variance,
        clips=len(numbers) * len(starts),
    )
