"""The noise of a diffusion policy: how much is added at each step, and how controls are drawn back out of it.

The cosine schedule of Nichol and Dhariwal (2021): alpha_bar, the share of the signal that is left after step k of K, falls
as a squared cosine. The network predicts the noise epsilon; x0, what it says lies beneath, is clipped to ±1. Two samplers:

    ddpm   all K steps backwards, each drawn from the posterior q(x[k-1] | x[k], x0) with its own variance
    ddim   a few of the steps, evenly spread, with no noise but the first (eta 0)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError, unknown

Sampler: TypeAlias = Literal["ddpm", "ddim"]
Predict: TypeAlias = Callable[[Tensor, int], Tensor]  # x (N, A, C) at a step -> the noise in it
_OFFSET = 0.008  # s of the paper: a little noise also at the first step
_BETA = (1e-4, 0.999)  # others that have no lower end differ where K is in the hundreds


@dataclass(frozen=True)
class Diffusion:
    """K steps of noise, and how a trained network is usually sampled: all of them, or so many."""

    steps: int = 100
    sampler: Sampler = "ddpm"
    sampled: int = 100

    def __post_init__(self) -> None:
        check_bounds(self, steps=(1, 100_000), sampled=(1, 100_000))
        if self.sampler not in get_args(Sampler):
            raise unknown("sampler", self.sampler, get_args(Sampler))
        if self.sampled > self.steps or (self.sampler == "ddpm" and self.sampled != self.steps):
            most = "all" if self.sampler == "ddpm" else "at most"
            raise InputError(
                f"{self.sampler} takes {most} {self.steps} steps of a policy that learned so many, not {self.sampled}"
                + ("; ddim can take fewer" if self.sampler == "ddpm" else "")
            )

    @property
    def draws(self) -> int:
        """Normal numbers that a sample takes for each of its own."""
        return self.sampled if self.sampler == "ddpm" else 1


def betas(steps: int) -> np.ndarray:
    """The variance that each step adds, (K,) float64."""
    left = [math.cos((k / steps + _OFFSET) / (1 + _OFFSET) * math.pi / 2) ** 2 for k in range(steps + 1)]
    return np.clip(1 - np.divide(left[1:], left[:-1]), *_BETA)


def alpha_bars(steps: int) -> np.ndarray:
    """The share of the signal's variance that is left at each step, (K,) float64."""
    return np.cumprod(1 - betas(steps))


def add_noise(x0: Tensor, noise: Tensor, step: Tensor, steps: int) -> Tensor:
    """x0 and noise (B, A, C), step (B,) of 0 .. K - 1 -> x at that step, (B, A, C)."""
    left = torch.from_numpy(alpha_bars(steps)).to(x0.device)[step][:, None, None]
    return left.sqrt().to(x0) * x0 + (1 - left).sqrt().to(x0) * noise


def sample(predict: Predict, noise: Tensor, diffusion: Diffusion) -> Tensor:
    """Controls (N, A, C) in ±1, from normal numbers (N, draws, A, C)."""
    left = alpha_bars(diffusion.steps)
    x = noise[:, 0]
    if diffusion.sampler == "ddim":
        steps = visited(diffusion)
        for step, after in zip(steps, [*steps[1:], -1], strict=True):
            x = ddim_step(x, predict(x, step), left[step], left[after] if after >= 0 else 1.0)
        return x
    for draw, step in enumerate(reversed(range(diffusion.steps)), start=1):
        x, spread = ddpm_step(x, predict(x, step), step, diffusion.steps)
        if step > 0:
            x = x + spread * noise[:, draw]
    return x


def visited(diffusion: Diffusion) -> list[int]:
    """The steps that DDIM goes through, the noisiest first: evenly from the last to the first, rounded."""
    return [int(step) for step in np.linspace(diffusion.steps - 1, 0, diffusion.sampled).round()]


def ddpm_step(x: Tensor, epsilon: Tensor, step: int, steps: int) -> tuple[Tensor, float]:
    """Mean (N, A, C) and standard deviation of what lies before this step."""
    beta, left = betas(steps)[step], alpha_bars(steps)
    now, before = left[step], left[step - 1] if step > 0 else 1.0
    of_x0 = math.sqrt(before) * beta / (1 - now)
    of_x = math.sqrt(1 - beta) * (1 - before) / (1 - now)
    return of_x0 * beneath(x, epsilon, now) + of_x * x, math.sqrt(beta * (1 - before) / (1 - now))


def ddim_step(x: Tensor, epsilon: Tensor, now: float, before: float) -> Tensor:
    """What lies at the step with `before` of the signal, seen from the one with `now`, (N, A, C)."""
    return math.sqrt(before) * beneath(x, epsilon, now) + math.sqrt(1 - before) * epsilon


def beneath(x: Tensor, epsilon: Tensor, left: float) -> Tensor:
    """x0, clipped to ±1, (N, A, C)."""
    return ((x - math.sqrt(1 - left) * epsilon) / math.sqrt(left)).clamp(-1, 1)
