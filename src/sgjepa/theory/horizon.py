"""The one-step defects that a multi-step loss weighs most, and how that reverses a ranking of representations (paper, app.
"Why multi-step composition can change the learned representation").

Shapes: W (..., Z, F); T (..., F, F); A (..., Z, Z); Sigma (..., F, F), the second moment of φ; weights (K,). The ranking
reversal, at the end, is in exact fractions: two latents, P and F, each of two modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sgjepa.theory.linear import kron, power, powers, root, transpose


def rollout_weights(K: int, gamma: float) -> np.ndarray:
    """w_k = γ^(k-1) / Σ_j γ^(j-1), the training loss's (app. "Setup"). (K,)"""
    w = gamma ** np.arange(K, dtype=float)
    return w / w.sum()


def D(W: np.ndarray, T: np.ndarray, A: np.ndarray, h: int) -> np.ndarray:
    """D_h = W T^h - A^h W, the failure of encoding and evolving to commute (eq. h-step-defect). (..., Z, F)"""
    return W @ power(T, h) - power(A, h) @ W


def telescope(D_1: np.ndarray, T: np.ndarray, A: np.ndarray, h: int) -> np.ndarray:
    """Σ_j A^(h-1-j) D_1 T^j, which is D_h (thm. closure-geometry, eq. closure-telescope). (..., Z, F)"""
    return np.sum([a @ D_1 @ t for a, t in zip(reversed(powers(A, h)), powers(T, h), strict=True)], axis=0)


def M(A: np.ndarray, T: np.ndarray, h: int) -> np.ndarray:
    """M_h = Σ_j (T^j)' ⊗ A^(h-1-j): vec(D_h) = M_h vec(D_1) (eq. defect-propagator). (..., F·Z, F·Z)"""
    return np.sum([kron(transpose(t), a) for a, t in zip(reversed(powers(A, h)), powers(T, h), strict=True)], axis=0)


def G(A: np.ndarray, T: np.ndarray, Sigma: np.ndarray, weights: np.ndarray, output: np.ndarray | None = None) -> np.ndarray:
    """G_K = Σ_k w_k M_k' (Σ_φ ⊗ I) M_k: the loss is vec(D_1)' G_K vec(D_1) (eq. closure-gramian). (..., F·Z, F·Z)

    output: (Z, Z) instead of I, the metric on the latent; P_H'P_H for a loss on the newest block (eq. companion-gramian)
    """
    metric = kron(Sigma, np.eye(A.shape[-1]) if output is None else output)
    total = 0.0
    for k, w in enumerate(weights, start=1):
        M_k = M(A, T, k)
        total = total + w * transpose(M_k) @ metric @ M_k
    return np.asarray(total)


def loss(W: np.ndarray, T: np.ndarray, A: np.ndarray, Sigma: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_k w_k tr(D_k Σ_φ D_k'), horizon by horizon: the left side of eq. closure-quadratic. (...)"""
    total = 0.0
    for k, w in enumerate(weights, start=1):
        D_k = D(W, T, A, k)
        total = total + w * np.trace(D_k @ Sigma @ transpose(D_k), axis1=-2, axis2=-1)
    return np.asarray(total)


@dataclass(frozen=True)
class Mismatch:
    """The difference in how two horizon profiles weigh defects of equal training cost (thm. profile-mismatch)."""

    Q: np.ndarray  # (n, n), G_tr^(-1/2) G_ev G_tr^(-1/2)
    ratio: float  # λ_max / λ_min, of Q compressed to the subspace
    cheapest: np.ndarray  # (n,) vec(defect) of training cost 1 whose evaluation cost is λ_min
    dearest: np.ndarray  # (n,) and λ_max


def profile_mismatch(G_tr: np.ndarray, G_ev: np.ndarray, subspace: np.ndarray | None = None) -> Mismatch:
    """The largest ratio between evaluation costs of defects with equal training cost, and the defects that attain it.

    G_tr: (n, n), positive definite   G_ev: (n, n)   subspace: (n, s), columns that span the allowed vec(defects); all
    by default
    """
    half = root(G_tr)
    back = np.linalg.inv(half)
    Q = back @ G_ev @ back
    Q = (Q + Q.T) / 2
    S = np.eye(len(Q)) if subspace is None else np.linalg.qr(half @ subspace)[0]  # in the whitened coordinate
    values, vectors = np.linalg.eigh(S.T @ Q @ S)
    low, high = S @ vectors[:, 0], S @ vectors[:, -1]
    ratio = float(values[-1] / values[0]) if values[0] > 0 else float("inf")
    return Mismatch(Q, ratio, back @ low, back @ high)


Modes = tuple[Fraction, Fraction]

P: Modes = (Fraction(2, 5), Fraction(4, 5))
F: Modes = (Fraction(3, 20), Fraction(3, 5))


def cost(modes: Modes, a: Fraction, h: int) -> Fraction:
    """‖D_h(W; a)‖_F² = ½ Σ (λ^h - a^h)² (eq. two-mode-cost)."""
    return sum(((mode**h - a**h) ** 2 for mode in modes), Fraction(0)) / 2


def best_one_step(modes: Modes) -> Fraction:
    """a = (λ + μ)/2, the minimiser at one step; its cost is (λ - μ)²/4."""
    return (modes[0] + modes[1]) / 2


def objective(modes: Modes, a: Fraction, gamma: Fraction) -> Fraction:
    """(‖D_1‖² + γ‖D_2‖²) / (1 + γ)."""
    return (cost(modes, a, 1) + gamma * cost(modes, a, 2)) / (1 + gamma)


def relaxed_costs(modes: Modes) -> tuple[Fraction, Fraction]:
    """The least one-step and two-step costs when each horizon may choose its own prediction: a lower bound for any a."""
    return (modes[0] - modes[1]) ** 2 / 4, (modes[0] ** 2 - modes[1] ** 2) ** 2 / 4


def sufficient_gamma(a: Fraction = Fraction(2, 5)) -> Fraction:
    """Above this γ even W_F's cost with the predictor `a` is below W_P's lower bound: full profiling prefers W_F."""
    one_step, two_steps = relaxed_costs(P)
    return (cost(F, a, 1) - one_step) / (two_steps - cost(F, a, 2))


def profiled(modes: Modes, gamma: float) -> tuple[float, float]:
    """min over a of the two-step objective in floating point, and the minimiser; for modes 0 < λ < μ.

    The derivative is twice 2γ a³ + (1 - γ(λ² + μ²)) a - (λ + μ)/2: one change of sign, one positive root, between λ and μ.
    """
    mode = np.array(modes, float)
    low, high = mode
    for _ in range(60):
        a = (low + high) / 2
        rises = 2 * gamma * a**3 + (1 - gamma * (mode @ mode)) * a > mode.sum() / 2
        low, high = (low, a) if rises else (a, high)
    one_step, two_steps = (np.sum((mode**h - a**h) ** 2) / 2 for h in (1, 2))
    return float((one_step + gamma * two_steps) / (1 + gamma)), float(a)


def crossing(low: float = 0.0, high: float = 1.0) -> float:
    """The γ at which full profiling changes from P to F, by bisection; the paper's sufficient condition lies above it."""
    for _ in range(60):
        middle = (low + high) / 2
        prefers_P = profiled(P, middle)[0] < profiled(F, middle)[0]
        low, high = (middle, high) if prefers_P else (low, middle)
    return (low + high) / 2
