"""Which one-step defects a multi-step loss minds (paper, app. "Why multi-step composition can change the learned
representation").

Shapes: W (..., Z, F); T (..., F, F); A (..., Z, Z); Sigma (..., F, F), the second moment of φ; weights (K,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sgjepa.theory.algebra import kron, power, powers, root, transpose


def rollout_weights(K: int, gamma: float) -> np.ndarray:
    """w_k = γ^(k-1) / Σ_j γ^(j-1), the training loss's (app. "Setup"). (K,)"""
    w = gamma ** np.arange(K, dtype=float)
    return w / w.sum()


def D(W: np.ndarray, T: np.ndarray, A: np.ndarray, h: int) -> np.ndarray:
    """D_h = W T^h - A^h W, by how much encoding and evolving fail to commute (eq. h-step-defect). (..., Z, F)"""
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
    """How differently two horizon profiles weigh defects of equal training cost (thm. profile-mismatch)."""

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
