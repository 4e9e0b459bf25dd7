"""Setup and local error of the linear feature model: def. local-defect, prop. teacher-forcing, eq. exact-intertwining."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.systems import System, close, holds, seeds, systems
from hypothesis import given
from hypothesis import strategies as st

from sgjepa.theory import linear
from sgjepa.theory.coverage import T_ballistic
from sgjepa.theory.horizon import D
from sgjepa.theory.linear import act, kron, norm, power, spectral, transpose, vec


@given(seeds)
def test_vec_and_kron_agree_with_their_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    L, X, R = rng.normal(size=(7, 2, 3)), rng.normal(size=(7, 3, 4)), rng.normal(size=(7, 4, 5))
    close(vec(L @ X @ R), act(kron(transpose(R), L), vec(X)))
    close(kron(L, R)[3], np.kron(L[3], R[3]))


@given(systems())
def test_projector_splits_the_next_latent_into_kept_and_discarded(s: System) -> None:
    z = act(s.W, s.phi)
    close(act(s.W @ s.T, s.phi), act(linear.A_W(s.W, s.T), z) + act(linear.C_W(s.W, s.T), s.phi))
    close(linear.C_W(s.W, s.T), s.W @ s.T - linear.A_W(s.W, s.T) @ s.W)
    P = linear.P_W(s.W)
    close(P @ P, P)
    close(P, transpose(P))
    close(np.trace(P, axis1=1, axis2=2), np.full(len(P), float(s.W.shape[1])))


@given(systems())
def test_teacher_forcing_measures_defect_and_residual(s: System) -> None:
    """Eq. tf-latent, tf-decoded, tf-physical, against the two systems stepped by hand."""
    xi = s.xi[:, 0]
    phi_next = act(s.T, s.phi) + xi
    predicted = act(s.A_hat, act(s.W, s.phi))
    measured = act(s.W, phi_next) - predicted
    found = linear.teacher_forcing(s.W, s.T, s.A_hat, s.phi, xi)
    close(found.total, measured)
    close(found.predictor + found.closure, linear.delta(s.W, s.T, s.A_hat, s.phi))
    physical = linear.physical_error(s.C_phys, s.R, s.W, phi_next, found.total)
    close(physical.decoded, act(s.R, act(s.W, phi_next)) - act(s.R, predicted))
    close(physical.total, act(s.C_phys, phi_next) - act(s.R, predicted))


@given(systems(closed=True), st.integers(0, 8))
def test_closed_and_exact_intertwines_at_every_horizon(s: System, h: int) -> None:
    exact = linear.A_W(s.W, s.T)
    close(linear.C_W(s.W, s.T), np.zeros_like(s.W))
    close(s.W @ power(s.T, h), power(exact, h) @ s.W)


@given(seeds)
def test_intertwining_needs_closure_and_an_exact_operator(seed: int) -> None:
    rng = np.random.default_rng(seed)
    W, T = np.eye(2, 3), rng.normal(size=(3, 3))
    T[:2, 2] = 0  # closed
    assert np.abs(D(W, T, linear.A_W(W, T), 3)).max() < 1e-9
    assert np.abs(D(W, T, linear.A_W(W, T) + 0.1, 3)).max() > 1e-3, "an inexact operator went unseen"
    T[:2, 2] = 1
    assert np.abs(D(W, T, linear.A_W(W, T), 3)).max() > 1e-3, "a discarded feature that matters went unseen"


def test_closure_is_seen_only_through_orthonormal_rows() -> None:
    """The split itself is algebra; that C_W = 0 means closed needs W W' = I."""
    W, T = np.eye(1, 2), np.diag([0.5, 0.9])
    assert np.abs(linear.C_W(W, T)).max() == 0
    assert np.abs(linear.C_W(2 * W, T)).max() == pytest.approx(3.0)  # 2 · 0.5 · (1 - 4)


@given(systems())
def test_residual_of_zero_mean_has_no_cross_term_after_a_linear_probe(s: System) -> None:
    """The residual takes ±ξ with equal chance given φ: the average over both is exact."""
    xi = s.xi[:, 0] + 1.0
    defect = act(s.R, linear.delta(s.W, s.T, s.A_hat, s.phi))
    cross = [np.sum(defect * act(s.R @ s.W, sign * xi), axis=-1) for sign in (1, -1)]
    close(cross[0] + cross[1], np.zeros(len(xi)))
    mse = [np.sum((defect + act(s.R @ s.W, sign * xi)) ** 2, axis=-1) for sign in (1, -1)]
    close((mse[0] + mse[1]) / 2, np.sum(defect**2, axis=-1) + np.sum(act(s.R @ s.W, xi) ** 2, axis=-1))


def test_a_biased_residual_or_a_curved_probe_brings_the_cross_term_back() -> None:
    W, T, A_hat, phi, xi = np.eye(1), np.eye(1), np.zeros((1, 1)), np.ones(1), np.ones(1)
    defect = linear.delta(W, T, A_hat, phi)  # 1
    biased = [np.sum(defect * act(W, step)) for step in (xi, -0.5 * xi)]
    assert np.mean(biased) == pytest.approx(0.25)
    cube = [float(((defect + sign * xi) ** 3 - defect**3)[0]) for sign in (1, -1)]  # r(z) = z³ around the mean
    assert np.mean(cube) == pytest.approx(3.0)


@given(systems())
def test_lipschitz_probe_cannot_enlarge_the_latent_error_beyond_its_constant(s: System) -> None:
    z = act(s.W, s.phi)
    z_hat = z + s.xi.sum(axis=1)[:, : z.shape[1]]
    holds(norm(np.tanh(act(s.R, z)) - np.tanh(act(s.R, z_hat))), spectral(s.R) * norm(z - z_hat))
    # attained by a linear probe along its leading direction, and by no smaller constant
    top = np.linalg.svd(s.R)[2][:, 0]
    close(norm(act(s.R, z + top) - act(s.R, z)), spectral(s.R))


def test_a_probe_that_jumps_has_no_such_bound() -> None:
    z, z_hat = np.array([1e-9]), np.array([-1e-9])
    assert norm(np.sign(z) - np.sign(z_hat)) == 2 > 1e6 * norm(z - z_hat)


@given(systems(), st.integers(0, 5), st.integers(0, 5))
def test_evolution_at_fixed_gravity_is_a_semigroup(s: System, k: int, steps: int) -> None:
    close(power(s.T, k + steps), power(s.T, steps) @ power(s.T, k))


def test_gravity_that_changes_on_the_way_is_no_power_of_one_law() -> None:
    """Two laws, one step each: the average gravity gets the speed right and the place wrong."""
    path = T_ballistic(np.array(8.0), 0.1) @ T_ballistic(np.array(0.0), 0.1)
    same_speed = power(T_ballistic(np.array(4.0), 0.1), 2)
    assert path[1, 2] == pytest.approx(same_speed[1, 2])
    assert abs(path[0, 2] - same_speed[0, 2]) > 0.03
