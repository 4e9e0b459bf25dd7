"""Many futures of one past: what a planner asks of a world model.

N candidates share E pasts of T true latents and differ in their controls from the last true frame on. A window slides as
in `models.rollout.rollout`, so the answers are the same up to rounding. But what a window makes of the frames before the
last true one is the same for all N candidates, and predictors that have their own way (predictors/futures.py) compute it
once: of H = 10 frames and P = 5 predictions the plain way makes 50 tokens for every candidate, the other 15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.models.rollout import Predicts, rollout


class Imagined(Protocol):
    """Futures of pasts that are known."""

    def __call__(self, c: Tensor, /) -> Tensor:
        """Conditions (E, N, P, D) from the last true frame on, for each candidate -> the P latents that follow,
        (E, N, P, ...)."""


def imagination(model: Predicts, z: Tensor, past: Tensor, steps: int, history: int) -> Imagined:
    """All that can be known before there are candidates, for a search that asks again and again.

    z (E, T, ...), past (E, T - 1, D): conditions between them. steps: P. history: H, the longest window.
    """
    if past.shape[:2] != (len(z), z.shape[1] - 1):
        raise InputError(
            f"{z.shape[1]} latents of {len(z)} pasts need {z.shape[1] - 1} conditions between them, got {past.shape[1]} of "
            f"{len(past)}"
        )
    own: Callable[[Tensor, Tensor, int], Imagined | None] | None = getattr(model, "imagination", None)
    found = own(z, past, steps) if own is not None and z.shape[1] <= history else None
    return found or (lambda c: imagine_plain(model, z, past, c, history))


def imagine(model: Predicts, z: Tensor, past: Tensor, c: Tensor, history: int) -> Tensor:
    """The futures of one set of candidates: `imagination` for those who ask once."""
    if len(c) != len(z):
        raise InputError(f"futures of {len(c)} pasts were asked for, and there are {len(z)}")
    return imagination(model, z, past, c.shape[2], history)(c)


def imagine_plain(model: Predicts, z: Tensor, past: Tensor, c: Tensor, history: int) -> Tensor:
    """The same, every candidate by itself."""
    count, steps = c.shape[1:3]
    rows = z.repeat_interleave(count, dim=0)
    conditions = torch.cat([past.repeat_interleave(count, dim=0), c.flatten(0, 1)], dim=1)
    found = rollout(model, rows, conditions, steps, history)[:, z.shape[1] :]
    return found.reshape(len(z), count, *found.shape[1:])
