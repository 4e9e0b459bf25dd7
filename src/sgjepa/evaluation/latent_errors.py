"""Errors of latents on clips, as a result: beside those of a prediction that nothing changes, and over the variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap


@dataclass(frozen=True)
class LatentErrors:
    """Mean squared errors, per number of a latent. errors, unchanged: (episodes, K), each the mean over an episode's clips.

    unchanged: of the last true latent in the prediction's place. variance: of the latents, over all frames; a share of it
    is the scale on which two models can be compared.
    """

    errors: np.ndarray
    unchanged: np.ndarray
    variance: float
    clips: int  # of all episodes

    def __post_init__(self) -> None:
        assert self.errors.shape == self.unchanged.shape

    @property
    def steps(self) -> int:
        """K"""
        return int(self.errors.shape[1])

    def at(self, step: int) -> Interval:
        """After so many predictions, from 1, with the interval over episodes."""
        return bootstrap(self.errors[:, step - 1 : step])[0]

    def mean(self) -> Interval:
        """Over the predictions 1 to K."""
        return bootstrap(self.errors.mean(axis=1, keepdims=True))[0]

    def row(self) -> dict[str, Any]:
        """For a table."""
        last, mean, still = self.at(self.steps), self.mean(), self.unchanged.mean(axis=0)
        found: dict[str, Any] = {"clips": self.clips, "variance": self.variance, "k1": self.at(1).mean}
        found |= {f"k{self.steps}": last.mean, "low": last.low, "high": last.high}
        found |= {"mean": mean.mean, "mean_low": mean.low, "mean_high": mean.high}
        return found | {"unchanged_k1": still[0], f"unchanged_k{self.steps}": still[-1]}
