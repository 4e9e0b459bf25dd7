"""The one sliding-window recursion: the loss, the evaluation, the planner, the studies and the viewer all call it."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from sgjepa.core.errors import InputError


class Predicts(Protocol):
    """Position t of the answer is the latent at t + 1."""

    def predict(self, z: Tensor, c: Tensor) -> Tensor: ...


def rollout(model: Predicts, z: Tensor, c: Tensor, steps: int, history: int) -> Tensor:
    """Extend z by `steps` latents; each prediction enters the window of the next.

    z: (B, T, ...) encoded latents     c: (B, T + steps - 1, D) or longer, c[t] leads from frame t to t + 1
    returns (B, T + steps, ...), the given latents first. Nothing is detached: the gradient runs through all steps.
    """
    needed = z.shape[1] + steps - 1
    if c.shape[1] < needed:
        raise InputError(f"{steps} steps from {z.shape[1]} latents need {needed} conditions, got {c.shape[1]}")
    for _ in range(steps):
        t = z.shape[1]
        window = slice(max(0, t - history), t)
        z = torch.cat([z, model.predict(z[:, window], c[:, window])[:, -1:]], dim=1)
    return z
