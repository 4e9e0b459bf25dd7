"""Local errors under repeated composition: thm. exact-recursion, prop. physical-decomposition, thm. central-bound."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.systems import LawSystem, N, System, close, holds, horizons, law_systems, seeds, systems
from hypothesis import given
from hypothesis import strategies as st

from sgjepa.theory import coverage, linear, recursion
from sgjepa.theory.linear import act, frobenius, norm, power


def rolled(s: System) -> tuple[recursion.Path, np.ndarray]:
    path = recursion.roll(s.W, s.T, s.A_hat, s.phi, s.xi)
    return path, recursion.injected(s.W, s.T, s.A_hat, path.phi[:, :-1], s.xi)


@given(systems())
def test_rollout_error_is_the_sum_of_injected_errors_carried_forward(s: System) -> None:
    path, epsilon = rolled(s)
    for h in range(1, epsilon.shape[1] + 1):
        close(recursion.exact_error(s.A_hat, epsilon[:, :h]), path.e[:, h])
        close(act(s.A_hat, path.e[:, h - 1]) + epsilon[:, h - 1], path.e[:, h])


@given(systems())
def test_a_wrong_start_adds_its_own_error_to_the_sum(s: System) -> None:
    """ẑ_0 = z_0 is an assumption: without it Â^h e_0 is missing from the sum."""
    path, epsilon = rolled(s)
    h = epsilon.shape[1]
    z_hat = path.z_hat[:, 0] - 1.0
    for _ in range(h):
        z_hat = act(s.A_hat, z_hat)
    missing = path.z[:, h] - z_hat - recursion.exact_error(s.A_hat, epsilon)
    close(missing, act(power(s.A_hat, h), np.ones_like(z_hat)))


def test_error_need_not_grow_with_the_horizon() -> None:
    """The terms are vectors: a second defect can undo the first."""
    e_1 = recursion.exact_error(np.eye(1), np.array([[1.0]]))
    e_2 = recursion.exact_error(np.eye(1), np.array([[1.0], [-1.0]]))
    assert norm(e_1) == 1
    assert norm(e_2) == 0


@given(systems())
def test_physical_error_is_readout_residual_plus_decoded_error(s: System) -> None:
    """For the linear probe and for a curved one; the mean squares need the cross term."""
    path, _ = rolled(s)
    phi, z, z_hat = path.phi[:, -1], path.z[:, -1], path.z_hat[:, -1]
    truth = act(s.C_phys, phi)
    parts = linear.physical_error(s.C_phys, s.R, s.W, phi, path.e[:, -1])
    close(parts.total, truth - act(s.R, z_hat))

    readout, decoded = truth - np.tanh(act(s.R, z)), np.tanh(act(s.R, z)) - np.tanh(act(s.R, z_hat))
    total = np.mean(np.sum((truth - np.tanh(act(s.R, z_hat))) ** 2, axis=-1))
    squares = np.mean(np.sum(readout**2, axis=-1)) + np.mean(np.sum(decoded**2, axis=-1))
    close(total, squares + 2 * np.mean(np.sum(readout * decoded, axis=-1)))


def test_readout_and_rollout_errors_can_cancel_so_the_cross_term_matters() -> None:
    C_phys, R, W = np.ones((1, 1)), np.array([[0.5]]), np.eye(1)
    parts = linear.physical_error(C_phys, R, W, phi=np.array([1.0]), latent_error=np.array([-1.0]))
    assert parts.readout == 0.5
    assert parts.decoded == -0.5
    assert parts.total == 0


@given(systems(), horizons)
def test_gain_bounds_what_a_sequence_of_unit_errors_can_do(s: System, h: int) -> None:
    epsilon = np.random.default_rng(0).normal(size=(N, h, s.W.shape[1]))
    epsilon /= norm(epsilon)[..., None]
    gain = recursion.Gamma(s.R, s.A_hat, h)
    holds(norm(act(s.R, recursion.exact_error(s.A_hat, epsilon))), gain)
    holds(recursion.Gamma(s.R, s.A_hat, h - 1) if h > 1 else np.zeros(N), gain)


def test_gain_counts_only_what_the_readout_sees() -> None:
    """R reads the mode that fades; the one that grows does not enter: 1 + 1/2 + 1/4."""
    assert recursion.Gamma(np.array([[1.0, 0.0]]), np.diag([0.5, 2.0]), 3) == pytest.approx(1.75)


@given(st.floats(-1.5, 1.5), st.floats(-2, 2), horizons)
def test_gain_is_attained_by_a_scalar_system(a: float, r: float, h: int) -> None:
    gain = recursion.Gamma(np.array([[r]]), np.array([[a]]), h)
    assert gain == pytest.approx(abs(r) * sum(abs(a) ** q for q in range(h)))
    signs = np.array([[np.sign(a) ** (h - 1 - j)] for j in range(h)])
    assert abs(r * recursion.exact_error(np.array([[a]]), signs)) == pytest.approx(gain)


def pathwise(s: LawSystem, h: int, noise: float, scale: float = 1.0) -> tuple[np.ndarray, recursion.CentralBound]:
    """Physical error at horizon h and its bound, with B_z and B_φ taken from `scale` times the path."""
    rng = np.random.default_rng(h)
    Z, F = s.W.shape[1:]
    R, C_phys = rng.normal(size=(N, 2, Z)), rng.normal(size=(N, 2, F))
    # a test law near the training laws, or the powers of T overflow every scale
    g = s.laws.mean(axis=1) + rng.normal(size=N)
    star = s.psi(g)
    T, A_hat = coverage.family(star, s.T_k), coverage.family(star, s.A_k)
    xi = noise * rng.normal(size=(N, h, F))
    path = recursion.roll(s.W, T, A_hat, rng.normal(size=(N, F)), xi)
    B_z, B_phi = scale * norm(path.z[:, :-1]).max(axis=1), scale * norm(path.phi[:, :-1]).max(axis=1)
    eps_op, eps_cl = (np.sqrt(np.maximum(coverage.mean_square(k, s.M), 0)) for k in (s.E_k, s.C_k))
    local = coverage.local_bound(coverage.L_law(star, s.M), B_z, eps_op, B_phi, eps_cl)
    error = act(C_phys, path.phi[:, -1]) - act(R, path.z_hat[:, -1])
    return norm(error), recursion.central_bound(C_phys, R, s.W, A_hat, path.phi[:, -1], xi, local)


@given(law_systems(), horizons, st.sampled_from([0.0, 0.5]))
def test_central_bound_is_never_violated(s: LawSystem, h: int, noise: float) -> None:
    error, bound = pathwise(s, h, noise)
    holds(error / np.maximum(1, bound.total), bound.total / np.maximum(1, bound.total))


@given(st.floats(-10, 20), horizons, st.floats(0.1, 1.2), st.lists(st.floats(0, 8), min_size=3, max_size=8))
def test_central_bound_is_attained(g_star: float, h: int, a: float, laws: list[float]) -> None:
    """A feature that stands still, kept whole, and a predictor Â(g*) = a: equal defects, the worst family in g."""
    if np.std(laws) < 0.1:
        laws = [*laws, max(laws) + 1]
    M, star = coverage.M_psi(coverage.affine(np.array(laws))), coverage.affine(np.array(g_star))
    E_k = coverage.worst_family(star, M, np.eye(1)) * (1 - a) / coverage.L_law(star, M)  # E_A(g*) = 1 - a
    T, A_hat = np.eye(1), np.eye(1) - coverage.family(star, E_k)
    assert A_hat == pytest.approx(a)
    path = recursion.roll(np.eye(1), T, A_hat, np.array([2.0]), np.zeros((h, 1)))
    eps_op = np.sqrt(coverage.mean_square(E_k, M))
    local = coverage.local_bound(coverage.L_law(star, M), np.array(2.0), eps_op, np.array(2.0), np.array(0.0))
    bound = recursion.central_bound(np.eye(1), np.eye(1), np.eye(1), A_hat, path.phi[-1], np.zeros((h, 1)), local)
    assert norm(path.phi[-1] - path.z_hat[-1]) == pytest.approx(bound.total, rel=1e-9, abs=1e-12)


def test_central_bound_needs_each_of_its_terms_and_the_size_of_the_path() -> None:
    """T = diag(a, 0), latent = first feature. Dropping a term, or B_z below the path, makes the statement false."""
    W, R = np.eye(1, 2), np.eye(1)
    T, A_hat, C_phys = np.diag([0.9, 0.0]), np.array([[0.8]]), np.array([[1.0, 1.0]])
    xi = np.array([[0.5, 0.7]])
    path = recursion.roll(W, T, A_hat, np.array([2.0, 0.0]), xi)
    error = norm(act(C_phys, path.phi[-1]) - act(R, path.z_hat[-1]))

    def bound(B_z: float) -> recursion.CentralBound:
        local = coverage.local_bound(np.array(1.0), np.array(B_z), np.array(0.1), np.array(2.0), np.array(0.0))
        return recursion.central_bound(C_phys, R, W, A_hat, path.phi[-1], xi, local)

    honest = bound(B_z=2.0)
    assert error == pytest.approx(honest.total)  # all three add up here
    for term in (honest.readout, honest.law, honest.residual):
        assert error > honest.total - term + 0.1
    assert error > bound(B_z=1.0).total + 0.05


@given(seeds, horizons, st.integers(1, 3), st.integers(1, 3))
def test_second_moment_counts_every_pair_of_steps(seed: int, h: int, Z: int, S: int) -> None:
    """Over an empirical distribution both sides are the same finite sum, whatever mean and dependence the errors have."""
    rng = np.random.default_rng(seed)
    A_hat, R = rng.normal(size=(Z, Z)) * 0.7, rng.normal(size=(S, Z))
    epsilon = rng.normal(size=(50, h, Z)) + 1 + rng.normal(size=(50, 1, Z))
    moments = np.einsum("nia,njb->ijab", epsilon, epsilon) / 50
    direct = np.mean(np.sum(act(R, recursion.exact_error(A_hat, epsilon)) ** 2, axis=-1))
    close(recursion.second_moment(R, A_hat, moments), direct)


def test_leaving_out_dependence_between_steps_gets_the_second_moment_wrong() -> None:
    """The same unit error at each of four steps: 16, not 4; of alternating sign: 0."""
    for signs, wanted in [([1, 1, 1, 1], 16), ([1, -1, 1, -1], 0)]:
        epsilon = np.array(signs, float)[:, None]
        moments = np.einsum("ia,jb->ijab", epsilon, epsilon)
        assert recursion.second_moment(np.eye(1), np.eye(1), moments) == wanted
        alone = moments * np.eye(4)[:, :, None, None]
        assert recursion.second_moment(np.eye(1), np.eye(1), alone) == 4


@given(systems(), horizons)
def test_lipschitz_predictor_stays_below_the_compounded_defects(s: System, h: int) -> None:
    """Truth x -> T x, predictor x -> tanh(B x), whose Lipschitz constant is ‖B‖_2."""
    B = s.T + 0.1
    x, x_hat, d = s.phi, s.phi, []
    for _ in range(h):
        d.append(norm(np.tanh(act(B, x)) - act(s.T, x)))
        x, x_hat = act(s.T, x), np.tanh(act(B, x_hat))
    L = np.linalg.norm(B, 2, axis=(-2, -1))
    holds(norm(x_hat - x), recursion.lipschitz_bound(L, np.stack(d, axis=-1)))


@given(st.floats(0.1, 1.5), horizons)
def test_lipschitz_bound_is_attained_and_a_smaller_constant_is_refuted(L: float, h: int) -> None:
    x, x_hat = 1.0, 1.0
    for _ in range(h):
        x, x_hat = x, L * x_hat + (1.0 - L) + 0.5  # the truth stands still; each step misses it by 0.5 and pushes one way
    d = np.full(h, 0.5)
    assert x_hat - x == pytest.approx(recursion.lipschitz_bound(np.array(L), d))
    if h > 1:
        assert x_hat - x > recursion.lipschitz_bound(np.array(0.9 * L), d)


def test_lipschitz_bound_needs_a_common_start() -> None:
    """A perfect predictor of a body at rest, started 1 off: no defect, and an error of 1 for ever."""
    x, x_hat = 1.0, 2.0  # both stand still
    assert recursion.lipschitz_bound(np.array(1.0), np.zeros(5)) < x_hat - x


@given(law_systems())
def test_frobenius_errors_bound_the_operators_that_act(s: LawSystem) -> None:
    """Where the bounds lose: a Frobenius norm stands for what a matrix does to one vector."""
    E = coverage.family(s.star, s.E_k)
    x = np.random.default_rng(0).normal(size=(N, E.shape[-1]))
    holds(norm(act(E, x)), frobenius(E) * norm(x))
