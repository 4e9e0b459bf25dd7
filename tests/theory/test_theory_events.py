"""Regimes and contact: lem. hybrid-telescope, thm. event-hinge, cor. ballistic-hinge."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.systems import close, horizons, seeds
from hypothesis import given
from hypothesis import strategies as st

from sgjepa.theory import coverage, events, horizon
from sgjepa.theory.coverage import T_ballistic_power


@given(seeds, horizons, st.integers(1, 4), st.data())
def test_defect_telescopes_across_changing_regimes(seed: int, h: int, F: int, data: st.DataObject) -> None:
    Z, rng = data.draw(st.integers(1, F)), np.random.default_rng(seed)
    W = rng.normal(size=(32, Z, F))  # any encoder: this identity does not ask for orthonormal rows
    Ts, As = [[rng.normal(size=(32, d, d)) / d for _ in range(h)] for d in (F, Z)]
    close(events.branch_telescope(W, Ts, As), events.branch_defect(W, Ts, As))
    same = events.branch_telescope(W, Ts[:1] * h, As[:1] * h)
    close(same, horizon.D(W, Ts[0], As[0], h))


def test_a_prediction_on_another_branch_is_outside_the_identity() -> None:
    """The truth bounces at the second step, the model later: every local defect along the true sequence is zero."""
    W, fly, bounce = np.eye(1), np.array([[1.0]]), np.array([[-1.0]])
    truth = [fly, bounce, fly]
    assert np.abs(events.branch_telescope(W, truth, truth)).max() == 0
    late = W @ fly @ bounce @ fly - fly @ fly @ W  # what the model does if its event has not come by step 3
    assert np.abs(late).max() == 2


def random_hinge(rng: np.random.Generator, d: int, m: int) -> events.Hinge:
    a = rng.normal(size=d)
    a /= np.linalg.norm(a)
    return events.Hinge(rng.normal(size=(m, d)), rng.normal(size=m), rng.normal(size=m) + 0.1, a, float(rng.normal()) * 0.3)


@given(seeds, st.integers(1, 4), st.integers(1, 3))
def test_hinge_is_recovered_from_data_and_from_branches(seed: int, d: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    F = random_hinge(rng, d, m)
    on_boundary = F.b * F.a
    x = on_boundary + rng.normal(size=(200, d))
    y = F(x)
    found = events.fit_hinge(x, y, F.a, F.b)
    close(found.u, F.u)
    close(found(x), y)
    joined = events.hinge_of_branches(F.A, F.c, F.A + np.outer(F.u, F.a), F.c - F.u * F.b)
    assert joined is not None
    close(np.outer(joined.u, joined.a), np.outer(F.u, F.a))
    above = x[x @ F.a > F.b]
    close(above @ F.A.T + F.c + np.outer(above @ F.a - F.b, F.u), F(above))  # the upper branch, as the theorem states it
    close(np.outer(above @ joined.a - joined.b, joined.u), np.outer(above @ F.a - F.b, F.u))
    if np.abs(F.u).max() > 0.05:
        assert events.affine_misfit(x, y) > 1e-3


@given(seeds, st.integers(1, 4))
def test_a_dictionary_that_reads_the_map_must_contain_the_hinge(seed: int, d: int) -> None:
    """(a'x - b)_+ = q'F(x) - q'(A x + c) with q'u = 1."""
    rng = np.random.default_rng(seed)
    F = random_hinge(rng, d, 3)
    x = F.b * F.a + rng.normal(size=(100, d))
    q = F.u / (F.u @ F.u)
    close(F(x) @ q - (x @ F.A.T + F.c) @ q, np.maximum(x @ F.a - F.b, 0))


@given(seeds, st.integers(1, 4))
def test_an_output_that_does_not_feel_the_slope_needs_no_hinge(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    F = random_hinge(rng, d, 2)
    blind = np.array([F.u[1], -F.u[0]])  # kept quantity, orthogonal to u
    x = F.b * F.a + rng.normal(size=(100, d))
    assert events.affine_misfit(x, (F(x) @ blind)[:, None]) < 1e-9
    assert events.hinge_of_branches(F.A, F.c, F.A, F.c) is None


@given(seeds, st.integers(2, 4))
def test_a_jump_is_not_a_hinge(seed: int, d: int) -> None:
    """Continuity is an assumption: restitution flips the speed at the floor, and no u repairs it."""
    rng = np.random.default_rng(seed)
    F = random_hinge(rng, d, 2)
    slope, offset = F.A + np.outer(F.u, F.a), F.c - F.u * F.b
    assert events.hinge_of_branches(F.A, F.c, slope, offset + np.array([F.u[1], -F.u[0]])) is None
    assert events.hinge_of_branches(F.A, F.c, slope + np.eye(2, d)[:, ::-1], offset) is None  # rank two
    assert events.hinge_of_branches(0 * F.A, 0 * F.c, np.eye(2, d), 0 * F.c) is None  # rank two, though it joins at 0
    x = F.b * F.a + rng.normal(size=(200, d))
    jump = F(x) + (x @ F.a > F.b)[:, None]
    assert np.abs(events.fit_hinge(x, jump, F.a, F.b)(x) - jump).max() > 0.1


@given(st.floats(0.1, 5), st.floats(0.1, 5), st.floats(-10, 20))
def test_clipped_height_is_a_hinge_in_gravity(a: float, b: float, g: float) -> None:
    assert events.clipped_height(g, a, b) == pytest.approx(events.gravity_hinge(g, a, b), abs=1e-9)


@given(st.floats(0.5, 5), st.floats(0.1, 5))
def test_no_affine_function_of_gravity_crosses_a_contact(a: float, b: float) -> None:
    """Its best affine fit over g_c ± 1 misses by an eighth to a quarter of b; on one side of g_c it is exact."""
    g_c = a / b
    across, before = np.linspace(g_c - 1, g_c + 1, 101)[:, None], np.linspace(g_c - 1, g_c, 101)[:, None]
    assert b / 8 < events.affine_misfit(across, events.clipped_height(across, a, b)) < b / 2
    assert events.affine_misfit(before, events.clipped_height(before, a, b)) < 1e-9


def test_a_dropped_body_meets_the_floor_at_the_gravity_of_the_corollary() -> None:
    """Height 1 m at rest, seen after 0.5 s: y = 1 - g/8, so g_c = 8; the affine coverage result holds below it only."""
    start, g = np.array([1.0, 0.0, 1.0]), np.array([2.0, 6.0, 7.9, 8.1, 12.0])
    free = (T_ballistic_power(g, 0.125, 4) @ start)[:, 0]
    seen = np.maximum(free, 0)
    close(seen, events.gravity_hinge(g, a=1.0, b=1 / 8))
    fit = np.linalg.lstsq(coverage.affine(g[:3]), seen[:3], rcond=None)[0]
    error = np.abs(coverage.affine(g) @ fit - seen)
    assert error[:3].max() < 1e-9
    assert error[4] == pytest.approx(0.5)  # 4 m/s² past the contact, at 1/8 m each
