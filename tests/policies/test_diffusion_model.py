"""The noise schedule, its samplers and the network of the diffusion policy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from diffusers import DDIMScheduler, DDPMScheduler
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.policies.diffusion import pace
from sgjepa.policies.diffusion_model import (
    Diffusion,
    Mish,
    NetworkConfig,
    add_noise,
    alpha_bars,
    betas,
    ddim_step,
    ddpm_step,
    sample,
    visited,
)

torch.set_num_threads(1)

COSINE = {"num_train_timesteps": 100, "beta_schedule": "squaredcos_cap_v2", "clip_sample": True}


def test_the_schedule_has_the_numbers_of_diffusers() -> None:
    theirs = DDPMScheduler(**COSINE)
    np.testing.assert_allclose(betas(100), theirs.betas.numpy(), rtol=2e-5)
    np.testing.assert_allclose(alpha_bars(100), theirs.alphas_cumprod.numpy(), rtol=2e-5)  # theirs: products of float32
    x0, noise, step = torch.rand(7, 16, 3) * 2 - 1, torch.randn(7, 16, 3), torch.tensor([0, 1, 5, 20, 60, 98, 99])
    torch.testing.assert_close(add_noise(x0, noise, step, 100), theirs.add_noise(x0, noise, step), atol=1e-5, rtol=0)


@pytest.mark.parametrize("step", [99, 98, 60, 20, 1, 0])
def test_a_step_of_either_sampler_is_that_of_diffusers(step: int) -> None:
    """Also where x0 is clipped: the noise is as large as it can be."""
    source = torch.Generator().manual_seed(step)
    x, epsilon = torch.randn(2, 5, 16, 3, generator=source)
    ddpm, ddim = DDPMScheduler(**COSINE), DDIMScheduler(**COSINE)
    ddpm.set_timesteps(100)
    ddim.set_timesteps(100)
    mean, spread = ddpm_step(x, epsilon, step, 100)
    drawn = torch.randn(x.shape, generator=torch.Generator().manual_seed(1)) if step else torch.zeros_like(x)
    theirs = ddpm.step(epsilon, step, x, generator=torch.Generator().manual_seed(1)).prev_sample
    torch.testing.assert_close(mean + spread * drawn, theirs, atol=2e-5, rtol=0)
    bars = alpha_bars(100)
    ours = ddim_step(x, epsilon, bars[step], bars[step - 1] if step else 1.0)
    torch.testing.assert_close(ours, ddim.step(epsilon, step, x, eta=0.0).prev_sample, atol=2e-5, rtol=0)


def test_ddpm_from_noise_to_controls_is_that_of_diffusers() -> None:
    """A hundred steps with the same numbers, of a network that is no good."""
    torch.manual_seed(0)
    network = NetworkConfig(history=6, hidden=8, widths=(8, 16), step_width=8).build(5, 3, 1).eval()
    seen = network.seen(torch.randn(2, 6, 5), torch.randn(2, 1))
    noise = torch.randn(2, 100, 16, 3)

    def predict(x: Tensor, step: int) -> Tensor:
        return network(x, torch.full((2,), step), seen)

    theirs = DDPMScheduler(**COSINE)
    theirs.set_timesteps(100)
    with torch.no_grad():
        ours, x = sample(predict, noise, Diffusion(100)), noise[:, 0]
        for draw, step in enumerate(theirs.timesteps.tolist(), start=1):
            spread = theirs._get_variance(step).sqrt() if step else 0.0
            quiet = theirs.step(predict(x, step), step, x, generator=torch.Generator().manual_seed(1)).prev_sample
            quiet -= spread * torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
            x = quiet + (spread * noise[:, draw] if step else 0.0)
    torch.testing.assert_close(ours, x, atol=1e-3, rtol=0)


def test_what_is_left_of_the_signal_falls_as_a_squared_cosine() -> None:
    steps = 100
    angle = (np.arange(1, steps + 1) / steps + 0.008) / 1.008 * np.pi / 2
    expected = np.cos(angle) ** 2 / math.cos(0.008 / 1.008 * math.pi / 2) ** 2
    np.testing.assert_allclose(alpha_bars(steps)[:-1], expected[:-1], rtol=1e-12)  # the last beta is cut at 0.999


def test_the_lower_end_of_beta_matters_only_where_steps_are_many() -> None:
    assert betas(100)[0] > 1e-4
    assert betas(1000)[0] == 1e-4  # diffusers, without a lower end, has 4.1e-5 there
    assert betas(100)[-1] == 0.999


def test_ddim_visits_evenly_rounded_steps() -> None:
    assert visited(Diffusion(100, "ddim", 10)) == [99, 88, 77, 66, 55, 44, 33, 22, 11, 0]
    assert visited(Diffusion(50, "ddim", 4)) == [49, 33, 16, 0]


@pytest.mark.parametrize("diffusion", [Diffusion(100), Diffusion(100, "ddim", 10), Diffusion(7, "ddim", 1)])
def test_samplers_find_the_only_controls_there_are(diffusion: Diffusion) -> None:
    truth = torch.linspace(-0.9, 0.9, 48).reshape(1, 16, 3)
    bars = alpha_bars(diffusion.steps)

    def predict(x: Tensor, step: int) -> Tensor:
        return (x - math.sqrt(bars[step]) * truth) / math.sqrt(1 - bars[step])

    noise = torch.randn(2, diffusion.draws, 16, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sample(predict, noise, diffusion), truth.expand(2, -1, -1), atol=2e-3, rtol=0)


def spread_of_ddpm(spread: float, steps: int) -> float:
    """What DDPM makes of normal controls if the noise is guessed as well as can be: every step is linear in x."""
    variance, beta, bars = 1.0, betas(steps), np.append(alpha_bars(steps), 1.0)  # bars[-1]: before the first step
    for k in reversed(range(steps)):
        now, before = bars[k], bars[k - 1]
        guess = math.sqrt(now) * spread**2 / (now * spread**2 + 1 - now)  # of x0, per x
        slope = math.sqrt(before) * beta[k] * guess + math.sqrt(1 - beta[k]) * (1 - before)
        variance = (slope / (1 - now)) ** 2 * variance + beta[k] * (1 - before) / (1 - now)
    return math.sqrt(variance)


def test_ddpm_narrows_what_was_learned_as_much_as_its_posterior_says_and_less_with_more_steps() -> None:
    """The posterior's variance takes x0 for known: right for one control alone, too small for a spread of them."""
    spread, diffusion = 0.25, Diffusion(100)
    bars = alpha_bars(100)

    def predict(x: Tensor, step: int) -> Tensor:  # the best guess of the noise if controls are normal
        return math.sqrt(1 - bars[step]) / (bars[step] * spread**2 + 1 - bars[step]) * x

    noise = torch.randn(4000, diffusion.draws, 4, 1, generator=torch.Generator().manual_seed(0))
    found = sample(predict, noise, diffusion)
    assert float(found.mean()) == pytest.approx(0.0, abs=0.01)
    assert float(found.std()) == pytest.approx(spread_of_ddpm(spread, 100), rel=0.02)  # three standard errors
    narrowed = [spread - spread_of_ddpm(spread, steps) for steps in (50, 100, 1000)]
    assert narrowed == sorted(narrowed, reverse=True)
    assert 0 < narrowed[-1] < 0.01 * spread


def test_noise_is_added_as_the_schedule_says() -> None:
    x0, noise = torch.full((2, 3, 1), 0.5), torch.full((2, 3, 1), -2.0)
    x = add_noise(x0, noise, torch.tensor([0, 99]), 100)
    for row, step in enumerate((0, 99)):
        left = alpha_bars(100)[step]
        assert x[row, 0, 0].item() == pytest.approx(math.sqrt(left) * 0.5 - 2 * math.sqrt(1 - left), abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sampler": "euler"}, "unknown sampler 'euler'"),
        ({"sampler": "ddpm", "sampled": 10}, "ddpm takes all 100 steps"),
        ({"sampler": "ddim", "sampled": 101}, "ddim takes at most 100 steps"),
        ({"steps": 0}, "steps"),
    ],
)
def test_a_sampling_that_cannot_be_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Diffusion(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("features", "controls", "laws", "count"),
    [
        (256, 5, 1, 69_689_605),  # paddle and Franka
        (256, 3, 1, 69_686_019),  # catcher
        (384, 5, 1, 69_787_909),  # DINO-WM's features
        (256, 3, 0, 69_686_019 - 2 * 7168),  # no law: one number less for the scale and shift of 7,168 channels
    ],
)
def test_the_papers_network_has_the_reference_parameters(features: int, controls: int, laws: int, count: int) -> None:
    with torch.device("meta"):
        network = NetworkConfig().build(features, controls, laws)
    assert sum(p.numel() for p in network.parameters()) == count


def test_the_network_answers_for_every_control_and_depends_on_all_it_is_told() -> None:
    torch.manual_seed(0)
    network = NetworkConfig(history=6, hidden=8, widths=(8, 16, 16), step_width=8).build(5, 3, 2)
    features, law, x, step = torch.randn(4, 6, 5), torch.randn(4, 2), torch.randn(4, 16, 3), torch.arange(4)
    out = network(x, step, network.seen(features, law))
    assert out.shape == x.shape
    for changed in (
        network(x, step, network.seen(features, law + 1)),
        network(x, step + 1, network.seen(features, law)),
        network(x, step, network.seen(features.flip(1), law)),
        network(x + 1, step, network.seen(features, law)),
    ):
        assert not torch.allclose(out, changed, atol=1e-4)
    torch.testing.assert_close(network(x[1:2], step[1:2], network.seen(features[1:2], law[1:2])), out[1:2])


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"widths": (12, 24)}, "8 groups"), ({"horizon": 6, "widths": (8, 16, 32)}, "halved 2 times"), ({"kernel": 4}, "odd")],
)
def test_a_network_that_cannot_be_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        NetworkConfig(**settings)  # type: ignore[arg-type]


def test_mish_and_its_derivative_are_pytorchs_also_where_an_exponential_would_overflow() -> None:
    for kind, close in ((torch.float64, 1e-14), (torch.float32, 2e-6)):
        x = torch.cat([torch.linspace(-60, 60, 2001), torch.tensor([-1e4, 0.0, 1e4])]).to(kind)
        slopes = torch.randn(x.shape, dtype=kind, generator=torch.Generator().manual_seed(0))
        found = []
        for way in (Mish(), F.mish):
            given = x.clone().requires_grad_()
            y = way(given)
            y.backward(slopes)
            found.append((y.detach(), given.grad))
        torch.testing.assert_close(found[0], found[1], atol=close, rtol=close)
    assert torch.autograd.gradcheck(Mish(), torch.linspace(-30, 30, 50, dtype=torch.float64, requires_grad=True))


def test_changes_are_shown_beside_features_in_units_of_their_usual_size() -> None:
    """The same as a network without them that is shown both by hand; of the oldest frame no change is known."""
    cfg = NetworkConfig(history=6, horizon=8, hidden=16, layers=2, widths=(8, 16), step_width=8, changes=True)
    shown = torch.randn(50, 6, 5, generator=torch.Generator().manual_seed(0)).cumsum(dim=1) * torch.tensor([1, 2, 3, 4, 0.0])
    torch.manual_seed(0)
    with_changes, plain = cfg.build(5, 3, 1), replace(cfg, changes=False).build(10, 3, 1)
    assert with_changes.pace is not None
    with_changes.pace.copy_(pace(shown))
    torch.testing.assert_close(with_changes.pace, torch.tensor([1.0, 2, 3, 4, 1]), rtol=0.2, atol=0)
    kept = {name: value for name, value in with_changes.state_dict().items() if name != "pace"}
    plain.load_state_dict(kept)
    changes = [torch.zeros(50, 5), *((shown[:, t] - shown[:, t - 1]) / with_changes.pace for t in range(1, 6))]
    both = torch.cat([shown, torch.stack(changes, dim=1)], dim=-1)
    law = torch.randn(50, 1)
    torch.testing.assert_close(with_changes.seen(shown, law), plain.seen(both, law))


def test_the_pace_is_kept_with_the_weights_and_not_trained() -> None:
    network = NetworkConfig(hidden=8, layers=1, widths=(8, 16), step_width=8, changes=True).build(5, 3, 1)
    assert "pace" in network.state_dict()
    assert "pace" not in dict(network.named_parameters())
    assert "pace" not in NetworkConfig(hidden=8, widths=(8, 16)).build(5, 3, 1).state_dict()
