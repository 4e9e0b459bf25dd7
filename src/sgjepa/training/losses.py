"""Training objectives on latents (paper, "Training objective").

SG-JEPA:  L = Σ_k w_k mean (ẑ[t+k] - z[t+k])² + λ SIGReg(z)     k = 1..K, predictions fed back, w_k ∝ γ^(k-1)
LeWM:     L = mean (ẑ[t+1] - z[t+1])² + λ SIGReg(z)             teacher forced: every input is a true latent

Squared errors are means over batch and latent dimensions. The paper writes the sum over dimensions, but its λ belong to the
mean. Targets come from the same encoder and keep their gradient; SIGReg sees encoded latents only, never predictions, and
holds them apart.

A stretch of latents may be one window of H + K frames, as in the paper, or longer: with windows="dense" every window in it
is trained on, so an encoded frame serves up to H + K of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError, unknown
from sgjepa.models.rollout import Predicts, unroll
from sgjepa.training.distributed import Group, from_first_rank
from sgjepa.training.sigreg import draw_directions, sigreg

Windows: TypeAlias = Literal["clip", "dense"]


@dataclass(frozen=True)
class RolloutLoss:
    """SG-JEPA's objective: K steps fed back, discounted, and SIGReg."""

    steps: int = 5  # K
    discount: float = 0.95  # γ
    sigreg: float = 0.72  # λ; 0 skips the term
    windows: Windows = "clip"
    flatten: bool = False  # SIGReg over all frames of the batch at once, for batches too small for one test per time step

    def __post_init__(self) -> None:
        _check_windows(self.windows)
        check_bounds(self, steps=(1, 10_000), discount=(0, 1e6), sigreg=(0, 1e12))


@dataclass(frozen=True)
class OneStepLoss:
    """LeWM's objective: one step ahead from true latents at every position, and SIGReg."""

    sigreg: float = 0.09
    windows: Windows = "clip"
    flatten: bool = False
    steps: ClassVar[int] = 1  # K

    def __post_init__(self) -> None:
        _check_windows(self.windows)
        check_bounds(self, sigreg=(0, 1e12))


Loss: TypeAlias = RolloutLoss | OneStepLoss


def compute(
    loss: Loss,
    model: Predicts,
    z: Tensor,
    c: Tensor,
    generator: torch.Generator,
    *,
    history: int | None = None,
    starts: Sequence[int] | None = None,
    group: Group = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss to minimise, and its terms (without gradient, before weighting) by name.

    z: (B, T, ...) encoded latents     c: (B, T - 1 or more, D) conditions
    generator: SIGReg's directions are drawn from it, on the device of z
    history: H; needed for dense windows, otherwise the window is all of z and H = T - K
    starts: first frames of the windows to train on (default: all)
    group: the ranks that share the batch (see training/distributed.py); this rank's z is its part
    """
    if group is None and loss.sigreg and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise RuntimeError("several processes are training: pass their group, or SIGReg would see a part of the batch only")
    size = _window_size(loss, z.shape[1], history)
    if starts is None:
        starts = range(z.shape[1] - size + 1)
    z_windows, c_windows = cut_windows(z, size, starts), cut_windows(c, size - 1, starts)
    if isinstance(loss, RolloutLoss):
        name, error = "rollout", rollout_loss(model, z_windows, c_windows, loss.steps, loss.discount)
    else:
        name, error = "one_step", one_step_loss(model, z_windows, c_windows)
    total, parts = error, {name: error.detach()}
    if loss.sigreg:
        flat = z.flatten(2)  # (B, T, D)
        directions = from_first_rank(draw_directions(flat.shape[2], generator), group)
        regulariser = sigreg(flat, directions, flatten=loss.flatten, group=group)
        total, parts["sigreg"] = total + loss.sigreg * regulariser, regulariser.detach()
    return total, {"loss": total.detach(), **parts}


def rollout_weights(discount: float, steps: int) -> Tensor:
    """w_k = γ^(k-1) / Σ_j γ^(j-1), shape (K,)."""
    powers = discount ** torch.arange(steps, dtype=torch.float64)
    return (powers / powers.sum()).float()


def rollout_loss(model: Predicts, z: Tensor, c: Tensor, steps: int, discount: float) -> Tensor:
    """Discounted error of a rollout from the first H latents; z (B, H + K, ...), c (B, H + K - 1, D)."""
    history = z.shape[1] - steps
    predicted = unroll(model, z[:, :history], c, steps)  # (B, K, ...)
    errors = _squared_error(predicted, z[:, history:])  # (K,), fp32
    return (
        errors * rollout_weights(discount, steps).to(z.device)
    ).sum()  # not a product of matrices: autocast would round it


def one_step_loss(model: Predicts, z: Tensor, c: Tensor) -> Tensor:
    """Teacher-forced error at every position; z (B, H + 1, ...), c (B, H, D)."""
    return _squared_error(model.predict(z[:, :-1], c), z[:, 1:]).mean()


def cut_windows(x: Tensor, size: int, starts: Sequence[int]) -> Tensor:
    """x[:, s : s + size] for each start s, stacked into the batch: (B, T, ...) -> (B · len(starts), size, ...)."""
    if list(starts) == [0]:
        return x[:, :size]
    index = torch.tensor(starts, device=x.device)[:, None] + torch.arange(size, device=x.device)  # (N, size)
    # index_select, not indexing: its backward is a plain index_add
    return x.index_select(1, index.flatten()).reshape(-1, size, *x.shape[2:])


def _squared_error(predicted: Tensor, target: Tensor) -> Tensor:
    """Mean over batch and latent dimensions in fp32, (B, K, ...) -> (K,)."""
    return (predicted.float() - target.float()).square().flatten(2).mean(dim=(0, 2))


def _check_windows(name: str) -> None:
    if name not in get_args(Windows):
        raise unknown("kind of windows", name, get_args(Windows))


def _window_size(loss: Loss, frames: int, history: int | None) -> int:
    """Frames per window, or an InputError that says why the stretch cannot be cut."""
    steps = loss.steps
    if loss.windows == "dense":
        if history is None:
            raise InputError("dense windows need the history H")
        size = history + steps
    else:
        size = frames
        if history is not None and history + steps != frames:
            raise InputError(f"one window of history {history} and {steps} steps is not {frames} frames; use dense windows")
    if not steps < size <= frames:
        raise InputError(f"a window of {size} frames with {steps} predicted does not fit into {frames} frames")
    return size
