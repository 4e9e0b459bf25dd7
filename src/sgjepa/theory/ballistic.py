"""Free flight is affine in gravity at every horizon (paper, prop. ballistic-affine)."""

from __future__ import annotations

import numpy as np

# T_g = T_1 + g T_2 on the state (p, v, 1): height, upward speed, and the constant


def T_ballistic(g: np.ndarray, dt: float) -> np.ndarray:
    """One step of length dt under gravity g on (p, v, 1). (...) -> (..., 3, 3)"""
    return T_ballistic_power(g, dt, 1)


def T_ballistic_power(g: np.ndarray, dt: float, h: int) -> np.ndarray:
    """T_g^h in closed form (eq. ballistic-h-step): one step of length h·dt. (...) -> (..., 3, 3)"""
    g = np.asarray(g, float)
    still, pull = ballistic_family(h * dt)
    return still + g[..., None, None] * pull


def ballistic_family(dt: float) -> np.ndarray:
    """The coefficients T_k of T_g = Σ_k ψ_k(g) T_k with ψ = (1, g). (2, 3, 3)"""
    return np.array([[[1, dt, 0], [0, 1, 0], [0, 0, 1]], [[0, 0, -(dt**2) / 2], [0, 0, -dt], [0, 0, 0]]], float)
