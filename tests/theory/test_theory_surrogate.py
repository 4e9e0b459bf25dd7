"""The linear surrogate gives back the operators of a system that is linear, and says where a model is not."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.systems import close, orthonormal_rows, seeds
from hypothesis import given
from hypothesis import strategies as st

from sgjepa.core.errors import InputError
from sgjepa.theory import linear, surrogate
from sgjepa.theory.linear import act, frobenius
from sgjepa.theory.surrogate import Transitions


def transitions(
    rng: np.random.Generator, W: np.ndarray, T: np.ndarray, A_hat: np.ndarray, n: int, noise: float = 0.0
) -> Transitions:
    """White features; extra mixes what is discarded with z, in other units."""
    phi = rng.normal(size=(n, W.shape[1]))
    discarded = np.linalg.svd(W)[2][len(W) :]  # orthonormal rows of the complement
    z_next = act(W, act(T, phi) + noise * rng.normal(size=phi.shape))
    z = act(W, phi)
    extra = act(discarded, phi) * 100.0 + 7.0 + 300.0 * z[:, :1]
    return Transitions(z, extra, z_next, act(A_hat, z))


@given(seeds, st.integers(2, 5), st.data())
def test_operators_of_a_linear_system_come_back(seed: int, F: int, data: st.DataObject) -> None:
    rng, Z = np.random.default_rng(seed), data.draw(st.integers(1, F - 1))
    W, A_hat = orthonormal_rows(rng, 1, Z, F)[0], rng.normal(size=(Z, Z))
    seen = {g: transitions(rng, W, rng.normal(size=(F, F)), A_hat, 400) for g in (3.0, 4.0)}
    found = surrogate.linear_surrogate(seen, {})
    discarded = surrogate.fit_discarded(np.concatenate([s.z for s in seen.values()]), *[_stack(seen, "extra")])
    for g, band in found.bands.items():
        s = seen[g]
        x = discarded(s.z, s.extra)
        close(s.z @ band.A_W[:, :-1].T + band.A_W[:, -1] + x @ band.C_W.T, s.z_next, 1e-8)
        close(band.A_hat[:, :-1], A_hat)
        assert band.residual_mse < 1e-12
        assert band.nonlinear < 1e-12


def _stack(seen: dict[float, Transitions], name: str) -> np.ndarray:
    return np.concatenate([getattr(s, name) for s in seen.values()])


def test_errors_are_the_papers_frobenius_norms_in_the_limit_of_many_transitions() -> None:
    """Features with exactly white moments would give them exactly; 200,000 draws and noise come within 2 %."""
    rng = np.random.default_rng(0)
    W, T = orthonormal_rows(rng, 1, 2, 4)[0], rng.normal(size=(4, 4))
    A_hat = linear.A_W(W, T) + 0.2 * rng.normal(size=(2, 2))
    found = surrogate.linear_surrogate({4.0: transitions(rng, W, T, A_hat, 200_000, noise=0.3)}, {})
    band = found.bands[4.0]
    operator, closure = frobenius(linear.E_A(W, T, A_hat)), frobenius(linear.C_W(W, T))
    assert band.operator == pytest.approx(operator, rel=0.02)
    assert band.closure == pytest.approx(closure, rel=0.02)
    assert band.closure_mse == pytest.approx(closure**2, rel=0.02)
    assert band.predictor_mse == pytest.approx(operator**2, rel=0.02)
    assert band.residual_mse == pytest.approx(2 * 0.3**2, rel=0.02)
    assert (found.eps_op, found.eps_cl) == (band.operator, band.closure)


def test_a_closed_latent_has_no_closure_error_and_a_lacking_one_has() -> None:
    """Place without speed is not closed; both together are."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=(500, 2))
    after = np.stack([state[:, 0] + 0.5 * state[:, 1], state[:, 1]], axis=1)
    both = Transitions(state, rng.normal(size=(500, 1)), after, after)
    place = Transitions(state[:, :1], state[:, 1:], after[:, :1], state[:, :1])
    assert surrogate.linear_surrogate({4.0: both}, {}).eps_cl < 1e-12
    assert surrogate.linear_surrogate({4.0: place}, {}).eps_cl == pytest.approx(0.5, rel=0.1)
    # what the latent already tells is not discarded: speed as extra adds nothing to a latent that holds it
    told = Transitions(state, state[:, 1:] * 3 + 1, after, after)
    assert surrogate.linear_surrogate({4.0: told}, {}).bands[4.0].C_W.shape == (2, 0)


def test_a_model_that_is_not_a_matrix_is_said_to_be_none() -> None:
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(2000, 1))
    curved = Transitions(z, rng.normal(size=(2000, 1)), z, np.cos(z))
    assert surrogate.linear_surrogate({4.0: curved}, {}).bands[4.0].nonlinear > 0.9


def test_averages_come_from_the_training_laws_and_test_bands_stand_beside_them() -> None:
    rng = np.random.default_rng(0)
    W, T = np.eye(1, 2), np.array([[0.5, 0.0], [0.0, 0.5]])
    small, large = np.array([[0.4]]), np.array([[-0.5]])
    training = {3.0: transitions(rng, W, T, small, 300), 4.0: transitions(rng, W, T, large, 100)}
    found = surrogate.linear_surrogate(training, {9.0: transitions(rng, W, T, 5 * large, 50)})
    assert list(found.bands) == [3.0, 4.0, 9.0]
    assert found.eps_op == pytest.approx(np.sqrt(0.75 * 0.1**2 + 0.25 * 1.0**2), rel=1e-6)
    assert found.bands[9.0].operator == pytest.approx(3.0, rel=1e-6)


def test_too_few_transitions_are_refused() -> None:
    rng = np.random.default_rng(0)
    few = Transitions(rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), rng.normal(size=(4, 3)), rng.normal(size=(4, 3)))
    with pytest.raises(InputError, match="needs more than 4 transitions"):
        surrogate.linear_surrogate({4.0: few}, {})
    with pytest.raises(InputError, match="at least one band"):
        surrogate.linear_surrogate({}, {})
