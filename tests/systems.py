"""Random linear systems for the tests of the theory: hypothesis draws the shape, the spread and a seed, and shrinks them.

Each draw is a stack of N systems, so that 60 examples are thousands of systems; nothing here is a test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from sgjepa.theory import coverage, linear

N = 64
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60, database=None)
settings.load_profile("repeatable")

seeds = st.integers(0, 2**32 - 1)
horizons = st.integers(1, 8)


def orthonormal_rows(rng: np.random.Generator, n: int, rows: int, columns: int) -> np.ndarray:
    """(n, rows, columns) with W W' = I."""
    return np.swapaxes(np.linalg.qr(rng.normal(size=(n, columns, rows)))[0], -1, -2)


@dataclass(frozen=True)
class System:
    """N systems at one gravity, and a path's worth of noise for each."""

    W: np.ndarray  # (N, Z, F)
    T: np.ndarray  # (N, F, F)
    A_hat: np.ndarray  # (N, Z, Z)
    R: np.ndarray  # (N, S, Z)
    C_phys: np.ndarray  # (N, S, F)
    phi: np.ndarray  # (N, F)
    xi: np.ndarray  # (N, h, F)


@st.composite
def systems(draw: st.DrawFn, closed: bool = False) -> System:
    """`closed`: the row space of W is invariant, so that C_W = 0."""
    F = draw(st.integers(1, 5))
    Z = draw(st.integers(1, F))
    S, h = draw(st.integers(1, 3)), draw(horizons)
    spread = draw(st.sampled_from([0.1, 0.5, 1.0]))
    rng = np.random.default_rng(draw(seeds))
    Q = orthonormal_rows(rng, N, F, F)
    W = Q[:, :Z]
    T = rng.normal(size=(N, F, F)) * spread / np.sqrt(F)
    if closed:
        T[:, :Z, Z:] = 0  # in the basis Q, whose first rows are W
    T = np.swapaxes(Q, -1, -2) @ T @ Q
    A_hat = linear.A_W(W, T) + rng.normal(size=(N, Z, Z)) * draw(st.sampled_from([0.0, 0.1, 1.0]))
    return System(
        W,
        T,
        A_hat,
        R=rng.normal(size=(N, S, Z)),
        C_phys=rng.normal(size=(N, S, F)),
        phi=rng.normal(size=(N, F)),
        xi=rng.normal(size=(N, h, F)) * draw(st.sampled_from([0.0, 0.3])),
    )


@dataclass(frozen=True)
class LawSystem:
    """N systems that share a law basis, their training laws and one test law each."""

    basis: str
    laws: np.ndarray  # (N, n) training gravities
    g_star: np.ndarray  # (N,)
    W: np.ndarray  # (N, Z, F)
    T_k: np.ndarray  # (N, m, F, F)
    A_k: np.ndarray  # (N, m, Z, Z) of the predictor

    @property
    def M(self) -> np.ndarray:
        return coverage.M_psi(self.psi(self.laws))

    @property
    def well(self) -> np.ndarray:
        """(N,) where M_ψ keeps enough digits for an identity to be checked to 1e-9."""
        return np.linalg.cond(self.M) < 1e5

    @property
    def star(self) -> np.ndarray:
        return self.psi(self.g_star)

    def psi(self, g: np.ndarray) -> np.ndarray:
        return coverage.BASES[self.basis](g)

    @property
    def E_k(self) -> np.ndarray:
        """Coefficients of E_A."""
        W = self.W[:, None]
        return linear.A_W(W, self.T_k) - self.A_k

    @property
    def C_k(self) -> np.ndarray:
        return linear.C_W(self.W[:, None], self.T_k)


@st.composite
def law_systems(draw: st.DrawFn) -> LawSystem:
    basis = draw(st.sampled_from(sorted(coverage.BASES)))
    F = draw(st.integers(1, 4))
    Z = draw(st.integers(1, F))
    n = draw(st.integers(4, 30))
    mean, std = draw(st.sampled_from([0.0, 4.0])), draw(st.sampled_from([0.5, 2.0]))
    rng = np.random.default_rng(draw(seeds))
    W = orthonormal_rows(rng, N, Z, F)
    laws = rng.normal(mean, std, size=(N, n))
    m = coverage.BASES[basis](laws).shape[-1]
    T_k = rng.normal(size=(N, m, F, F)) * 0.3
    A_k = linear.A_W(W[:, None], T_k) + rng.normal(size=(N, m, Z, Z)) * draw(st.sampled_from([0.0, 0.1, 1.0]))
    return LawSystem(basis, laws, rng.uniform(-10, 20, size=N), W, T_k, A_k)


def close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-9) -> None:
    """Equal to `tolerance`, relative to the largest number at hand (or 1)."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    size = max(1.0, np.abs(wanted).max(initial=0))
    assert np.abs(found - wanted).max(initial=0) <= tolerance * size


def holds(left: np.ndarray, right: np.ndarray) -> None:
    """left <= right, everywhere, but for rounding."""
    slack = 1e-9 * np.maximum(1.0, np.abs(right))
    worst = np.max(left - right - slack)
    assert worst <= 0, f"violated by {worst}"
