"""Horizon geometry and the ranking reversal: thm. closure-geometry, thm. profile-mismatch, thm. ranking-reversal."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from fixtures.systems import System, close, holds, horizons, seeds, systems
from hypothesis import assume, given
from hypothesis import strategies as st

from sgjepa.theory import horizon, linear
from sgjepa.theory.linear import act, vec
from sgjepa.training import losses

profiles = st.tuples(st.integers(1, 5), st.floats(0.2, 1.0)).map(lambda kg: horizon.rollout_weights(*kg))


def second_moment(rng: np.random.Generator, F: int) -> np.ndarray:
    root = rng.normal(size=(F, F))
    return root @ root.T + 0.1 * np.eye(F)


def test_weights_are_those_of_the_training_loss() -> None:
    close(horizon.rollout_weights(5, 0.95), losses.rollout_weights(0.95, 5).numpy(), 1e-7)  # theirs are fp32
    assert horizon.rollout_weights(4, 0.5) @ np.ones(4) == pytest.approx(1)


@given(systems())
def test_one_step_defect_acts_as_the_local_error(s: System) -> None:
    close(act(horizon.D(s.W, s.T, s.A_hat, 1), s.phi), linear.delta(s.W, s.T, s.A_hat, s.phi))
    close(horizon.D(s.W, s.T, linear.A_W(s.W, s.T), 1), linear.C_W(s.W, s.T))


@given(systems(), horizons)
def test_defect_telescopes(s: System, h: int) -> None:
    D_1 = horizon.D(s.W, s.T, s.A_hat, 1)
    close(horizon.telescope(D_1, s.T, s.A_hat, h), horizon.D(s.W, s.T, s.A_hat, h))


@given(systems(), st.integers(1, 5))
def test_propagator_maps_the_one_step_defect(s: System, h: int) -> None:
    D_1 = horizon.D(s.W, s.T, s.A_hat, 1)
    close(act(horizon.M(s.A_hat, s.T, h), vec(D_1)), vec(horizon.D(s.W, s.T, s.A_hat, h)))


@given(systems(), profiles, seeds)
def test_multi_step_loss_is_a_quadratic_form_in_the_one_step_defect(s: System, w: np.ndarray, seed: int) -> None:
    Sigma = second_moment(np.random.default_rng(seed), s.T.shape[-1])
    G = horizon.G(s.A_hat, s.T, Sigma, w)
    d = vec(horizon.D(s.W, s.T, s.A_hat, 1))
    close(np.einsum("ni,nij,nj->n", d, G, d), horizon.loss(s.W, s.T, s.A_hat, Sigma, w))
    # positive definite: not below its first summand, w_1 Σ ⊗ I
    floor = w[0] * np.linalg.eigvalsh(Sigma)[0]
    holds(np.full(len(G), floor), np.linalg.eigvalsh(G)[:, 0] + 1e-9 * np.abs(G).max(axis=(1, 2)))


def test_gramian_is_singular_without_weight_on_the_first_step_or_with_a_silent_feature() -> None:
    """M_2 = T + A vanishes for A = -T: a loss on the second step alone sees nothing of any defect."""
    T, A, one = np.array([[0.5]]), np.array([[-0.5]]), np.eye(1)
    assert horizon.G(A, T, one, np.array([0.0, 1.0])) == 0
    assert horizon.G(A, T, one, np.array([0.1, 0.9])) == pytest.approx(0.1)
    silent = horizon.G(np.eye(1), np.eye(2), np.diag([1.0, 0.0]), np.array([0.5, 0.5]))
    assert np.linalg.eigvalsh(silent)[0] == 0
    assert np.linalg.eigvalsh(silent)[1] > 0


def test_gramian_with_a_negative_weight_is_no_cost() -> None:
    assert horizon.G(np.eye(1), np.eye(1), np.eye(1), np.array([1.0, -1.0])) == -3  # 1 - 2²


def test_equal_one_step_defects_can_cost_differently_later() -> None:
    T, A = np.diag([0.9, 0.1]), np.array([[0.5]])
    G = horizon.G(A, T, np.eye(2), horizon.rollout_weights(5, 0.95))
    slow, fast = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert slow @ G @ slow > 3 * fast @ G @ fast


@given(seeds, st.integers(2, 6))
def test_largest_cost_ratio_of_equal_defects_is_attained_and_not_exceeded(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    G_tr, G_ev = second_moment(rng, n), second_moment(rng, n)
    for subspace in (None, rng.normal(size=(n, n - 1))):
        found = horizon.profile_mismatch(G_tr, G_ev, subspace)
        low, high = found.cheapest, found.dearest
        assert low @ G_tr @ low == pytest.approx(1, rel=1e-9)
        assert high @ G_tr @ high == pytest.approx(1, rel=1e-9)
        assert (high @ G_ev @ high) / (low @ G_ev @ low) == pytest.approx(found.ratio, rel=1e-9)
        if subspace is not None:  # both lie in it
            kept = np.linalg.qr(subspace)[0]
            close(kept @ (kept.T @ low), low, 1e-8)
            close(kept @ (kept.T @ high), high, 1e-8)
        inside = rng.normal(size=(500, n if subspace is None else n - 1))
        d = inside if subspace is None else inside @ subspace.T
        rate = np.einsum("ni,ij,nj->n", d, G_ev, d) / np.einsum("ni,ij,nj->n", d, G_tr, d)
        holds(rate.max() / rate.min(), np.array(found.ratio))


@given(seeds, st.integers(1, 5), st.floats(0.1, 10))
def test_proportional_profiles_rank_alike(seed: int, n: int, c: float) -> None:
    rng = np.random.default_rng(seed)
    G_tr = second_moment(rng, n)
    assert horizon.profile_mismatch(G_tr, c * G_tr).ratio == pytest.approx(1, rel=1e-6)
    close(horizon.profile_mismatch(G_tr, c * G_tr).Q, c * np.eye(n), 1e-8)


@given(seeds, st.integers(2, 5))
def test_profiles_that_are_not_proportional_disagree_about_some_pair(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    found = horizon.profile_mismatch(second_moment(rng, n), second_moment(rng, n))
    assume(np.abs(found.Q - found.Q[0, 0] * np.eye(n)).max() > 1e-3)
    assert found.ratio > 1 + 1e-6


def test_an_evaluation_that_ignores_a_defect_has_no_finite_ratio() -> None:
    assert horizon.profile_mismatch(np.eye(2), np.diag([1.0, 0.0])).ratio == np.inf


def test_a_training_profile_that_ignores_a_defect_cannot_be_whitened() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        horizon.profile_mismatch(np.diag([1.0, 0.0]), np.eye(2))


# The reversal. P keeps modes 2/5 and 4/5, F keeps 3/20 and 3/5.

P, F = horizon.P, horizon.F
A_P, A_F = horizon.best_one_step(P), horizon.best_one_step(F)


def test_one_step_profiling_prefers_P_exactly() -> None:
    assert horizon.best_one_step(P) == Fraction(3, 5)
    assert horizon.best_one_step(F) == Fraction(3, 8)
    assert horizon.cost(P, A_P, 1) == Fraction(1, 25) == horizon.relaxed_costs(P)[0]
    assert horizon.cost(F, A_F, 1) == Fraction(81, 1600) == horizon.relaxed_costs(F)[0]
    assert Fraction(1, 25) < Fraction(81, 1600)


def test_two_steps_with_those_predictors_prefer_F_exactly() -> None:
    assert horizon.cost(P, A_P, 2) == Fraction(37, 625)
    assert horizon.cost(F, A_F, 2) == Fraction(79461, 2560000)
    assert Fraction(79461, 2560000) < Fraction(37, 625)


def test_full_profiling_prefers_F_above_the_papers_gamma_exactly() -> None:
    assert horizon.relaxed_costs(P) == (Fraction(1, 25), Fraction(36, 625))
    assert horizon.cost(F, Fraction(2, 5), 1) == Fraction(41, 800)
    assert horizon.cost(F, Fraction(2, 5), 2) == Fraction(377, 12800)
    assert horizon.sufficient_gamma() == Fraction(3600, 9007)


@given(st.fractions(Fraction(3601, 9007), Fraction(5)), st.fractions(Fraction(-2), Fraction(2)))
def test_above_it_no_predictor_saves_P(gamma: Fraction, a: Fraction) -> None:
    assert horizon.objective(F, Fraction(2, 5), gamma) < horizon.objective(P, a, gamma)


@given(st.fractions(Fraction(0), Fraction(1, 3)), st.fractions(Fraction(-2), Fraction(2)))
def test_well_below_it_no_predictor_saves_F(gamma: Fraction, a: Fraction) -> None:
    """The conclusion needs γ: with γ ≤ 1/3, P with a = 31/50 beats every F, in exact fractions."""
    assert horizon.objective(P, Fraction(31, 50), gamma) < horizon.objective(F, a, gamma)


def test_the_change_of_mind_lies_below_the_sufficient_condition() -> None:
    gamma = horizon.crossing()
    assert 0.3787 < gamma < 0.3788 < 3600 / 9007
    for step, preferred, other in [(-1e-6, P, F), (1e-6, F, P)]:
        assert horizon.profiled(preferred, gamma + step)[0] < horizon.profiled(other, gamma + step)[0]
    assert horizon.profiled(F, 0.95)[0] < 0.84 * horizon.profiled(P, 0.95)[0]


@given(st.floats(0, 5), st.sampled_from([P, F]))
def test_profiled_minimum_is_below_every_predictor_on_a_grid(gamma: float, modes: horizon.Modes) -> None:
    low, high = (float(mode) for mode in modes)
    a = np.linspace(-1.5, 1.5, 2001)
    grid = sum(w * ((low**h - a**h) ** 2 + (high**h - a**h) ** 2) / 2 for h, w in [(1, 1.0), (2, gamma)]) / (1 + gamma)
    value, best = horizon.profiled(modes, gamma)
    assert value <= grid.min() + 1e-12
    assert value == pytest.approx(float(horizon.objective(modes, Fraction(best), Fraction(gamma))), rel=1e-9)


def test_fractions_agree_with_the_matrices_of_the_theorem() -> None:
    """Including that T is stable and that the costs are ‖D_h‖² of the rank-one W."""
    T = np.diag([2 / 5, 4 / 5, 3 / 20, 3 / 5])
    assert np.abs(np.linalg.eigvals(T)).max() < 1
    for W, modes, a in [(np.array([[1, 1, 0, 0]]), P, A_P), (np.array([[0, 0, 1, 1]]), F, A_F)]:
        unit = W / np.sqrt(2)
        assert linear.A_W(unit, T) == pytest.approx(float(a))
        for h in (1, 2):
            D_h = horizon.D(unit, T, np.array([[float(a)]]), h)
            assert np.sum(D_h**2) == pytest.approx(float(horizon.cost(modes, a, h)), rel=1e-12)
