"""The history-based predictor as a companion system: thm. finite-history, cor. companion-reduction, and composition."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.systems import close, horizons, orthonormal_rows, seeds
from hypothesis import given
from hypothesis import strategies as st

from sgjepa.theory import coverage, history, horizon, recursion
from sgjepa.theory.linear import act, vec


def random_system(rng: np.random.Generator, H: int, Z: int, F: int, actions: int) -> history.Companion:
    W = orthonormal_rows(rng, 1, Z, F)[0]
    T, A = rng.normal(size=(F, H * F)) * 0.5 / F, rng.normal(size=(Z, H * Z)) * 0.5 / Z
    return history.build(W, T, rng.normal(size=(F, actions)), A, rng.normal(size=(Z, actions)))


@st.composite
def companions(draw: st.DrawFn) -> tuple[history.Companion, np.random.Generator]:
    F = draw(st.integers(1, 3))
    Z = draw(st.integers(1, F))
    rng = np.random.default_rng(draw(seeds))
    return random_system(rng, draw(st.integers(1, 4)), Z, F, draw(st.integers(1, 2))), rng


def inputs(system: history.Companion, rng: np.random.Generator, h: int, n: int = 50) -> tuple[np.ndarray, ...]:
    features = system.W.shape[1]
    X = rng.normal(size=(n, system.H * features)) + 1
    return X, rng.normal(size=(n, h, system.B.shape[1])) - 1, rng.normal(size=(n, h, features))


def test_companion_shifts_the_history_and_appends_the_update() -> None:
    row = np.array([[1.0, 10.0, 100.0]])
    close(act(history.companion(row), np.array([1.0, 2.0, 3.0])), np.array([2.0, 3.0, 321.0]))
    close(history.newest(3, 2) @ np.arange(6.0), np.array([4.0, 5.0]))
    close(history.newest(3, 2, L=2) @ np.arange(6.0), np.array([2.0, 3.0, 4.0, 5.0]))


@given(companions(), horizons)
def test_finite_history_error_is_exact_for_every_window(drawn: tuple, h: int) -> None:
    system, rng = drawn
    X, actions, xi = inputs(system, rng, h)
    Z, Z_hat = history.roll(system, X, actions, xi)
    for L in range(1, system.H + 1):
        maps = history.error_maps(system, h, L)
        measured = act(history.newest(system.H, len(system.W), L), Z - Z_hat)
        close(history.finite_history_error(maps, X, actions, xi), measured)
        terms = act(maps.D, X) + sum(act(maps.F[j], actions[:, j]) + act(maps.N[j], xi[:, j]) for j in range(h))
        close(terms, measured)


@given(companions(), horizons)
def test_second_moment_needs_no_centring(drawn: tuple, h: int) -> None:
    """Over the empirical distribution, with means off zero and actions that depend on the context."""
    system, rng = drawn
    X, actions, xi = inputs(system, rng, h)
    actions = actions + X[:, :1, None]
    maps = history.error_maps(system, h)
    error = history.finite_history_error(maps, X, actions, xi)
    close(history.second_moment(maps, history.stack(X, actions, xi)), np.mean(np.sum(error**2, axis=-1)))


@given(companions(), horizons)
def test_without_the_same_context_the_error_formula_is_incomplete(drawn: tuple, h: int) -> None:
    """Eq. exact-context-initialization is an assumption: a context off by one leaves 𝔸^h 1 behind."""
    system, rng = drawn
    X, actions, xi = inputs(system, rng, h)
    Z_hat = act(system.stacked_W, X) - 1
    for j in range(h):
        Z_hat = act(system.A, Z_hat) + act(system.D, actions[:, j])
    Z = history.roll(system, X, actions, xi)[0]
    P = history.newest(system.H, len(system.W))
    formula = history.finite_history_error(history.error_maps(system, h), X, actions, xi)
    left = act(P, Z - Z_hat) - formula
    close(left, act(P @ np.linalg.matrix_power(system.A, h), np.ones_like(Z_hat)))


def test_a_rollout_under_other_actions_is_outside_the_formula() -> None:
    """Both systems receive the same actions; a policy that reacts to its own prediction would not send them."""
    rng = np.random.default_rng(0)
    system = random_system(rng, 2, 1, 2, 1)
    X, actions, xi = inputs(system, rng, 3)
    Z, _ = history.roll(system, X, actions, xi)
    _, Z_hat = history.roll(system, X, actions + 1, xi)
    formula = history.finite_history_error(history.error_maps(system, 3), X, actions, xi)
    assert np.abs(act(history.newest(2, 1), Z - Z_hat) - formula).min() > 0.01


def test_matching_dynamics_with_other_action_maps_still_err() -> None:
    """The action terms vanish only when the maps agree."""
    W, T, B = np.eye(1), np.array([[0.0, 0.5]]), np.ones((1, 1))
    same, other = history.build(W, T, B, T, B), history.build(W, T, B, T, 2 * B)
    assert np.abs(history.error_maps(same, 3).row[:, :-3]).max() == 0  # all but the residuals
    assert history.error_maps(other, 3).F.ravel() == pytest.approx([-0.25, -0.5, -1.0])


@given(seeds, st.integers(0, 4), st.integers(0, 4))
def test_any_predictor_composes_over_consecutive_action_blocks(seed: int, k: int, steps: int) -> None:
    """For a gated nonlinear step too; and the actions must come in their own order."""
    rng = np.random.default_rng(seed)
    weights, gates = rng.normal(size=(6, 4, 6)), rng.normal(size=(6, 2))

    def step(Z: np.ndarray, a: np.ndarray) -> np.ndarray:
        gate = 1 / (1 + np.exp(-(weights[0] @ Z)))
        new = gate * Z[-4:] + (1 - gate) * np.tanh(weights[1] @ Z + (gates @ a)[:4])
        return np.concatenate([Z[4:], new])[-6:]

    Z, actions = rng.normal(size=6), rng.normal(size=(k + steps, 2))
    whole = history.flow(step, Z, actions)
    close(history.flow(step, history.flow(step, Z, actions[:k]), actions[k:]), whole, 1e-15)
    if k and steps:
        swapped = history.flow(step, history.flow(step, Z, actions[k:]), actions[:k])
        assert np.abs(swapped - whole).max() > 1e-9, "with actions this is no autonomous semigroup"


@given(companions(), horizons)
def test_memoryless_recursion_holds_on_the_stack(drawn: tuple, h: int) -> None:
    """Cor. companion-reduction without actions: W -> 𝕎, T -> 𝕋, Â -> 𝔸, then select."""
    system, rng = drawn
    X, actions, xi = inputs(system, rng, h, n=5)
    stacked = [np.broadcast_to(m, (5, *m.shape)) for m in (system.stacked_W, system.T, system.A)]
    noise = act(system.J, xi)
    path = recursion.roll(*stacked, X, noise)
    total = recursion.exact_error(stacked[2], recursion.injected(*stacked, path.phi[:, :-1], noise))
    P = history.newest(system.H, len(system.W))
    close(act(P, total), history.finite_history_error(history.error_maps(system, h), X, 0 * actions, xi))


@given(companions(), st.integers(1, 3))
def test_newest_block_loss_is_a_quadratic_form_positive_on_admissible_defects(drawn: tuple, K: int) -> None:
    system, rng = drawn
    Z, F = system.W.shape
    w = horizon.rollout_weights(K, 0.95)
    root = rng.normal(size=(system.H * F, system.H * F))
    Sigma = root @ root.T + 0.1 * np.eye(system.H * F)
    G = history.companion_gramian(system, Sigma, w)
    D_1 = horizon.D(system.stacked_W, system.T, system.A, 1)
    close(vec(D_1) @ G @ vec(D_1), sum(w[k - 1] * _cost(system, Sigma, k) for k in range(1, K + 1)))
    close(D_1[:-Z], np.zeros((len(D_1) - Z, system.H * F)))  # the shifts match, so D_1 is admissible
    S = history.admissible(system.H, Z, F)
    close(S @ (S.T @ vec(D_1)), vec(D_1))
    assert np.linalg.eigvalsh(S.T @ G @ S)[0] > 0.5 * w[0] * 0.1


def _cost(system: history.Companion, Sigma: np.ndarray, h: int) -> float:
    D_h = history.error_maps(system, h).D
    return float(np.trace(D_h @ Sigma @ D_h.T))


def test_off_the_admissible_space_the_newest_block_sees_nothing() -> None:
    """A defect in a shift row is invisible at K = 1; and so is everything with w_1 = 0 or a silent Σ_X where 𝔸, 𝕋 forget."""
    system = history.build(np.eye(1), np.zeros((1, 2)), np.zeros((1, 1)), np.zeros((1, 2)), np.zeros((1, 1)))
    G = history.companion_gramian(system, np.eye(2), np.array([1.0]))
    shift = vec(np.array([[1.0, 1.0], [0.0, 0.0]]))
    assert shift @ G @ shift == 0
    S = history.admissible(2, 1, 1)
    assert np.linalg.eigvalsh(S.T @ G @ S)[0] == pytest.approx(1)
    for Sigma, w in [(np.eye(2), [0.0, 0.0]), (np.diag([1.0, 0.0]), [1.0])]:
        assert np.linalg.eigvalsh(S.T @ history.companion_gramian(system, Sigma, np.array(w)) @ S)[0] == 0


def test_shift_rows_need_the_constant_in_the_law_basis() -> None:
    """A basis of g alone scales the shift rows too: the best fit of the companion family leaves them wrong."""
    g = np.array([1.0, 2.0, 3.0])
    targets = np.stack([history.companion(np.array([[0.1 * x, 0.2 * x]])) for x in g]).reshape(3, -1)
    for psi, fits in [(coverage.affine(g), True), (g[:, None], False)]:
        coefficients = np.linalg.lstsq(psi, targets, rcond=None)[0]
        assert (np.abs(psi @ coefficients - targets).max() < 1e-9) == fits
