"""Many futures of one past: what a planner asks of a world model.

N candidates share E pasts of T true latents and differ in their controls from the last true frame on. A window slides as
in `models.rollout.rollout`, so the answers are the same up to rounding. But what a window makes of the frames before the
last true one is the same for all N candidates, and predictors that have their own way (predictors/futures.py) compute it
once: of H = 10 frames and P = 5 predictions the plain way makes 50 tokens for every candidate, the other 15.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.models.rollout import Predicts, rollout


def imagine(model: Predicts, z: Tensor, past: Tensor, c: Tensor, history: int) -> Tensor:
    """z (E, T, ...), past (E, T - 1, D): conditions between them, c (E, N, P, D): from the last true frame on, for each
    candidate. Returns the P latents that follow, (E, N, P, ...). history: H, the longest window."""
    if past.shape[1] != z.shape[1] - 1 or len(c) != len(z):
        raise InputError(
            f"{z.shape[1]} latents of {len(z)} pasts need {z.shape[1] - 1} conditions between them and futures of as many "
            f"pasts, got {past.shape[1]} and {len(c)}"
        )
    own: Callable[[Tensor, Tensor, Tensor], Tensor] | None = getattr(model, "imagine", None)
    if own is not None and z.shape[1] <= history:
        return own(z, past, c)
    return imagine_plain(model, z, past, c, history)


def imagine_plain(model: Predicts, z: Tensor, past: Tensor, c: Tensor, history: int) -> Tensor:
    """The same, every candidate by itself."""
    count, steps = c.shape[1:3]
    rows = z.repeat_interleave(count, dim=0)
    conditions = torch.cat([past.repeat_interleave(count, dim=0), c.flatten(0, 1)], dim=1)
    found = rollout(model, rows, conditions, steps, history)[:, z.shape[1] :]
    return found.reshape(len(z), count, *found.shape[1:])
