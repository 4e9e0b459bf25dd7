"""Rollouts of many candidates from one past: the planner's way is the plain rollout of every candidate by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.models.candidate_rollouts import prepare_candidate_rollout, rollout_candidates, rollout_candidates_plain
from sgjepa.models.jepa import JEPA
from sgjepa.recipes.training import recipe

torch.set_num_threads(1)
METHODS = ("gru", "ssm", "transformer", "transformer_input_concat", "transformer_block_concat", "lewm")


def built(method: str, residual: bool) -> JEPA:
    """Off its start, where some weights are zero and would hide what differs."""
    torch.manual_seed(0)
    config = recipe(f"square_{method}", "mini").model
    model = replace(config, latent=16, history=6, residual=residual, projector_width=24).build().eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def given(model: JEPA, frames: int, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Two pasts, three candidates each."""
    generator = torch.Generator().manual_seed(1)
    shapes = ((2, frames, 16), (2, frames - 1, 16), (2, 3, steps, 16))
    z, past, c = (torch.randn(*shape, generator=generator) for shape in shapes)
    return z, past, c


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("frames", "steps"), [(6, 4), (6, 9), (3, 3), (3, 7), (1, 5), (6, 1)])
def test_futures_are_those_of_the_plain_rollout(method: str, residual: bool, frames: int, steps: int) -> None:
    """With a full past, one that is still growing, and none but the first frame."""
    model = built(method, residual)
    asked = given(model, frames, steps)
    with torch.no_grad():
        expected = rollout_candidates_plain(model, *asked, history=6)
        found = rollout_candidates(model, *asked, history=6)
    assert found.shape == (2, 3, steps, 16)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_candidates_do_not_touch_each_other() -> None:
    model = built("gru", residual=False)
    z, past, c = given(model, 6, 4)
    changed = c.clone()
    changed[0, 1] += 1
    before, after = rollout_candidates(model, z, past, c, 6), rollout_candidates(model, z, past, changed, 6)
    assert not torch.allclose(before[0, 1], after[0, 1], atol=1e-4)
    torch.testing.assert_close(before[0, [0, 2]], after[0, [0, 2]])
    torch.testing.assert_close(before[1], after[1])


def test_pasts_and_futures_must_fit() -> None:
    model = built("gru", residual=False)
    z, past, c = given(model, 6, 4)
    with pytest.raises(InputError, match="6 latents of 2 pasts need 5 conditions between them, got 4 of 2"):
        rollout_candidates(model, z, past[:, 1:], c, 6)
    with pytest.raises(InputError, match="candidates of 1 pasts were given, and there are 2 pasts"):
        rollout_candidates(model, z, past, c[:1], 6)


@pytest.mark.parametrize("method", ["gru", "ssm", "transformer"])
def test_what_is_known_of_a_past_can_be_asked_again_and_again(method: str) -> None:
    model = built(method, residual=True)
    z, past, c = given(model, 6, 4)
    ask = prepare_candidate_rollout(model, z, past, 4, 6)
    first = ask(c)
    ask(c + 1)
    assert torch.equal(ask(c), first)
    assert torch.equal(rollout_candidates(model, z, past, c, 6), first)
