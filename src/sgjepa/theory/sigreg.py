"""SIGReg near identity covariance, and its bias in a finite batch (paper, app. "SIGReg and its limits", prop. sigreg).

C = I + Δ is the covariance of Gaussian latents of D dimensions, B the batch, t_l and ω_l the knots and weights of the
training code.
"""

from __future__ import annotations

import numpy as np


def knots() -> tuple[np.ndarray, np.ndarray]:
    """t = 0, 3/16, ..., 3 and ω = doubled trapezoid times exp(-t²/2), (17,) each."""
    t = np.linspace(0, 3, 17)
    weights = np.full(17, 6 / 16)
    weights[[0, -1]] /= 2
    return t, weights * np.exp(-(t**2) / 2)


def variances(C: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """v = a'Ca along unit directions. C (D, D), directions (D, M) -> (M,)"""
    return np.einsum("dm,de,em->m", directions, C, directions)


def population(v: np.ndarray, B: int) -> np.ndarray:
    """B Σ ω (exp(-t²v/2) - exp(-t²/2))², the statistic if the batch were the whole Gaussian. (...) -> (...)"""
    t, weights = knots()
    gap = np.exp(-(t**2) * np.asarray(v)[..., None] / 2) - np.exp(-(t**2) / 2)
    return B * gap**2 @ weights


def expected(v: np.ndarray, B: int) -> np.ndarray:
    """The mean of the statistic over batches of B independent samples with variance v (eq. sigreg-finite-batch). (...)"""
    t, weights = knots()
    return population(v, B) + (1 - np.exp(-(t**2) * np.asarray(v)[..., None])) @ weights


def spherical_moments(Delta: np.ndarray) -> tuple[float, float]:
    """E[η] and E[η²] of η = a'Δa over directions spread evenly on the sphere (eq. spherical-moments)."""
    d, trace = len(Delta), float(np.trace(Delta))
    return trace / d, (2 * float(np.sum(Delta**2)) + trace**2) / (d * (d + 2))


def _curvature() -> float:
    """Σ ω t⁴/4 exp(-t²)."""
    t, weights = knots()
    return float(weights @ (t**4 / 4 * np.exp(-(t**2))))


def kappa(B: int, d: int) -> float:
    """κ_{B,d} = B/(d(d+2)) Σ ω t⁴/4 exp(-t²) (eq. sigreg-kappa)."""
    return B / (d * (d + 2)) * _curvature()


def kappa_emp(B: int, d: int) -> float:
    """κ with B - 2 in place of B: two samples' worth of curvature goes to the bias of the batch. Positive only for B > 2."""
    return (B - 2) / (d * (d + 2)) * _curvature()


def beta(d: int) -> float:
    """β_{1,d} = (1/d) Σ ω t² exp(-t²), the slope that pulls a finite batch to smaller variance; no B in it."""
    t, weights = knots()
    return float(weights @ (t**2 * np.exp(-(t**2)))) / d


def C_0() -> float:
    """Σ ω (1 - exp(-t²)) = 1.0525, the mean at exactly N(0, I), whatever B."""
    t, weights = knots()
    return float(weights @ (1 - np.exp(-(t**2))))


def population_expansion(Delta: np.ndarray, B: int) -> float:
    """κ (2‖Δ‖_F² + (tr Δ)²), to third order the population functional (eq. sigreg-population-expansion)."""
    d = len(Delta)
    return kappa(B, d) * (2 * float(np.sum(Delta**2)) + float(np.trace(Delta)) ** 2)


def empirical_expansion(Delta: np.ndarray, B: int) -> float:
    """C_0 + β tr Δ + κ_emp (2‖Δ‖_F² + (tr Δ)²) (eq. sigreg-empirical-expansion)."""
    d, trace = len(Delta), float(np.trace(Delta))
    return C_0() + beta(d) * trace + kappa_emp(B, d) * (2 * float(np.sum(Delta**2)) + trace**2)


def favoured_variance(B: int) -> float:
    """The common variance v at which the expected statistic is least; below 1, and towards 1 as B grows. B > 1.

    One bisection on the derivative; to first order in 1/B it is 1 - Σωt²e^(-t²) / (2 (B - 2) Σωt⁴/4 e^(-t²)), in any
    dimension.
    """
    t, weights = knots()
    low, high = 0.0, 1.0
    for _ in range(60):
        v = (low + high) / 2
        rate = -(t**2) * np.exp(-(t**2) * v / 2) * B * (np.exp(-(t**2) * v / 2) - np.exp(-(t**2) / 2))
        slope = weights @ (rate + t**2 * np.exp(-(t**2) * v))
        low, high = (v, high) if slope < 0 else (low, v)
    return (low + high) / 2
