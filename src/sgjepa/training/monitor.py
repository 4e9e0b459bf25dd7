"""Signs of collapse: effective rank and spread of the latents (paper, eq. sigreg-effective-rank), and what leaves them."""

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


class Watch:
    """Notices what a probe could once read and cannot any more; says it once per target.

    Not for a target that was never there, nor for one whose error wavers: it must have been below READ and now be above
    LOST and twice its best.
    """

    READ, LOST = 0.3, 0.6  # NMSE

    def __init__(self) -> None:
        self._best: dict[str, float] = {}
        self._said: set[str] = set()

    def see(self, readable: dict[str, float]) -> list[str]:
        """Probe errors of one validation by target; returns what a person should know."""
        words = []
        for name, error in readable.items():
            best = self._best[name] = min(error, self._best.get(name, math.inf))
            if best < self.READ and error > max(self.LOST, 2 * best) and name not in self._said:
                self._said.add(name)
                words.append(
                    f"{name} is leaving the latents: its probe error rose from {best:.2f} to {error:.2f}; "
                    f"raise the weight of SIGReg"
                )
        return words
