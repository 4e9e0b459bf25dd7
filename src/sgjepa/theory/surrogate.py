"""A linear stand-in for a trained model: the theory's A_W(g), C_W(g) and Â(g) by least squares on its latents.

The features are φ = (z, 1, x). The latent z and the constant are kept, so W = [I 0] and W W' = I as the paper asks. x
is information that the latent discards: any further measurement (physical state, older latents), with its linear
regression on z removed and whitened over the training laws. In each gravity band then, by least squares,

    z_{t+1} ≈ A_W(g) (z_t, 1) + C_W(g) x_t           the truth, from encoded frames
    ẑ_{t+1} ≈ Â(g) (z_t, 1)                          the model, from its own teacher-forced predictions

and operator error ‖A_W - Â‖_F, closure error ‖C_W‖_F are those of eq. training-errors. x is white, so ‖C_W‖_F² is the
mean squared movement of the next latent that only discarded information explains. It depends on x: a richer x can
reveal more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.theory.linear import frobenius


@dataclass(frozen=True)
class Discarded:
    """The map from (z, extra) to x, fitted on training laws and applied to all."""

    explained: np.ndarray  # (Z + 1, E) the extra features from z and 1, by least squares
    whiten: np.ndarray  # (E, X)

    def __call__(self, z: np.ndarray, extra: np.ndarray) -> np.ndarray:
        """z (n, Z), extra (n, E) -> x (n, X)"""
        return (extra - _with_constant(z) @ self.explained) @ self.whiten


def fit_discarded(z: np.ndarray, extra: np.ndarray, tolerance: float = 1e-8) -> Discarded:
    """z (n, Z), extra (n, E). Directions of extra that z explains to all but a share `tolerance` are dropped."""
    spread = extra.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)  # units of the extra features must not matter
    explained = _least_squares(_with_constant(z), extra / spread)
    rest = extra / spread - _with_constant(z) @ explained
    values, vectors = np.linalg.eigh(rest.T @ rest / len(rest))
    large = values > tolerance
    return Discarded(explained * spread, (vectors[:, large] / np.sqrt(values[large])) / spread[:, None])


@dataclass(frozen=True)
class Band:
    """The surrogate at one gravity, from n transitions."""

    n: int
    A_W: np.ndarray  # (Z, Z + 1), the last column is the constant's
    C_W: np.ndarray  # (Z, X), on x; zero on z and 1
    A_hat: np.ndarray  # (Z, Z + 1)
    operator: float  # ‖A_W - Â‖_F
    closure: float  # ‖C_W‖_F
    predictor_mse: float  # mean ‖E_A (z, 1)‖²
    closure_mse: float  # mean ‖C_W x‖²
    residual_mse: float  # mean ‖ξ‖²: the part that no linear map of (z, 1, x) explains, noise and curvature alike
    nonlinear: float  # share of the predictions' variance that Â misses: near 0, the model acts like a matrix here


@dataclass(frozen=True)
class Surrogate:
    """Every band, and the averages over the training laws (eq. training-errors)."""

    bands: dict[float, Band]
    eps_op: float
    eps_cl: float


@dataclass(frozen=True)
class Transitions:
    """One gravity band: z (n, Z), extra (n, E), z_next (n, Z), and z_predicted (n, Z) from the true past."""

    z: np.ndarray
    extra: np.ndarray
    z_next: np.ndarray
    z_predicted: np.ndarray


def fit_band(discarded: Discarded, transitions: Transitions) -> Band:
    """Fit both regressions of a band."""
    z, x = _with_constant(transitions.z), discarded(transitions.z, transitions.extra)
    n, width = z.shape
    if n <= width + x.shape[1]:
        raise InputError(f"a linear surrogate of {width + x.shape[1]} features needs more than {n} transitions in each band")
    both = _least_squares(np.column_stack([z, x]), transitions.z_next)
    A_W, C_W = both[:width].T, both[width:].T
    A_hat = _least_squares(z, transitions.z_predicted).T
    missed = transitions.z_predicted - z @ A_hat.T
    spread = float(np.sum((transitions.z_predicted - transitions.z_predicted.mean(axis=0)) ** 2))
    return Band(
        n=n,
        A_W=A_W,
        C_W=C_W,
        A_hat=A_hat,
        operator=float(frobenius(A_W - A_hat)),
        closure=float(frobenius(C_W)),
        predictor_mse=_mean_square(z @ (A_W - A_hat).T),
        closure_mse=_mean_square(x @ C_W.T),
        residual_mse=_mean_square(transitions.z_next - z @ A_W.T - x @ C_W.T),
        nonlinear=float(np.sum(missed**2)) / spread if spread > 0 else 0.0,
    )


def linear_surrogate(training: Mapping[float, Transitions], test: Mapping[float, Transitions]) -> Surrogate:
    """Fit every band; x and the averages come from the training laws alone, each band weighted by its transitions."""
    if not training:
        raise InputError("a linear surrogate needs at least one band of training gravities")
    discarded = fit_discarded(
        np.concatenate([band.z for band in training.values()]), np.concatenate([band.extra for band in training.values()])
    )
    trained = {g: fit_band(discarded, band) for g, band in training.items()}
    untrained = {g: fit_band(discarded, band) for g, band in test.items() if g not in trained}
    share = np.array([band.n for band in trained.values()], float)
    share /= share.sum()
    eps_op = np.sqrt(share @ np.array([band.operator**2 for band in trained.values()]))
    eps_cl = np.sqrt(share @ np.array([band.closure**2 for band in trained.values()]))
    return Surrogate(dict(sorted({**trained, **untrained}.items())), float(eps_op), float(eps_cl))


def _with_constant(z: np.ndarray) -> np.ndarray:
    return np.column_stack([z, np.ones(len(z))])


def _least_squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.lstsq(np.asarray(x, float), np.asarray(y, float), rcond=None)[0])


def _mean_square(x: np.ndarray) -> float:
    return float(np.mean(np.sum(x**2, axis=-1)))
