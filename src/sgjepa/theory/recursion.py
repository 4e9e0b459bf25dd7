"""The accumulation of local errors when predictions are fed back (paper, app. "Local errors under repeated composition").

Shapes as in `linear`; a path of h steps has phi (..., h + 1, F), xi (..., h, F), z and z_hat (..., h + 1, Z).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sgjepa.theory.linear import act, delta, norm, powers, spectral, transpose


@dataclass(frozen=True)
class Path:
    """The truth and the free rollout from the same start (eq. true-predicted-rollout)."""

    phi: np.ndarray
    z: np.ndarray
    z_hat: np.ndarray

    @property
    def e(self) -> np.ndarray:
        """e_j = z_j - ẑ_j, (..., h + 1, Z)."""
        return self.z - self.z_hat


def roll(W: np.ndarray, T: np.ndarray, A_hat: np.ndarray, phi_0: np.ndarray, xi: np.ndarray) -> Path:
    """Both systems, one step at a time. phi_0 (..., F), xi (..., h, F)"""
    phi, z_hat = [phi_0], [act(W, phi_0)]
    for j in range(xi.shape[-2]):
        phi.append(act(T, phi[-1]) + xi[..., j, :])
        z_hat.append(act(A_hat, z_hat[-1]))
    features = np.stack(phi, axis=-2)
    return Path(features, act(W[..., None, :, :], features), np.stack(z_hat, axis=-2))


def injected(W: np.ndarray, T: np.ndarray, A_hat: np.ndarray, phi: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """ε_j = δ_j + W ξ_{j+1}, the error that each step adds. phi (..., h, F), xi (..., h, F) -> (..., h, Z)"""
    W, T, A_hat = W[..., None, :, :], T[..., None, :, :], A_hat[..., None, :, :]
    return delta(W, T, A_hat, phi) + act(W, xi)


def exact_error(A_hat: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    """e_h = Σ_j Â^(h-1-j) ε_j (thm. exact-recursion, eq. exact-error-recursion). epsilon (..., h, Z) -> (..., Z)"""
    h = epsilon.shape[-2]
    terms = [act(A, epsilon[..., h - 1 - q, :]) for q, A in enumerate(powers(A_hat, h))]
    return np.sum(terms, axis=0)


def Gamma(R: np.ndarray, A_hat: np.ndarray, h: int) -> np.ndarray:
    """Γ_h = Σ_{q<h} ‖R Â^q‖_2, the physical rollout gain (eq. rollout-gain). (...)"""
    return np.sum([spectral(R @ A) for A in powers(A_hat, h)], axis=0)


@dataclass(frozen=True)
class CentralBound:
    """The three terms of eq. central-bound, (...) each; ‖s_h - ŝ_h‖ does not exceed their sum."""

    readout: np.ndarray  # ‖(C_phys - R W) φ_h‖
    law: np.ndarray  # Γ_h √L_law (B_z ε_op + B_φ ε_cl)
    residual: np.ndarray  # Σ_j ‖R Â^(h-1-j) W ξ_{j+1}‖

    @property
    def total(self) -> np.ndarray:
        return self.readout + self.law + self.residual


def central_bound(
    C_phys: np.ndarray,
    R: np.ndarray,
    W: np.ndarray,
    A_hat: np.ndarray,
    phi_h: np.ndarray,
    xi: np.ndarray,
    local: np.ndarray,
) -> CentralBound:
    """Pathwise physical error under an unseen gravity (thm. central-bound).

    phi_h: (..., F) the features at the horizon   xi: (..., h, F)   local: (...) from `coverage.local_bound` at this gravity
    """
    h = xi.shape[-2]
    noise = [norm(act(R @ A @ W, xi[..., h - 1 - q, :])) for q, A in enumerate(powers(A_hat, h))]
    return CentralBound(norm(act(C_phys - R @ W, phi_h)), Gamma(R, A_hat, h) * local, np.sum(noise, axis=0))


def second_moment(R: np.ndarray, A_hat: np.ndarray, S: np.ndarray) -> np.ndarray:
    """E‖R e_h‖² = Σ_ij tr(R Â^(h-1-i) S_ij Â^(h-1-j)' R') (eq. rollout-second-moment).

    S: (..., h, h, Z, Z), S_ij = E[ε_i ε_j']; second moments, not covariances, so nothing need be centred
    """
    h = S.shape[-4]
    carried = [R @ A for A in reversed(powers(A_hat, h))]  # carried[i] takes ε_i to the end
    total = 0.0
    for i in range(h):
        for j in range(h):
            total = total + np.trace(carried[i] @ S[..., i, j, :, :] @ transpose(carried[j]), axis1=-2, axis2=-1)
    return np.asarray(total)


def lipschitz_bound(L: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Σ_j L^(h-1-j) d_j, which ‖x̂_h - x_h‖ of any L-Lipschitz predictor does not exceed (eq. nonlinear-compounding).

    L: (...)   d: (..., h), d_j = ‖F̂(x_j) - F(x_j)‖ along the true path
    """
    h = d.shape[-1]
    return np.sum(np.asarray(L)[..., None] ** np.arange(h - 1, -1, -1) * d, axis=-1)
