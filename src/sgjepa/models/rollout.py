"""Windows that slide over latents: `rollout`, the one recursion that the loss, the evaluation and the studies all call, and
`one_step`, the same windows of true latents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from sgjepa.core.errors import InputError


class Predicts(Protocol):
    """A model with `predict`, whose output at position t is the latent at t + 1."""

    def predict(self, z: Tensor, c: Tensor, /) -> Tensor: ...


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


def unroll(model: Predicts, z: Tensor, c: Tensor, steps: int) -> Tensor:
    """The latents that `rollout` adds to z (B, H, ...), as (B, steps, ...), by the model's faster `unroll` if it has one."""
    own: Callable[[Tensor, Tensor, int], Tensor] | None = getattr(model, "unroll", None)
    if own is not None:
        return own(z, c, steps)
    return rollout(model, z, c, steps, history=z.shape[1])[:, z.shape[1] :]


def one_step(model: Predicts, z: Tensor, c: Tensor, history: int) -> Tensor:
    """Every frame predicted from the `history` true latents before it: the teacher-forced counterpart of `rollout`.

    z: (B, T, ...) encoded latents     c: (B, T - 1, D) or longer
    returns (B, T - history, ...); answer i is the prediction of frame history + i
    """
    ends = range(history, z.shape[1])
    # window by window: all windows in one batch gave the same numbers, and took twice the time for 200 episodes on a CPU
    return torch.cat([model.predict(z[:, t - history : t], c[:, t - history : t])[:, -1:] for t in ends], dim=1)
