"""SIGReg's local covariance penalty (prop. sigreg), and that the training code computes that statistic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fixtures.systems import close, seeds
from hypothesis import given
from hypothesis import strategies as st

from sgjepa.theory import sigreg as theory
from sgjepa.training import sigreg as training


def sphere(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Directions (d, M) and weights (M,) that integrate smooth functions over the sphere exactly, d = 2 or 3."""
    angle = 2 * np.pi * np.arange(32) / 32
    if d == 2:
        return np.stack([np.cos(angle), np.sin(angle)]), np.full(32, 1 / 32)
    height, weight = np.polynomial.legendre.leggauss(16)
    z, turn = (x.ravel() for x in np.meshgrid(height, angle, indexing="ij"))
    flat = np.sqrt(1 - z**2)
    return np.stack([flat * np.cos(turn), flat * np.sin(turn), z]), np.repeat(weight, 32) / 64


def symmetric(seed: int, d: int) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(d, d))
    return (root + root.T) / np.linalg.norm(root + root.T)


def test_knots_and_weights_are_the_training_codes() -> None:
    t, weights = training.knots_and_weights(torch.zeros(1, dtype=torch.float64))
    close(theory.knots()[0], t.numpy(), 1e-15)
    close(theory.knots()[1], weights.numpy(), 1e-15)


@given(seeds, st.sampled_from([2, 3]))
def test_moments_over_the_sphere(seed: int, d: int) -> None:
    directions, weights = sphere(d)
    Delta = symmetric(seed, d)
    eta = theory.variances(Delta, directions)
    close(np.array(theory.spherical_moments(Delta)), np.array([weights @ eta, weights @ eta**2]))


@given(seeds, st.sampled_from([2, 3]), st.integers(1, 256))
def test_expansions_are_right_to_third_order(seed: int, d: int, B: int) -> None:
    """The remainder stays below a cubic in ‖Δ‖; a wrong slope or curvature would pass it by far at this size."""
    directions, weights = sphere(d)
    Delta = symmetric(seed, d)

    def remainders(size: float) -> np.ndarray:
        v = theory.variances(np.eye(d) + size * Delta, directions)
        return np.array(
            [
                weights @ theory.population(v, B) - theory.population_expansion(size * Delta, B),
                weights @ theory.expected(v, B) - theory.empirical_expansion(size * Delta, B),
            ]
        )

    # 0.036 B is the largest cubic coefficient over 600 random Δ; a traceless Δ at d = 2 has none, so no ratio is formed
    assert (np.abs(remainders(0.01)) < 0.05 * B * 0.01**3).all()
    assert (np.abs(remainders(0.005)) < 0.05 * B * 0.005**3).all()
    # and the quadratic form is really there
    second = 2 * np.sum(Delta**2) + np.trace(Delta) ** 2
    assert theory.population_expansion(0.01 * Delta, B) == pytest.approx(theory.kappa(B, d) * 1e-4 * second)


@given(st.floats(0.05, 4), st.integers(1, 512))
def test_finite_batch_bias_is_one_minus_the_squared_characteristic_function(v: float, B: int) -> None:
    """Batch by batch for B = 1 and 2 samples on Gauss-Hermite nodes: the mean of the statistic is an integral."""
    t, weights = theory.knots()
    wanted = B * (np.exp(-(t**2) * v / 2) - np.exp(-(t**2) / 2)) ** 2 + 1 - np.exp(-(t**2) * v)
    assert theory.expected(np.array(v), B) == pytest.approx(wanted @ weights, rel=1e-12)
    nodes, chance = np.polynomial.hermite_e.hermegauss(60)
    chance = chance / chance.sum()
    wave = np.exp(1j * np.sqrt(v) * nodes[:, None] * t)  # (60, 17)
    gauss = np.exp(-(t**2) / 2)
    one = chance @ (np.abs(wave - gauss) ** 2 @ weights)
    two = np.einsum("i,j,ijk,k->", chance, chance, 2 * np.abs((wave[:, None] + wave[None]) / 2 - gauss) ** 2, weights)
    assert theory.expected(np.array(v), 1) == pytest.approx(one, rel=1e-6)
    assert theory.expected(np.array(v), 2) == pytest.approx(two, rel=1e-6)


@pytest.mark.parametrize(("batch", "d"), [(4, 2), (16, 8), (64, 16)])
@pytest.mark.parametrize("spread", [0.0, 0.3, 1.5])
def test_training_statistic_has_the_expected_value_of_the_theory(batch: int, d: int, spread: float) -> None:
    """4,000 batches of Gaussian latents of covariance C: the mean of the training code's value, within 4 standard errors."""
    rng = np.random.default_rng(batch)
    C = np.eye(d) + spread * np.cov(rng.normal(size=(d, 3 * d)))
    directions = training.draw_directions(d, torch.Generator().manual_seed(1), count=8).double()
    z = rng.normal(size=(batch, 4000, d)) @ np.linalg.cholesky(C).T  # each time step is an independent batch
    values = np.array([training.sigreg(torch.from_numpy(z[:, t : t + 50]), directions).item() for t in range(0, 4000, 50)])
    wanted = theory.expected(theory.variances(C, directions.numpy()), batch).mean()
    standard_error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - wanted) < 4 * standard_error
    assert standard_error < 0.03 * wanted


def test_dependent_samples_have_another_expectation() -> None:
    """Independence is an assumption: a batch of pairs is a batch of half the size, twice over."""
    rng = np.random.default_rng(0)
    directions = training.draw_directions(4, torch.Generator().manual_seed(1), count=8).double()
    half = rng.normal(size=(8, 2000, 4))
    pairs = torch.from_numpy(np.concatenate([half, half]))
    assert training.sigreg(pairs, directions).item() == pytest.approx(2 * theory.C_0(), rel=0.1)


def test_the_expansion_is_local_and_for_zero_mean() -> None:
    """Far from identity the quadratic overshoots four times over; a mean of 1 costs what no covariance term knows of."""
    far = 3 * np.eye(4)
    assert theory.population_expansion(far, 64) > 4 * theory.population(np.array(4.0), 64)
    shifted = torch.from_numpy(np.random.default_rng(0).normal(size=(64, 50, 4)) + 1)
    directions = training.draw_directions(4, torch.Generator().manual_seed(1), count=64).double()
    assert training.sigreg(shifted, directions).item() > 3 * theory.expected(np.array(1.0), 64)


def test_other_shapes_of_identity_covariance_are_not_free() -> None:
    """Gaussianity is an assumption: coin flips have covariance I, and SIGReg sees what covariance does not."""
    coins = np.random.default_rng(0).choice([-1.0, 1.0], size=(1000, 20, 2))
    axis = torch.eye(2, dtype=torch.float64)
    assert training.sigreg(torch.from_numpy(coins), axis).item() > 20 * theory.C_0()


@pytest.mark.parametrize("d", [2, 16, 256])
def test_identity_is_the_population_minimum_and_not_the_batch_minimum(d: int) -> None:
    """The slope β pulls a finite batch inwards; identity is a strict minimum only without it."""
    identity = np.eye(d)
    for sign in (-1, 1):
        assert theory.population_expansion(sign * 0.01 * identity, 64) > 0
    assert theory.beta(d) > 0
    assert theory.empirical_expansion(-0.01 * identity, 64) < theory.C_0() < theory.empirical_expansion(0.01 * identity, 64)
    assert theory.kappa_emp(64, d) == pytest.approx(theory.kappa(64, d) * 62 / 64)
    assert theory.kappa_emp(2, d) == 0 > theory.kappa_emp(1, d)


@pytest.mark.parametrize("B", [3, 8, 64, 128, 1024])
def test_variance_that_a_batch_favours(B: int) -> None:
    favoured = theory.favoured_variance(B)
    v = np.linspace(0.001, 1.5, 20_000)
    assert favoured == pytest.approx(v[theory.expected(v, B).argmin()], abs=1e-4)
    first_order = 1 - theory.beta(1) / (2 * (B - 2) * theory.kappa(1, 1) * 3)
    assert abs(favoured - first_order) < 12 / B**2 if B > 8 else favoured > first_order
    assert favoured < theory.favoured_variance(B + 1) < 1
    if B == 128:
        assert favoured == pytest.approx(0.9844, abs=1e-4)


def test_a_batch_of_one_favours_collapse() -> None:
    v = np.linspace(0, 2, 201)
    assert (np.diff(theory.expected(v, 1)) > 0).all()
    assert theory.favoured_variance(1) == pytest.approx(0, abs=1e-9)


def test_constant_is_the_value_the_training_code_promises() -> None:
    assert theory.C_0() == pytest.approx(1.0525, abs=5e-5)
    assert theory.expected(np.array(1.0), 64) == pytest.approx(theory.C_0(), rel=1e-12)
    assert theory.expected(np.array(0.0), 64) == pytest.approx(0.40205 * 64, rel=1e-4)  # collapse
