"""Matrix algebra in the paper's notation, for stacks of matrices. Leading axes "..." broadcast."""

from __future__ import annotations

import numpy as np


def transpose(M: np.ndarray) -> np.ndarray:
    """Of the last two axes."""
    return np.swapaxes(M, -1, -2)


def act(M: np.ndarray, x: np.ndarray) -> np.ndarray:
    """M x for M (..., m, n) and x (..., n)."""
    return np.einsum("...mn,...n->...m", M, x)


def power(M: np.ndarray, h: int) -> np.ndarray:
    """M^h, with M^0 = I: the discrete semigroup S_g(h) of eq. semigroup-family."""
    return np.linalg.matrix_power(M, h)


def powers(M: np.ndarray, h: int) -> list[np.ndarray]:
    """I, M, ..., M^(h-1), each from the one before."""
    found = [np.broadcast_to(np.eye(M.shape[-1]), M.shape)]
    for _ in range(h - 1):
        found.append(found[-1] @ M)
    return found


def vec(X: np.ndarray) -> np.ndarray:
    """Columns on top of each other, (..., m, n) -> (..., n·m), so that vec(L X R) = (R' ⊗ L) vec(X)."""
    return transpose(X).reshape(*X.shape[:-2], -1)


def kron(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A ⊗ B of stacks, (..., m, n), (..., p, q) -> (..., m·p, n·q)."""
    product = np.einsum("...mn,...pq->...mpnq", A, B)
    return product.reshape(*product.shape[:-4], A.shape[-2] * B.shape[-2], A.shape[-1] * B.shape[-1])


def norm(x: np.ndarray) -> np.ndarray:
    """Euclidean, of vectors (..., n)."""
    return np.linalg.norm(x, axis=-1)


def frobenius(M: np.ndarray) -> np.ndarray:
    """Of matrices (..., m, n)."""
    return np.linalg.norm(M, axis=(-2, -1))


def spectral(M: np.ndarray) -> np.ndarray:
    """The largest singular value, ‖M‖_2, of matrices (..., m, n)."""
    return np.linalg.svd(M, compute_uv=False)[..., 0]


def root(M: np.ndarray) -> np.ndarray:
    """The symmetric square root of a positive semidefinite matrix (..., m, m)."""
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.maximum(values, 0))[..., None, :]) @ transpose(vectors)
