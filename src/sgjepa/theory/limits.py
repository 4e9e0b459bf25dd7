"""What the coverage result does not promise (paper, app. "When the coverage result does not apply").

Low error on the training laws says something about an unseen one only if the training laws cover every direction of the
basis *and* the predictor uses that basis. Each function here builds the failure, or the price, when one of the two is
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def missing_directions(M: np.ndarray, tolerance: float = 1e-12) -> np.ndarray:
    """An orthonormal basis of ker(M_ψ), the combinations of ψ that training never sees. (m, m) -> (missing, m)"""
    values, vectors = np.linalg.eigh(M)
    return vectors[:, values <= tolerance * max(values[-1], 0)].T


def invisible_family(a: np.ndarray, E_0: np.ndarray) -> np.ndarray:
    """E(g) = (a'ψ(g)) E_0: no training error when a is a missing direction (prop. no-coverage). -> E_k (m, r, c)"""
    return a[:, None, None] * E_0


def interpolant(observed: Sequence[float], g_star: float) -> Callable[[float], float]:
    """q(g) = Π(g - g_i) / Π(g* - g_i): zero at every observed law, one at g*, analytic."""

    def q(g: float) -> float:
        return float(np.prod([(g - g_i) / (g_star - g_i) for g_i in observed]))

    return q


def another_predictor(
    A_0: Callable[[float], np.ndarray], Q: np.ndarray, observed: Sequence[float], g_star: float
) -> Callable[[float], np.ndarray]:
    """An analytic predictor equal to A_0 at every observed law and to A_0 + Q at g* (thm. conditioning-limit)."""
    q = interpolant(observed, g_star)
    return lambda g: A_0(g) + q(g) * Q


def approximate_basis_bound(L: np.ndarray, eps_basis: np.ndarray, remainder: np.ndarray) -> np.ndarray:
    """√L_law ε_basis + ‖ρ_E(g*)‖_F, which ‖E(g*)‖_F does not exceed (eq. approximate-basis-bound).

    eps_basis is the training error of the basis part alone; the observed one may be smaller, for the two parts may
    cancel there.
    """
    return np.sqrt(L) * eps_basis + remainder


def approximate_local_bound(
    local: np.ndarray, B_z: np.ndarray, rho_op: np.ndarray, B_phi: np.ndarray, rho_cl: np.ndarray
) -> np.ndarray:
    """The local bound plus B_z ‖ρ_op(g*)‖_F + B_φ ‖ρ_cl(g*)‖_F, for operators that follow the basis only nearly.

    local: from `coverage.local_bound`, with the training errors of the basis parts
    """
    return local + B_z * rho_op + B_phi * rho_cl
