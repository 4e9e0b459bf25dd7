"""Forecasts of a model: true latents, then its own predictions fed back, read by a probe (paper, "Downstream evaluation").

frames   0 ........ 19 | 20 ............ 63        context 20: prediction h is frame 19 + h for every model
latents  encoded       | fed back, with the true controls and law
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sgjepa.evaluation.probes import Fitted
from sgjepa.models.base import FourMethods
from sgjepa.models.rollout import one_step, rollout

_TOKENS = 40_000  # latents rolled out at a time: at least 200 episodes of vectors, or a few of patch grids


@torch.no_grad()
def forecast(
    model: FourMethods,
    fitted: Fitted,
    z: Tensor,
    control: np.ndarray,
    law: np.ndarray,
    context: int,
    steps: int,
    history: int,
) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Probed states (B, 1 + steps, Y), from the last context frame on, and latent errors (B, steps), for each source.

    z (B, T, ...): true latents; the rollout starts from z[:, :context] only.
    """
    c = model.condition(torch.tensor(control), torch.tensor(law))
    predicted, rolled = imagine(model, fitted, z[:, :context], c, steps, history)
    true = z[:, : context + steps]
    window = slice(context - history, context + steps)
    stepped = one_step(model, z[:, window], c[:, window], history)
    first = context - fitted.config.window
    # the probe's windows hold as many predictions as in the rollout: sources differ only in the input of a prediction
    local = torch.cat([true[:, first:context], stepped], dim=1)
    return {
        "predicted": (predicted, latent_error(rolled, true, context)),
        "true": (fitted.read(model.features(true[:, first:])), None),
        "one_step": (fitted.read(model.features(local)), latent_error(stepped, true[:, context:], 0)),
    }


@torch.no_grad()
def imagine(model: FourMethods, fitted: Fitted, z: Tensor, c: Tensor, steps: int, history: int) -> tuple[np.ndarray, Tensor]:
    """Roll out from true latents z (B, context, ...).

    Returns probed states (B, 1 + steps, Y), from the last context frame on, and all latents (B, context + steps, ...).
    """
    rolled = rollout(model, z, c, steps, history)
    return fitted.read(model.features(rolled[:, z.shape[1] - fitted.config.window :])), rolled


def blocks(numbers: np.ndarray, latents: np.ndarray, frames: int) -> list[np.ndarray]:
    """Indices into `numbers` of the episodes that are rolled out together, limited by memory."""
    grid = int(np.prod(latents.shape[2:-1], dtype=int))  # tokens per frame
    return np.array_split(np.arange(len(numbers)), -(-len(numbers) * grid * frames // _TOKENS))


def latent_error(predicted: Tensor, true: Tensor, first: int) -> np.ndarray:
    """Mean squared error of each latent (B, T, ...) from frame `first` on: (B, T - first)."""
    error: np.ndarray = (predicted[:, first:] - true[:, first:]).square().flatten(2).mean(dim=2).double().numpy()
    return error
