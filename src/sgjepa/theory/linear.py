"""The linear feature model and its one-step error (paper, app. "Setup" and "Local prediction error under a fixed gravity").

    φ_{t+1} = T(g) φ_t + ξ_{t+1}     features and a residual whose mean is zero given φ_t and g
    z_t = W φ_t,  W W' = I           the latent keeps some directions of φ
    ẑ_{t+1} = Â(g) z_t               the predictor, from the true latent (teacher forcing)
    s_t = C_phys φ_t,  ŝ = R ẑ       the physical state and a linear probe

Shapes: phi, xi (..., F); z (..., Z), Z <= F; W (..., Z, F); T (..., F, F); A_hat (..., Z, Z); R (..., S, Z); C_phys
(..., S, F).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sgjepa.theory.algebra import act, transpose


def P_W(W: np.ndarray) -> np.ndarray:
    """W'W, the orthogonal projector onto what the latent keeps (eq. projected-operators). (..., F, F)"""
    return transpose(W) @ W


def A_W(W: np.ndarray, T: np.ndarray) -> np.ndarray:
    """W T W', the transition of what is kept (eq. projected-operators). (..., Z, Z)"""
    return W @ T @ transpose(W)


def C_W(W: np.ndarray, T: np.ndarray) -> np.ndarray:
    """W T (I - P_W): how discarded features still move the next latent. Zero: predictively closed. (..., Z, F)"""
    return W @ T @ (np.eye(W.shape[-1]) - P_W(W))


def E_A(W: np.ndarray, T: np.ndarray, A_hat: np.ndarray) -> np.ndarray:
    """A_W - Â: the predictor's error on what is kept. (..., Z, Z)"""
    return A_W(W, T) - A_hat


def delta(W: np.ndarray, T: np.ndarray, A_hat: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """δ_t = E_A z_t + C_W φ_t, the local law-conditioned error (def. local-defect). (..., Z)"""
    return act(E_A(W, T, A_hat), act(W, phi)) + act(C_W(W, T), phi)


@dataclass(frozen=True)
class LatentError:
    """z_{t+1} - ẑ_{t+1} under teacher forcing, in its three parts (eq. tf-latent); each (..., Z)."""

    predictor: np.ndarray  # E_A z_t
    closure: np.ndarray  # C_W φ_t
    residual: np.ndarray  # W ξ_{t+1}

    @property
    def total(self) -> np.ndarray:
        return self.predictor + self.closure + self.residual


def teacher_forcing(W: np.ndarray, T: np.ndarray, A_hat: np.ndarray, phi: np.ndarray, xi: np.ndarray) -> LatentError:
    """What teacher forcing measures, taken apart (prop. teacher-forcing)."""
    return LatentError(predictor=act(E_A(W, T, A_hat), act(W, phi)), closure=act(C_W(W, T), phi), residual=act(W, xi))


@dataclass(frozen=True)
class PhysicalError:
    """s - R ẑ in two parts (eq. tf-physical, eq. linear-probe-specialization); each (..., S)."""

    readout: np.ndarray  # (C_phys - R W) φ: the probe's error on the true latent
    decoded: np.ndarray  # R (z - ẑ): what the same probe sees of the latent error; here the readout part has cancelled

    @property
    def total(self) -> np.ndarray:
        return self.readout + self.decoded


def physical_error(
    C_phys: np.ndarray, R: np.ndarray, W: np.ndarray, phi: np.ndarray, latent_error: np.ndarray
) -> PhysicalError:
    """The physical error at a feature state whose latent is missed by `latent_error` (..., Z)."""
    return PhysicalError(readout=act(C_phys - R @ W, phi), decoded=act(R, latent_error))
