"""Contact changes the branch, and a continuous change of branch is a hinge (paper, app. "Regime changes and contact")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sgjepa.theory.linear import act


def branch_defect(W: np.ndarray, Ts: Sequence[np.ndarray], As: Sequence[np.ndarray]) -> np.ndarray:
    """W T_{h-1}···T_0 - A_{h-1}···A_0 W along a shared sequence of branches. W (..., Z, F) -> (..., Z, F)"""
    truth, model = W, W
    for T in reversed(Ts):
        truth = truth @ T
    for A in As:
        model = A @ model
    return truth - model


def branch_telescope(W: np.ndarray, Ts: Sequence[np.ndarray], As: Sequence[np.ndarray]) -> np.ndarray:
    """Σ_j A_{h-1}···A_{j+1} (W T_j - A_j W) T_{j-1}···T_0, which equals `branch_defect` (lem. hybrid-telescope)."""
    terms = []
    for j in range(len(Ts)):
        term = W @ Ts[j] - As[j] @ W
        for A in As[j + 1 :]:
            term = A @ term
        for T in reversed(Ts[:j]):
            term = term @ T
        terms.append(term)
    return np.sum(terms, axis=0)


@dataclass(frozen=True)
class Hinge:
    """F(x) = A x + c + u (a'x - b)_+ (eq. hinge-form)."""

    A: np.ndarray  # (m, d) the branch a'x <= b
    c: np.ndarray  # (m,)
    u: np.ndarray  # (m,) the change of slope across the boundary; zero: no event for these outputs
    a: np.ndarray  # (d,)
    b: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(..., d) -> (..., m)"""
        return act(self.A, x) + self.c + self.u * np.maximum(x @ self.a - self.b, 0)[..., None]


def hinge_of_branches(A_minus: np.ndarray, c_minus: np.ndarray, A_plus: np.ndarray, c_plus: np.ndarray) -> Hinge | None:
    """The hinge between two affine branches, from the branches alone; None if they do not join continuously.

    Continuity forces A_+ - A_- = u a' and c_+ - c_- = -u b (thm. event-hinge, eq. hinge-linear-change): rank one, and
    in one direction. a comes back with unit length and its largest entry positive; if that is the other side's normal,
    the branches change places.
    """
    slope, offset = A_plus - A_minus, c_plus - c_minus
    left, singular, right = np.linalg.svd(slope)
    size = np.abs(A_minus).max() + np.abs(A_plus).max() + np.abs(c_minus).max() + np.abs(c_plus).max()
    if singular[0] <= 1e-9 * size or (len(singular) > 1 and singular[1] > 1e-9 * size):
        return None
    a, u = right[0], left[:, 0] * singular[0]
    if a[np.abs(a).argmax()] < 0:
        a, u = -a, -u
    b = -float(offset @ u / (u @ u))
    if np.abs(offset + u * b).max() > 1e-9 * size:
        return None
    return Hinge(A_minus, c_minus, u, a, b)


def fit_hinge(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: float) -> Hinge:
    """Fit u and the lower branch by least squares on x, 1 and the hinge, for a known boundary. x (n, d), y (n, m)"""
    hinge = np.maximum(x @ a - b, 0)
    design = np.column_stack([x, np.ones(len(x)), hinge])
    weights = np.linalg.lstsq(design, y, rcond=None)[0]
    return Hinge(weights[:-2].T, weights[-2], weights[-1], a, b)


def affine_misfit(x: np.ndarray, y: np.ndarray) -> float:
    """The largest error of the best affine fit: zero only if affine features suffice. x (n, d), y (n, m)"""
    design = np.column_stack([x, np.ones(len(x))])
    weights = np.linalg.lstsq(design, y, rcond=None)[0]
    return float(np.abs(design @ weights - y).max())


def clipped_height(g: np.ndarray, a: float, b: float) -> np.ndarray:
    """max(a - b g, 0), the height at a fixed time above a floor (cor. ballistic-hinge)."""
    return np.maximum(a - b * np.asarray(g, float), 0)


def gravity_hinge(g: np.ndarray, a: float, b: float) -> np.ndarray:
    """b (g_c - g)_+ with g_c = a/b, the height of `clipped_height`: affine on either side of g_c, not across."""
    return b * np.maximum(a / b - np.asarray(g, float), 0)
