"""Signs of collapse: effective rank and spread of the latents (paper, eq. sigreg-effective-rank)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def effective_rank(z: Tensor) -> float:
    """exp of the entropy of the covariance's normalised eigenvalues; z (N, D). Between 1 and D."""
    centred = (z - z.mean(dim=0)).double()
    values = torch.linalg.eigvalsh(centred.T @ centred).clamp(min=0)
    p = values / values.sum().clamp(min=1e-300)
    p = p[p > 0]
    return float(torch.exp(-(p * p.log()).sum())) if len(p) else 0.0


def latent_health(z: Tensor) -> dict[str, float]:
    """z (B, T, ...) -> effective rank, and the smallest and mean standard deviation over dimensions."""
    flat = z.detach().float().flatten(0, 1).flatten(1)  # (N, D)
    if not torch.isfinite(flat).all():
        return dict.fromkeys(("rank", "std_min", "std_mean"), math.nan)
    std = flat.std(dim=0)
    return {"rank": effective_rank(flat), "std_min": float(std.min()), "std_mean": float(std.mean())}


def warning(health: dict[str, float], dimensions: int) -> str | None:
    """What a person should know, or None."""
    if health["std_mean"] < 0.1:
        return f"latents are collapsing: mean standard deviation {health['std_mean']:.3f}; raise the weight of SIGReg"
    if health["rank"] < 0.05 * dimensions:
        return f"latents use few directions: effective rank {health['rank']:.1f} of {dimensions}; raise the weight of SIGReg"
    if health["std_min"] < 0.05:
        return f"a latent dimension is dead: its standard deviation is {health['std_min']:.3f}; raise the weight of SIGReg"
    return None
