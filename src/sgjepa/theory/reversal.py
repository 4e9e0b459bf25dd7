"""One-step preference can reverse under rollout, in exact fractions (paper, thm. ranking-reversal).

A rank-one representation that averages two eigenmodes (λ, μ) of T, with the scalar predictor a. P keeps the pair that
is easier to predict one step ahead, F the pair whose errors fade faster. Nothing here is rounded unless its name says
so.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

Modes = tuple[Fraction, Fraction]

P: Modes = (Fraction(2, 5), Fraction(4, 5))
F: Modes = (Fraction(3, 20), Fraction(3, 5))


def cost(modes: Modes, a: Fraction, h: int) -> Fraction:
    """‖D_h(W; a)‖_F² = ½ Σ (λ^h - a^h)² (eq. two-mode-cost)."""
    return sum(((mode**h - a**h) ** 2 for mode in modes), Fraction(0)) / 2


def best_one_step(modes: Modes) -> Fraction:
    """a = (λ + μ)/2, the minimiser at one step; its cost is (λ - μ)²/4."""
    return (modes[0] + modes[1]) / 2


def objective(modes: Modes, a: Fraction, gamma: Fraction) -> Fraction:
    """(‖D_1‖² + γ‖D_2‖²) / (1 + γ)."""
    return (cost(modes, a, 1) + gamma * cost(modes, a, 2)) / (1 + gamma)


def relaxed_costs(modes: Modes) -> tuple[Fraction, Fraction]:
    """The least one-step and two-step costs when each horizon may choose its own prediction: a lower bound for any a."""
    return (modes[0] - modes[1]) ** 2 / 4, (modes[0] ** 2 - modes[1] ** 2) ** 2 / 4


def sufficient_gamma(a: Fraction = Fraction(2, 5)) -> Fraction:
    """Above this γ even W_F's cost with the predictor `a` is below W_P's lower bound: full profiling prefers W_F."""
    one, two = relaxed_costs(P)
    return (cost(F, a, 1) - one) / (two - cost(F, a, 2))


def profiled(modes: Modes, gamma: float) -> tuple[float, float]:
    """min over a of the two-step objective in floating point, and the minimiser; for modes 0 < λ < μ.

    The derivative is twice 2γ a³ + (1 - γ(λ² + μ²)) a - (λ + μ)/2: one change of sign, one positive root, between λ and μ.
    """
    mode = np.array(modes, float)
    low, high = mode
    for _ in range(60):
        a = (low + high) / 2
        rises = 2 * gamma * a**3 + (1 - gamma * (mode @ mode)) * a > mode.sum() / 2
        low, high = (low, a) if rises else (a, high)
    one, two = (np.sum((mode**h - a**h) ** 2) / 2 for h in (1, 2))
    return float((one + gamma * two) / (1 + gamma)), float(a)


def crossing(low: float = 0.0, high: float = 1.0) -> float:
    """The γ at which full profiling changes its mind, by bisection; the paper's sufficient condition lies above it."""
    for _ in range(60):
        middle = (low + high) / 2
        prefers_P = profiled(P, middle)[0] < profiled(F, middle)[0]
        low, high = (middle, high) if prefers_P else (low, middle)
    return (low + high) / 2
