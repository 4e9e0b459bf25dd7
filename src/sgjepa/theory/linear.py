"""Matrix algebra in the paper's notation, the linear setup, the local defect, and the errors under teacher forcing.

Matrices and vectors may be stacks: leading axes "..." broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def transpose(M: np.ndarray) -> np.ndarray:
    """The transpose of the last two axes."""
    return np.swapaxes(M, -1, -2)


def act(M: np.ndarray, x: np.ndarray) -> np.ndarray:
    """M x for M (..., m, n) and x (..., n)."""
    return np.einsum("...mn,...n->...m", M, x)


def power(M: np.ndarray, h: int) -> np.ndarray:
    """M^h, with M^0 = I: the discrete semigroup S_g(h) of eq. semigroup-family."""
    return np.linalg.matrix_power(M, h)


def powers(M: np.ndarray, h: int) -> list[np.ndarray]:
    """I, M, ..., M^(h-1), each from the one before."""
    matrices = [np.broadcast_to(np.eye(M.shape[-1]), M.shape)]
    for _ in range(h - 1):
        matrices.append(matrices[-1] @ M)
    return matrices


def vec(X: np.ndarray) -> np.ndarray:
    """Columns on top of each other, (..., m, n) -> (..., n·m), so that vec(L X R) = (R' ⊗ L) vec(X)."""
    return transpose(X).reshape(*X.shape[:-2], -1)


def kron(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A ⊗ B of stacks, (..., m, n), (..., p, q) -> (..., m·p, n·q)."""
    product = np.einsum("...mn,...pq->...mpnq", A, B)
    return product.reshape(*product.shape[:-4], A.shape[-2] * B.shape[-2], A.shape[-1] * B.shape[-1])


def norm(x: np.ndarray) -> np.ndarray:
    """The Euclidean norm of vectors (..., n)."""
    return np.linalg.norm(x, axis=-1)


def frobenius(M: np.ndarray) -> np.ndarray:
    """The Frobenius norm of matrices (..., m, n)."""
    return np.linalg.norm(M, axis=(-2, -1))


def spectral(M: np.ndarray) -> np.ndarray:
    """The largest singular value, ‖M‖_2, of matrices (..., m, n)."""
    return np.linalg.svd(M, compute_uv=False)[..., 0]


def root(M: np.ndarray) -> np.ndarray:
    """The symmetric square root of a positive semidefinite matrix (..., m, m)."""
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.maximum(values, 0))[..., None, :]) @ transpose(vectors)


def P_W(W: np.ndarray) -> np.ndarray:
    """W'W, the orthogonal projector onto the features that the latent keeps (eq. projected-operators). (..., F, F)"""
    return transpose(W) @ W


def A_W(W: np.ndarray, T: np.ndarray) -> np.ndarray:
    """W T W', the transition of the kept features (eq. projected-operators). (..., Z, Z)"""
    return W @ T @ transpose(W)


def C_W(W: np.ndarray, T: np.ndarray) -> np.ndarray:
    """W T (I - P_W), the effect of discarded features on the next latent. Zero: predictively closed. (..., Z, F)"""
    return W @ T @ (np.eye(W.shape[-1]) - P_W(W))


def E_A(W: np.ndarray, T: np.ndarray, A_hat: np.ndarray) -> np.ndarray:
    """A_W - Â, the predictor's error on the kept features. (..., Z, Z)"""
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
    """The teacher-forced latent error, decomposed into its three parts (prop. teacher-forcing)."""
    return LatentError(predictor=act(E_A(W, T, A_hat), act(W, phi)), closure=act(C_W(W, T), phi), residual=act(W, xi))


@dataclass(frozen=True)
class PhysicalError:
    """s - R ẑ in two parts (eq. tf-physical, eq. linear-probe-specialization); each (..., S)."""

    readout: np.ndarray  # (C_phys - R W) φ: the probe's error on the true latent
    decoded: np.ndarray  # R (z - ẑ): the latent error as read by the same probe; here the readout part has cancelled

    @property
    def total(self) -> np.ndarray:
        return self.readout + self.decoded


def physical_error(
    C_phys: np.ndarray, R: np.ndarray, W: np.ndarray, phi: np.ndarray, latent_error: np.ndarray
) -> PhysicalError:
    """The physical error at a feature state whose latent is missed by `latent_error` (..., Z)."""
    return PhysicalError(readout=act(C_phys - R @ W, phi), decoded=act(R, latent_error))
