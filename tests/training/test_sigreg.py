import numpy as np
import pytest
import torch

from sgjepa.training.sigreg import _parts, draw_directions, knots_and_weights, sigreg, sigreg_reference


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numpy_sigreg(z, directions):
    """The paper's formula, time step by time step; z (B, T, D)."""
    t = np.linspace(0, 3, 17)
    trapezoid = np.full(17, 3 / 16)
    trapezoid[[0, -1]] /= 2
    weights = 2 * trapezoid * np.exp(-(t**2) / 2)
    values = []
    for step in range(z.shape[1]):
        x = z[:, step] @ directions
        ecf = np.exp(1j * x[:, :, None] * t).mean(axis=0)
        values.append(len(z) * (np.abs(ecf - np.exp(-(t**2) / 2)) ** 2 @ weights))
    return np.mean(values)


def gradient(statistic, z, directions, **options):
    z = z.clone().requires_grad_()
    value = statistic(z, directions, **options)
    value.backward()
    return value.detach(), z.grad


def test_weights_are_a_doubled_trapezoid_times_a_gaussian():
    t, weights = knots_and_weights(torch.zeros(0, dtype=torch.float64))
    assert t[0] == 0
    assert t[-1] == 3
    assert weights.sum().item() == pytest.approx(2.4997, abs=5e-5)


def test_directions_have_unit_length_and_follow_the_generator():
    directions = draw_directions(256, generator())
    assert directions.shape == (256, 1024)
    torch.testing.assert_close(directions.norm(dim=0), torch.ones(1024))
    assert torch.equal(directions, draw_directions(256, generator()))
    assert not torch.equal(directions, draw_directions(256, generator(1)))


def test_directions_favour_no_axis():
    """E[a a'] = I / D: the mean of n = 20,000 within 5 standard errors (of an entry: at most √2 / (D √n))."""
    directions = draw_directions(4, generator(), count=20_000)
    second_moment = directions @ directions.T / 20_000
    assert (second_moment - torch.eye(4) / 4).abs().max() < 5 * 2**0.5 / 4 / 20_000**0.5


@pytest.mark.parametrize(("batch", "value"), [(64, 25.731), (32, 12.866)])
@pytest.mark.parametrize("statistic", [sigreg, sigreg_reference])
def test_collapsed_latents_cost_in_proportion_to_the_batch(statistic, batch, value):
    got = statistic(torch.zeros(batch, 3, 8), draw_directions(8, generator(), count=16))
    assert got.item() == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("batch", [8, 64])
def test_gaussian_latents_give_their_expected_value_whatever_the_batch(batch):
    """1.0525 = Σ ω (1 - exp(-t²)); the mean of 400 independent draws lies within 4 of its standard errors."""
    source = generator(3)
    # one direction per draw, so that the 400 values are independent
    draws = torch.stack(
        [sigreg(torch.randn(batch, 1, 8, generator=source), draw_directions(8, source, count=1)) for _ in range(400)]
    )
    standard_error = draws.std() / 400**0.5
    t, weights = knots_and_weights(draws)
    assert (weights @ (1 - torch.exp(-(t**2)))).item() == pytest.approx(1.0525, abs=5e-5)
    assert abs(draws.mean() - 1.0525) < 4 * standard_error
    assert standard_error < 0.06


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_too_narrow_and_too_wide_latents_cost_more(scale):
    z = torch.randn(64, 4, 16, generator=generator())
    directions = draw_directions(16, generator(1), count=256)
    assert sigreg(scale * z, directions) > 2 * sigreg(z, directions)


@pytest.mark.parametrize("statistic", [sigreg, sigreg_reference])
def test_both_forms_equal_the_formula_in_numpy(statistic):
    z = 1.5 * torch.randn(9, 4, 6, generator=generator(), dtype=torch.float64) + 0.3
    directions = draw_directions(6, generator(1), count=70).double()
    assert statistic(z, directions).item() == pytest.approx(numpy_sigreg(z.numpy(), directions.numpy()), rel=1e-12)


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_fast_value_and_gradient_agree_with_the_reference_in_double_precision(scale, flatten):
    """Scale 1e-3: near θ = 0 the recurrence grows rounding by l², its worst case. Scale 30: θ far outside (-π, π)."""
    z = scale * torch.randn(32, 5, 48, generator=generator())
    directions = draw_directions(48, generator(1), count=200)
    value, grad = gradient(sigreg, z, directions, flatten=flatten)
    exact, exact_grad = gradient(sigreg_reference, z.double(), directions.double(), flatten=flatten)
    assert value.item() == pytest.approx(exact.item(), rel=1e-5)
    # a projection of size 30 is itself rounded to 30 · 2^-24 in fp32, and a knot multiplies that by up to 3
    assert (grad - exact_grad).norm() < (1e-5 if scale <= 1 else 1e-4) * exact_grad.norm()


def test_directions_taken_in_several_parts_give_the_same():
    z = torch.randn(64, 25, 4, generator=generator())
    directions = draw_directions(4, generator(1), count=300)
    assert len(list(_parts(z, directions))) > 1
    value, grad = gradient(sigreg, z, directions)
    exact, exact_grad = gradient(sigreg_reference, z.double(), directions.double())
    assert value.item() == pytest.approx(exact.item(), rel=1e-5)
    assert (grad - exact_grad).norm() < 1e-5 * exact_grad.norm()


def test_fast_gradient_is_the_derivative():
    z = torch.randn(5, 2, 3, generator=generator(), dtype=torch.float64, requires_grad=True)
    directions = draw_directions(3, generator(1), count=7).double()
    assert torch.autograd.gradcheck(lambda z: sigreg(z, directions), (z,))


def test_flattened_form_is_one_batch_of_all_times():
    z = torch.randn(6, 5, 4, generator=generator())
    directions = draw_directions(4, generator(1), count=32)
    torch.testing.assert_close(sigreg(z, directions, flatten=True), sigreg(z.reshape(30, 1, 4), directions))
    assert not torch.allclose(sigreg(z, directions, flatten=True), sigreg(z, directions))


def test_statistic_stays_in_single_precision_under_autocast():
    z = torch.randn(16, 3, 32, generator=generator())
    directions = draw_directions(32, generator(1), count=64)
    plain, plain_grad = gradient(sigreg, z, directions)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (z[0] @ directions).dtype == torch.bfloat16  # autocast is really on
        value, grad = gradient(sigreg, z, directions)  # the backward pass runs inside autocast too
        half = sigreg(z.bfloat16(), directions)
    assert value.dtype == half.dtype == torch.float32
    assert torch.equal(value, plain)
    assert torch.equal(grad, plain_grad)
    assert torch.equal(half, sigreg(z.bfloat16().float(), directions))
