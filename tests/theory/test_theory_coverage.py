"""Law coverage: lem. matrix-transfer, thm. local-ood-bound, cor. affine-coverage, cor. finite-design, prop.
ballistic-affine, and what happens when an assumption is missing.
"""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.systems import LawSystem, N, close, holds, horizons, law_systems, orthonormal_rows, seeds
from hypothesis import assume, given
from hypothesis import strategies as st

from sgjepa.laws import ClippedNormal
from sgjepa.theory import coverage, linear
from sgjepa.theory.coverage import T_ballistic, T_ballistic_power, ballistic_family
from sgjepa.theory.linear import act, frobenius, norm, power

gravities = st.lists(st.floats(-10, 20), min_size=3, max_size=12)
bases = st.sampled_from(sorted(coverage.BASES))


def errors(s: LawSystem) -> tuple[np.ndarray, np.ndarray]:
    """ε_op and ε_cl, straight from their definition: averages over the training laws."""
    psi = s.psi(s.laws)
    op = coverage.family(psi, s.E_k[:, None])
    cl = coverage.family(psi, s.C_k[:, None])
    return np.sqrt(np.mean(frobenius(op) ** 2, axis=1)), np.sqrt(np.mean(frobenius(cl) ** 2, axis=1))


@given(law_systems())
def test_training_error_of_a_family_follows_from_the_law_moment(s: LawSystem) -> None:
    eps_op, eps_cl = errors(s)
    close(np.sqrt(coverage.mean_square(s.E_k, s.M)), eps_op)
    close(np.sqrt(np.maximum(coverage.mean_square(s.C_k, s.M), 0)), eps_cl, 1e-6)  # a root near zero


@given(law_systems())
def test_transfer_is_never_violated(s: LawSystem) -> None:
    at_star = frobenius(coverage.family(s.star, s.E_k)) ** 2
    holds(at_star, coverage.transfer_bound(s.star, s.M, s.E_k))


@given(law_systems())
def test_transfer_is_attained_by_the_worst_family(s: LawSystem) -> None:
    E_0 = np.random.default_rng(0).normal(size=(2, 3))
    worst = coverage.worst_family(s.star, s.M, E_0)
    at_star, bound = frobenius(coverage.family(s.star, worst)) ** 2, coverage.transfer_bound(s.star, s.M, worst)
    np.testing.assert_allclose(at_star[s.well], bound[s.well], rtol=1e-9)


@given(law_systems(), st.floats(0.1, 3), st.floats(0.1, 3))
def test_local_error_at_an_unseen_gravity_stays_below_its_bound(s: LawSystem, B_z: float, B_phi: float) -> None:
    eps_op, eps_cl = errors(s)
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(N, s.W.shape[2]))
    z = act(s.W, phi)
    shrink = np.minimum(B_z / np.maximum(norm(z), 1e-12), B_phi / norm(phi))[:, None]
    T, A_hat = coverage.family(s.star, s.T_k), coverage.family(s.star, s.A_k)
    delta = linear.delta(s.W, T, A_hat, phi * np.minimum(shrink, 1))
    holds(norm(delta), coverage.local_bound(coverage.L_law(s.star, s.M), B_z, eps_op, B_phi, eps_cl))


@given(gravities, st.floats(-10, 20), st.floats(0.1, 10))
def test_local_bound_is_attained_by_a_discarded_feature(laws: list[float], g_star: float, B_phi: float) -> None:
    """Z = 1, F = 2: the kept feature is still, the discarded one moves it with the worst dependence on g."""
    assume(np.std(laws) > 0.1)
    M, star = coverage.M_psi(coverage.affine(np.array(laws))), coverage.affine(np.array(g_star))
    T_k = coverage.worst_family(star, M, np.array([[0.0, 1.0], [0.0, 0.0]]))
    W, A_hat, phi = np.eye(1, 2), np.zeros((1, 1)), np.array([0.0, B_phi])
    delta = linear.delta(W, coverage.family(star, T_k), A_hat, phi)
    eps_cl = np.sqrt(coverage.mean_square(linear.C_W(W, T_k), M))
    assert norm(delta) == pytest.approx(coverage.local_bound(coverage.L_law(star, M), 0.0, 0.0, B_phi, eps_cl), rel=1e-6)


@given(law_systems())
def test_joint_bound_holds_and_is_never_above_the_local_one(s: LawSystem) -> None:
    eps_op, eps_cl = errors(s)
    phi = np.random.default_rng(0).normal(size=(N, s.W.shape[2]))
    L = coverage.L_law(s.star, s.M)
    joint = coverage.joint_bound(L, norm(phi), eps_op, eps_cl)
    T, A_hat = coverage.family(s.star, s.T_k), coverage.family(s.star, s.A_k)
    holds(norm(linear.delta(s.W, T, A_hat, phi)), joint)
    holds(joint, coverage.local_bound(L, norm(phi), eps_op, norm(phi), eps_cl))
    # it rests on the two parts reading orthogonal directions
    whole = linear.E_A(s.W, T, A_hat) @ s.W + linear.C_W(s.W, T)
    close(frobenius(whole) ** 2, frobenius(linear.E_A(s.W, T, A_hat)) ** 2 + frobenius(linear.C_W(s.W, T)) ** 2)


@given(st.floats(-10, 20), st.floats(0.2, 1.4))
def test_joint_bound_is_attained_where_the_local_one_is_not(g_star: float, angle: float) -> None:
    """Predictor and closure error at once, the state along the row that both make up."""
    M, star = coverage.M_psi(coverage.affine(np.array([3.0, 4.0, 6.0]))), coverage.affine(np.array(g_star))
    row = np.array([np.cos(angle), np.sin(angle)])
    T_k = coverage.worst_family(star, M, np.array([row, [0.0, 0.0]]))
    W, A_hat, phi = np.eye(1, 2), np.zeros((1, 1)), 2 * row
    eps_op, eps_cl = (np.sqrt(coverage.mean_square(k, M)) for k in (linear.A_W(W, T_k), linear.C_W(W, T_k)))
    L, found = coverage.L_law(star, M), norm(linear.delta(W, coverage.family(star, T_k), A_hat, phi))
    assert found == pytest.approx(coverage.joint_bound(L, np.array(2.0), eps_op, eps_cl), rel=1e-9)
    assert found < 0.99 * coverage.local_bound(L, np.array(2.0), eps_op, np.array(2.0), eps_cl)


@given(law_systems())
def test_local_bound_fails_for_a_state_outside_the_ball(s: LawSystem) -> None:
    """B_z and B_φ are assumptions: the defect is linear in the state, and a state far enough out passes any bound."""
    eps_op, eps_cl = errors(s)
    bound = coverage.local_bound(coverage.L_law(s.star, s.M), 1.0, eps_op, 1.0, eps_cl)
    T, A_hat = coverage.family(s.star, s.T_k), coverage.family(s.star, s.A_k)
    phi = np.random.default_rng(1).normal(size=(N, s.W.shape[2]))
    delta = norm(linear.delta(s.W, T, A_hat, phi))
    assume((delta > 1e-9).all())
    far = phi * (2 * bound / delta)[:, None]
    assert (norm(linear.delta(s.W, T, A_hat, far)) > bound).all()


@given(gravities, bases)
def test_coverage_averages_to_the_size_of_the_basis_at_home(laws: list[float], basis: str) -> None:
    """E_tr[L_law] = tr(M⁻¹M) = m, for any training laws that tell the basis apart."""
    Psi = coverage.BASES[basis](np.array(laws))
    assume(np.ptp(laws) > 0.1 and coverage.covered_directions(Psi) == Psi.shape[1])
    assert np.mean(len(laws) * coverage.leverage(Psi, Psi)) == pytest.approx(Psi.shape[1], rel=1e-9)


@given(gravities, st.floats(-10, 20), seeds)
def test_affine_coverage_is_one_plus_squared_distance_in_standard_deviations(
    laws: list[float], g_star: float, seed: int
) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(laws)))
    g = np.array(laws)
    mean = weights @ g
    std = np.sqrt(weights @ (g - mean) ** 2)
    assume(std > 0.1)
    found = coverage.L_law(coverage.affine(np.array(g_star)), coverage.M_psi(coverage.affine(g), weights))
    assert found == pytest.approx(coverage.affine_L_law(g_star, mean, std), rel=1e-9)


@given(law_systems(), seeds)
def test_coverage_does_not_depend_on_how_the_basis_is_written(s: LawSystem, seed: int) -> None:
    psi = s.psi(s.laws)
    change = orthonormal_rows(np.random.default_rng(seed), 1, psi.shape[-1], psi.shape[-1])[0] + 0.1 * np.eye(psi.shape[-1])
    there = coverage.L_law(s.star @ change.T, coverage.M_psi(psi @ change.T))
    np.testing.assert_allclose(there[s.well], coverage.L_law(s.star, s.M)[s.well], rtol=1e-9)


@given(law_systems())
def test_finite_design_is_the_same_factor_and_its_bound_holds(s: LawSystem) -> None:
    L = coverage.L_law(s.star, s.M)
    for i, (star, E_k) in enumerate(zip(s.star[:32], s.E_k, strict=False)):
        Psi = s.psi(s.laws[i])
        leverage = coverage.leverage(star, Psi)
        if s.well[i]:
            assert len(Psi) * leverage == pytest.approx(L[i], rel=1e-9)
        total = np.sum(frobenius(coverage.family(Psi, E_k)) ** 2)
        holds(frobenius(coverage.family(star, E_k)) ** 2, leverage * total)


@pytest.mark.parametrize("floor", [-100.0, 0.1, 3.5, 4.0, 6.0])
@pytest.mark.parametrize(("mean", "std"), [(4.0, 0.5), (0.0, 1.0), (-2.0, 3.0)])
def test_clipped_normal_moments_equal_the_integral(mean: float, std: float, floor: float) -> None:
    found = coverage.clipped_normal(mean, std, floor)
    # Gauss-Legendre on each side of the kink, 12 standard deviations out
    nodes, weights = np.polynomial.legendre.leggauss(400)
    wanted = np.zeros(5)
    kink = np.clip((floor - mean) / std, -12, 12)
    for low, high in [(-12.0, kink), (kink, 12.0)]:
        x = (high - low) / 2 * nodes + (high + low) / 2
        density = weights * (high - low) / 2 * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        g = np.maximum(mean + std * x, floor)
        wanted += [density @ g**k for k in range(5)]
    np.testing.assert_allclose(found.raw, wanted, rtol=1e-9, atol=1e-9)
    assert found.mean == pytest.approx(wanted[1], rel=1e-9, abs=1e-9)
    assert found.std == pytest.approx(np.sqrt(max(wanted[2] - wanted[1] ** 2, 0)), abs=2e-7 * abs(floor))


def test_clipped_normal_moments_are_those_of_the_datasets_sampler() -> None:
    sampler, rng = ClippedNormal(mean=4.0, std=0.5, floor=3.7), np.random.default_rng(0)
    drawn = np.array([sampler.sample(rng) for _ in range(20_000)])
    exact = coverage.clipped_normal(4.0, 0.5, 3.7)
    assert abs(drawn.mean() - exact.mean) < 4 * drawn.std() / 20_000**0.5
    assert drawn.std() == pytest.approx(exact.std, rel=0.03)
    assert exact.mean > 4.05
    assert exact.std < 0.45


def test_clipping_changes_coverage_only_where_the_floor_bites() -> None:
    g = np.array([-2.0, 10.0, 12.0])
    paper = coverage.clipped_normal(4.0, 0.5, 0.1)  # the floor is 7.8 standard deviations down
    np.testing.assert_allclose(
        coverage.affine_L_law(g, paper.mean, paper.std), coverage.affine_L_law(g, 4.0, 0.5), rtol=1e-11
    )
    assert coverage.affine_L_law(12.0, paper.mean, paper.std) == pytest.approx(257)
    high = coverage.clipped_normal(4.0, 0.5, 4.0)
    assert coverage.affine_L_law(12.0, high.mean, high.std) > 2 * 257
    M = coverage.M_psi_of_moments(high.raw)[:2, :2]
    close(coverage.L_law(coverage.affine(g), M), coverage.affine_L_law(g, high.mean, high.std))


@given(st.floats(-20, 20), st.floats(0.01, 0.5), horizons)
def test_free_flight_powers_are_one_long_step_and_affine_in_gravity(g: float, dt: float, h: int) -> None:
    T = T_ballistic(np.array(g), dt)
    close(power(T, h), T_ballistic_power(np.array(g), dt, h))
    close(coverage.family(coverage.affine(np.array(g)), ballistic_family(h * dt)), power(T, h))
    p, v, _ = act(T, np.array([1.0, 2.0, 1.0]))
    assert p == pytest.approx(1 + 2 * dt - g * dt**2 / 2)
    assert v == pytest.approx(2 - g * dt)


@given(gravities, st.floats(-10, 20), seeds)
def test_free_flight_fitted_in_its_own_basis_obeys_the_bound_end_to_end(laws: list[float], g_star: float, seed: int) -> None:
    """A full latent, W = I: no closure error, and a predictor off by an affine family."""
    assume(np.std(laws) > 0.1)
    rng = np.random.default_rng(seed)
    T_k = ballistic_family(1 / 16)
    A_k = T_k + rng.normal(size=T_k.shape) * 0.01
    psi, star = coverage.affine(np.array(laws)), coverage.affine(np.array(g_star))
    eps_op = np.sqrt(np.mean(frobenius(coverage.family(psi, T_k - A_k)) ** 2))
    phi = rng.normal(size=3)
    delta = linear.delta(np.eye(3), coverage.family(star, T_k), coverage.family(star, A_k), phi)
    L = coverage.L_law(star, coverage.M_psi(psi))
    holds(norm(delta), coverage.local_bound(L, norm(phi), eps_op, norm(phi), np.array(0.0)))


# what breaks it


@given(st.floats(-10, 20), st.floats(-10, 20), seeds)
def test_one_training_law_says_nothing_about_another(home: float, away: float, seed: int) -> None:
    """Prop. no-coverage: σ = 0 leaves a direction of (1, g) unseen, and an error can hide in it."""
    assume(abs(home - away) > 0.1)
    Psi = coverage.affine(np.full(5, home))
    (a,) = coverage.missing_directions(coverage.M_psi(Psi))
    E_k = coverage.invisible_family(a, np.random.default_rng(seed).normal(size=(2, 2)))
    assert np.abs(coverage.family(Psi, E_k)).max() < 1e-9
    assert frobenius(coverage.family(coverage.affine(np.array(away)), E_k)) > 1e-4
    assert coverage.covered_directions(Psi) == 1
    assert np.isinf(coverage.leverage(coverage.affine(np.array(away)), Psi))


@given(st.floats(-10, 20), seeds)
def test_a_missing_direction_that_the_test_law_does_not_use_is_harmless(home: float, seed: int) -> None:
    Psi = coverage.affine(np.full(5, home))
    star = coverage.affine(np.array(home))
    assert 5 * coverage.leverage(star, Psi) == pytest.approx(1)
    E_k = np.random.default_rng(seed).normal(size=(2, 2, 2))
    total = np.sum(frobenius(coverage.family(Psi, E_k)) ** 2)
    holds(frobenius(coverage.family(star, E_k)) ** 2, coverage.leverage(star, Psi) * total)


def test_two_laws_cover_the_affine_basis_and_not_the_quadratic_one() -> None:
    two = np.array([3.0, 5.0, 3.0, 5.0])
    assert coverage.covered_directions(coverage.affine(two)) == 2
    assert coverage.covered_directions(coverage.quadratic(two)) == 2
    assert np.isfinite(coverage.leverage(coverage.affine(np.array(9.0)), coverage.affine(two)))
    assert np.isinf(coverage.leverage(coverage.quadratic(np.array(9.0)), coverage.quadratic(two)))


@given(st.lists(st.integers(-10, 20), min_size=1, max_size=6, unique=True), st.integers(21, 30), seeds)
def test_conditioning_alone_does_not_guarantee_extrapolation(observed: list[int], g_star: int, seed: int) -> None:
    """Thm. conditioning-limit: the same at every observed law, anything at all at the next; finite coverage is no help."""
    rng = np.random.default_rng(seed)
    T_k, Q = rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 2))

    def A_0(g: float) -> np.ndarray:
        return coverage.family(coverage.affine(np.array(float(g))), T_k)

    A_1 = coverage.another_predictor(A_0, Q, observed, g_star)
    for g in observed:
        assert (A_1(g) == A_0(g)).all()
    close(A_1(g_star), A_0(g_star) + Q)
    if len(observed) >= 2:  # the affine basis is covered, and its bound with ε = 0 is broken: A_1 is not in the basis
        Psi = coverage.affine(np.array(observed, float))
        assert np.isfinite(coverage.leverage(coverage.affine(np.array(float(g_star))), Psi))
        eps = sum(frobenius(A_1(g) - A_0(g)) for g in observed)
        assert frobenius(A_1(g_star) - A_0(g_star)) > 1e-3 > eps == 0


@given(law_systems(), seeds)
def test_approximate_basis_bound_is_never_violated(s: LawSystem, seed: int) -> None:
    """The remainder is a sine of g, in no polynomial basis."""
    rho_0 = np.random.default_rng(seed).normal(size=s.E_k.shape[-2:])
    rho = np.sin(s.g_star)[:, None, None] * rho_0
    E = coverage.family(s.star, s.E_k) + rho
    eps_basis = np.sqrt(coverage.mean_square(s.E_k, s.M))
    holds(frobenius(E), coverage.approximate_basis_bound(coverage.L_law(s.star, s.M), eps_basis, frobenius(rho)))


@given(law_systems(), seeds)
def test_local_bound_with_remainders_is_never_violated(s: LawSystem, seed: int) -> None:
    """T gains a sine of g; what of it the latent keeps is ρ_op, what it discards ρ_cl, and each is needed somewhere."""
    rng = np.random.default_rng(seed)
    extra = np.sin(3 * s.g_star)[:, None, None] * rng.normal(size=s.T_k.shape[-2:])
    T, A_hat = coverage.family(s.star, s.T_k) + extra, coverage.family(s.star, s.A_k)
    phi = rng.normal(size=(N, s.W.shape[2]))
    B_z, B_phi = norm(act(s.W, phi)), norm(phi)
    eps = [np.sqrt(np.maximum(coverage.mean_square(k, s.M), 0)) for k in (s.E_k, s.C_k)]
    local = coverage.local_bound(coverage.L_law(s.star, s.M), B_z, eps[0], B_phi, eps[1])
    rho_op, rho_cl = frobenius(linear.A_W(s.W, extra)), frobenius(linear.C_W(s.W, extra))
    delta = linear.delta(s.W, T, A_hat, phi)
    holds(norm(delta), coverage.approximate_local_bound(local, B_z, rho_op, B_phi, rho_cl))


def test_local_bound_without_its_remainders_is_false() -> None:
    """A perfect affine predictor of an affine part; the truth has a sine more, kept (first) or discarded (second)."""
    zero, one = np.array(0.0), np.array(1.0)
    for W, phi in [(np.eye(1), np.array([1.0])), (np.eye(1, 2), np.array([0.0, 1.0]))]:
        extra = np.zeros((W.shape[1], W.shape[1]))
        extra[0, -1] = 0.5
        delta = linear.delta(W, extra, np.zeros((1, 1)), phi)
        rho = [frobenius(linear.A_W(W, extra)), frobenius(linear.C_W(W, extra))]
        assert norm(delta) == coverage.approximate_local_bound(zero, one, rho[0], one, rho[1]) == 0.5 > zero


def test_observed_error_may_hide_the_basis_part() -> None:
    """E_basis and ρ cancel on the training laws: no error is seen, yet the basis part alone is there, and at g* it shows."""
    laws, g_star = np.array([3.0, 4.0, 5.0]), 12.0
    E_k = np.array([[[0.0]], [[1.0]]])  # E_basis(g) = g

    def rho(g: float) -> float:
        return -g if g <= 5 else 0.0

    observed = [coverage.family(coverage.affine(np.array(g)), E_k)[0, 0] + rho(g) for g in laws]
    assert observed == [0, 0, 0]
    M, star = coverage.M_psi(coverage.affine(laws)), coverage.affine(np.array(g_star))
    L, eps_basis = coverage.L_law(star, M), np.sqrt(coverage.mean_square(E_k, M))
    assert frobenius(coverage.family(star, E_k)) == 12 > np.sqrt(L) * 0.0  # the bound with the observed error is false
    holds(np.array(12.0), coverage.approximate_basis_bound(L, eps_basis, np.array(0.0)))
