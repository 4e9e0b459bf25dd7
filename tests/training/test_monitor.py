"""Signs of collapse: known ranks, and a word for each way latents can go wrong."""

from __future__ import annotations

import pytest
import torch

from sgjepa.training.validation import effective_rank, latent_health, warning


def latents() -> torch.Tensor:
    return torch.randn(40, 50, 16, generator=torch.Generator().manual_seed(0))


def test_effective_rank_counts_equal_directions() -> None:
    assert effective_rank(latents().flatten(0, 1)) == pytest.approx(16, rel=0.02)
    assert effective_rank(latents().flatten(0, 1) * (torch.arange(16) < 4)) == pytest.approx(4, rel=0.02)


def test_healthy_latents_need_no_word() -> None:
    assert warning(latent_health(latents()), 16) is None


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (torch.full((16,), 0.01), "latents are collapsing: mean standard deviation 0.010"),
        ((torch.arange(16) > 0).float(), "a latent dimension is dead: its standard deviation is 0.000"),
    ],
)
def test_a_collapse_is_said_in_words(scale: torch.Tensor, words: str) -> None:
    said = warning(latent_health(latents() * scale), 16)
    assert said is not None
    assert said.startswith(words)


def test_few_directions_are_said_in_words() -> None:
    line = latents()[..., :1] * torch.ones(64)  # every dimension alive, all the same
    said = warning(latent_health(line), 64)
    assert said is not None
    assert said.startswith("latents use few directions: effective rank 1.0 of 64")
