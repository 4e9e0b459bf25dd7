"""Bounds of the error at a test law by the coverage of the training laws (paper, app. "How gravity coverage controls …").

From top to bottom: free flight, which is affine in gravity at every horizon (prop. ballistic-affine); law bases and the
coverage factor L_law; the transfer bound; exact moments of the training laws; and the limits of the result (app. "When the
coverage result does not apply").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from sgjepa.theory.linear import transpose


def T_ballistic(g: np.ndarray, dt: float) -> np.ndarray:
    """One step of length dt under gravity g on the state (p, v, 1): height, upward speed, constant. (...) -> (..., 3, 3)"""
    return T_ballistic_power(g, dt, 1)


def T_ballistic_power(g: np.ndarray, dt: float, h: int) -> np.ndarray:
    """T_g^h in closed form (eq. ballistic-h-step): one step of length h·dt. (...) -> (..., 3, 3)"""
    g = np.asarray(g, float)
    still, pull = ballistic_family(h * dt)
    return still + g[..., None, None] * pull


def ballistic_family(dt: float) -> np.ndarray:
    """The coefficients T_k of T_g = Σ_k ψ_k(g) T_k with ψ = (1, g). (2, 3, 3)"""
    return np.array([[[1, dt, 0], [0, 1, 0], [0, 0, 1]], [[0, 0, -(dt**2) / 2], [0, 0, -dt], [0, 0, 0]]], float)


@dataclass(frozen=True)
class Powers:
    """The law basis ψ(g) = (1, g, ..., g^(m-1)). Its L_law is the same for any unit and zero of g."""

    m: int

    def __call__(self, g: np.ndarray | float) -> np.ndarray:
        """(...) -> (..., m)"""
        return np.asarray(g, float)[..., None] ** np.arange(self.m)

    def __str__(self) -> str:
        return f"({', '.join(['1', 'g', 'g²', 'g³', 'g⁴'][: self.m])})"


@dataclass(frozen=True)
class Monomials:
    """The law basis of L laws at once: all products of their entries up to a degree. For one law, `Powers(degree + 1)`."""

    laws: int
    degree: int

    @property
    def exponents(self) -> np.ndarray:
        """(m, L), the constant first"""
        rows = [
            np.bincount(np.array(factors, int), minlength=self.laws)
            for degree in range(self.degree + 1)
            for factors in combinations_with_replacement(range(self.laws), degree)
        ]
        return np.stack(rows)

    @property
    def m(self) -> int:
        return math.comb(self.laws + self.degree, self.degree)

    def __call__(self, g: np.ndarray) -> np.ndarray:
        """(..., L) -> (..., m)"""
        return np.prod(np.asarray(g, float)[..., None, :] ** self.exponents, axis=-1)


affine = Powers(2)  # free flight, at every horizon (prop. ballistic-affine)
quadratic = Powers(3)

BASES: dict[str, Powers] = {"affine": affine, "quadratic": quadratic}


def family(psi: np.ndarray, E_k: np.ndarray) -> np.ndarray:
    """Σ_k ψ_k E_k (eq. shared-law-basis). psi (..., m), E_k (..., m, r, c) -> (..., r, c)"""
    return np.einsum("...k,...krc->...rc", psi, E_k)


def M_psi(psi: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """E[ψ ψ'] over training laws (eq. law-moment). psi (..., n, m), weights (..., n) that sum to 1, equal by default."""
    if weights is None:
        weights = np.full(psi.shape[-2], 1 / psi.shape[-2])
    return transpose(psi) @ (weights[..., None] * psi)


def L_law(psi: np.ndarray, M: np.ndarray) -> np.ndarray:
    """ψ' M⁻¹ ψ, the law-coverage factor (eq. law-coverage). psi (..., m), M (..., m, m), positive definite."""
    # solve, not inv; and in units of each ψ_k, for (1, g, g²) differ by orders of magnitude
    scale = np.sqrt(np.diagonal(M, axis1=-2, axis2=-1))
    unit = psi / scale
    solved = np.linalg.solve(M / (scale[..., :, None] * scale[..., None, :]), unit[..., None])[..., 0]
    return np.einsum("...k,...k->...", unit, solved)


def leverage(psi: np.ndarray, Psi: np.ndarray) -> np.ndarray:
    """The leverage ψ' (Ψ'Ψ)⁻¹ ψ of a finite design (cor. finite-design); n times it is L_law of the n laws.

    psi: (..., m)   Psi: (n, m), the rows ψ(g_i)'
    Works on Ψ itself and so keeps twice the digits of M_ψ. With missing directions the inverse is the one on the
    covered range, and a ψ outside of that range gets infinity (prop. no-coverage and the remark after it).
    """
    scale = np.linalg.norm(Psi, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    _, singular, directions = np.linalg.svd(Psi / scale, full_matrices=False)
    covered = singular > singular[0] * max(Psi.shape) * np.finfo(float).eps
    unit = psi / scale
    along = unit @ directions[covered].T  # (..., rank)
    outside = np.linalg.norm(unit - along @ directions[covered], axis=-1)
    inside = np.sum((along / singular[covered]) ** 2, axis=-1)
    return np.where(outside > 1e-9 * np.linalg.norm(unit, axis=-1), np.inf, inside)


def covered_directions(Psi: np.ndarray) -> int:
    """The number of independent combinations of the basis that the design distinguishes; m if M_ψ is positive definite."""
    scale = np.linalg.norm(Psi, axis=0)
    return int(np.linalg.matrix_rank(Psi / np.where(scale > 0, scale, 1.0)))


def mean_square(E_k: np.ndarray, M: np.ndarray) -> np.ndarray:
    """ε_E² = E_g ‖E(g)‖_F² = tr(𝖤 M_ψ 𝖤'), the training error of a family (eq. training-residual-factor). (...)"""
    return np.einsum("...krc,...kl,...lrc->...", E_k, M, E_k)


def transfer_bound(psi: np.ndarray, M: np.ndarray, E_k: np.ndarray) -> np.ndarray:
    """L_law ε_E², which ‖E(g*)‖_F² does not exceed (lem. matrix-transfer). (...)"""
    return L_law(psi, M) * mean_square(E_k, M)


def worst_family(psi: np.ndarray, M: np.ndarray, E_0: np.ndarray) -> np.ndarray:
    """Coefficients E_k = (M⁻¹ψ)_k E_0, for which the transfer bound is an equality. E_0 (r, c) -> (..., m, r, c)"""
    return np.linalg.solve(M, psi[..., None])[..., None] * E_0


def local_bound(L: np.ndarray, B_z: np.ndarray, eps_op: np.ndarray, B_phi: np.ndarray, eps_cl: np.ndarray) -> np.ndarray:
    """√L_law (B_z ε_op + B_φ ε_cl), which ‖δ_t(g*)‖ does not exceed (thm. local-ood-bound)."""
    return np.sqrt(L) * (B_z * eps_op + B_phi * eps_cl)


def joint_bound(L: np.ndarray, B_phi: np.ndarray, eps_op: np.ndarray, eps_cl: np.ndarray) -> np.ndarray:
    """√L_law B_φ √(ε_op² + ε_cl²), which ‖δ_t(g*)‖ does not exceed either. Not in the paper, and up to √2 sharper.

    δ_t = D_1 φ_t with D_1 = E_A W + C_W, whose two parts read orthogonal directions of φ: ‖D_1‖_F² = ‖E_A‖_F² + ‖C_W‖_F².
    Never above the paper's bound when B_z = B_φ; with a B_z far below B_φ the paper's may be the smaller.
    """
    return np.sqrt(L) * B_phi * np.sqrt(eps_op**2 + eps_cl**2)


def affine_L_law(g: np.ndarray, mean: float, std: float) -> np.ndarray:
    """1 + (g - μ)²/σ² (cor. affine-coverage)."""
    return 1 + ((np.asarray(g, float) - mean) / std) ** 2


def M_psi_of_moments(moments: np.ndarray) -> np.ndarray:
    """M_ψ of `Powers(m)` from E[g^0] ... E[g^(2m-2)]. (2m - 1,) -> (m, m)"""
    m = (len(moments) + 1) // 2
    return np.asarray(moments)[np.arange(m)[:, None] + np.arange(m)]


@dataclass(frozen=True)
class Moments:
    """Exact moments of the training laws: E[g^k], k = 0 ... , the mean and the standard deviation."""

    raw: np.ndarray
    mean: float
    std: float


def clipped_normal(mean: float, std: float, floor: float, order: int = 4) -> Moments:
    """Moments of g = max(N(mean, std²), floor), the datasets' training law (paper: "this clipped distribution").

    With x ~ N(0, 1) and a = (floor - mean)/std, y = max(x, a) has E[y^k] = a^k Φ(a) + I_k, I_k = ∫_a^∞ x^k φ(x) dx, and
    integration by parts gives I_0 = 1 - Φ(a), I_1 = φ(a), I_k = a^(k-1) φ(a) + (k - 1) I_(k-2).
    """
    a = (floor - mean) / std
    below, density = math.erfc(-a / math.sqrt(2)) / 2, math.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
    above = [math.erfc(a / math.sqrt(2)) / 2, density]
    for k in range(2, max(order, 2) + 1):
        above.append(a ** (k - 1) * density + (k - 1) * above[k - 2])
    y = [a**k * below + above[k] for k in range(len(above))]
    raw = [sum(math.comb(k, i) * mean ** (k - i) * std**i * y[i] for i in range(k + 1)) for k in range(order + 1)]
    return Moments(np.array(raw), mean + std * y[1], std * math.sqrt(y[2] - y[1] ** 2))


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

    local: from `local_bound`, with the training errors of the basis parts
    """
    return local + B_z * rho_op + B_phi * rho_cl
