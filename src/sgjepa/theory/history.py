"""A predictor that reads H latents and actions is a one-step system on the stacked history (paper, app. "Relating the theory
to the history-based predictor").

    X_{t+1} = 𝕋 X_t + 𝔹 a_t + 𝕁 ξ_{t+1}     X stacks φ_{t-H+1} ... φ_t, oldest first
    Ẑ_{t+1} = 𝔸 Ẑ_t + 𝔻 a_t,   Ẑ_t = 𝕎 X_t    both start from the same true context

Shapes: X (..., H·F), Z (..., H·Z), a (..., h, N), xi (..., h, F); an update row reads the whole stack and writes the
newest block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sgjepa.theory.horizon import G
from sgjepa.theory.linear import act, power, transpose


def companion(row: np.ndarray) -> np.ndarray:
    """The matrix that shifts the history by one and appends row @ history. row (..., d, H·d) -> (..., H·d, H·d)"""
    d, length = row.shape[-2:]
    shift = np.broadcast_to(np.eye(length)[d:], (*row.shape[:-2], length - d, length))
    return np.concatenate([shift, row], axis=-2)


def newest(H: int, d: int, L: int = 1) -> np.ndarray:
    """P_{H,L}, the selector of the newest L blocks (eq. history-selector); its transpose inserts them. (L·d, H·d)"""
    return np.eye(H * d)[(H - L) * d :]


@dataclass(frozen=True)
class Companion:
    """The true and the predicted history systems at one gravity (eq. true-companion, eq. predicted-companion)."""

    H: int
    W: np.ndarray  # (Z, F) encoder of one frame
    T: np.ndarray  # (H·F, H·F) 𝕋
    B: np.ndarray  # (H·F, N) 𝔹
    A: np.ndarray  # (H·Z, H·Z) 𝔸
    D: np.ndarray  # (H·Z, N) 𝔻

    @property
    def stacked_W(self) -> np.ndarray:
        """𝕎 = I_H ⊗ W (eq. history-state)."""
        return np.kron(np.eye(self.H), self.W)

    @property
    def J(self) -> np.ndarray:
        """𝕁_ξ, which puts the new residual into the last feature block."""
        return newest(self.H, self.W.shape[1]).T


def build(W: np.ndarray, T: np.ndarray, B: np.ndarray, A: np.ndarray, D: np.ndarray) -> Companion:
    """The systems from the update rows of their newest blocks: T (F, H·F), B (F, N), A (Z, H·Z), D (Z, N)."""
    latent, features = W.shape
    H = T.shape[1] // features
    into_features, into_latent = newest(H, features).T, newest(H, latent).T
    return Companion(H, W, companion(T), into_features @ B, companion(A), into_latent @ D)


def flow(step: Callable[[np.ndarray, np.ndarray], np.ndarray], Z: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Φ^(k)(Z; a_t ... a_{t+k-1}) of any one-step map, linear or not; actions (k, N).

    Φ^(k+l) is Φ^(l) after Φ^(k), each with its own actions (eq. controlled-composition).
    """
    for action in actions:
        Z = step(Z, action)
    return Z


def roll(system: Companion, X: np.ndarray, actions: np.ndarray, xi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Z_{t+h} of the truth and Ẑ_{t+h}, one step at a time; both (..., H·Z)."""
    Z_hat = act(system.stacked_W, X)
    for j in range(actions.shape[-2]):
        X = act(system.T, X) + act(system.B, actions[..., j, :]) + act(system.J, xi[..., j, :])
        Z_hat = act(system.A, Z_hat) + act(system.D, actions[..., j, :])
    return act(system.stacked_W, X), Z_hat


@dataclass(frozen=True)
class ErrorMaps:
    """The linear maps from context, actions and residuals to the newest L latents' error at horizon h."""

    D: np.ndarray  # (L·Z, H·F) 𝔇_h (eq. history-defect)
    F: np.ndarray  # (h, L·Z, N) 𝔉_{h,j} (eq. action-defect)
    N: np.ndarray  # (h, L·Z, F) 𝔑_{h,j} (eq. history-residual-map)

    @property
    def row(self) -> np.ndarray:
        """𝔐_h, for the stack V of context, h actions and h residuals. (L·Z, H·F + h·N + h·F)"""
        return np.concatenate([self.D, *self.F, *self.N], axis=-1)


def error_maps(system: Companion, h: int, L: int = 1) -> ErrorMaps:
    """The error maps of the newest latent (L = 1, the rollout loss) or of a probe's window of L latents."""
    P, W = newest(system.H, len(system.W), L), system.stacked_W
    F, N = [], []
    for j in range(h):
        T_rest, A_rest = power(system.T, h - 1 - j), power(system.A, h - 1 - j)
        F.append(P @ (W @ T_rest @ system.B - A_rest @ system.D))
        N.append(P @ W @ T_rest @ system.J)
    return ErrorMaps(P @ (W @ power(system.T, h) - power(system.A, h) @ W), np.stack(F), np.stack(N))


def stack(X: np.ndarray, actions: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """V_{t,h}: context, actions and residuals in one vector. (..., H·F + h·N + h·F)"""
    flat = [part.reshape(*part.shape[:-2], -1) for part in (actions, xi)]
    return np.concatenate([X, *flat], axis=-1)


def finite_history_error(maps: ErrorMaps, X: np.ndarray, actions: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """z_{t+h} - ẑ_{t+h} = 𝔇_h X + Σ_j 𝔉_{h,j} a_{t+j} + Σ_j 𝔑_{h,j} ξ_{t+j+1} (thm. finite-history). (..., L·Z)"""
    return act(maps.row, stack(X, actions, xi))


def second_moment(maps: ErrorMaps, V: np.ndarray) -> float:
    """E‖z - ẑ‖² = tr(𝔐 E[VV'] 𝔐') (eq. finite-history-second-moment). V: (n, ...) draws of the stack, any dependence"""
    return float(np.trace(maps.row @ (V.T @ V / len(V)) @ maps.row.T))


def companion_gramian(system: Companion, Sigma: np.ndarray, weights: np.ndarray, L: int = 1) -> np.ndarray:
    """G_K^(P) of the loss on the newest L blocks (eq. companion-gramian). Sigma: (H·F, H·F), E[XX']"""
    P = newest(system.H, len(system.W), L)
    return G(system.A, system.T, Sigma, weights, output=transpose(P) @ P)


def admissible(H: int, Z: int, F: int) -> np.ndarray:
    """Orthonormal columns that span S_adm, the defects whose shift rows match (eq. admissible-companion-defects).

    (H·F·H·Z, H·F·Z); on them the newest-block Gramian is positive definite, elsewhere it need not be.
    """
    return np.kron(np.eye(H * F), newest(H, Z).T)
