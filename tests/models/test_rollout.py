"""Facts about the one rollout: the semigroup property, the window, the gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.models.encoders.vit import ViT
from sgjepa.models.jepa import JEPA, JEPAConfig
from sgjepa.models.predictors.gru import GRU
from sgjepa.models.predictors.ssm import SSM
from sgjepa.models.predictors.transformer import Transformer
from sgjepa.models.rollout import one_step, rollout

torch.set_num_threads(1)

PREDICTORS: dict[str, GRU | SSM | Transformer] = {
    "gru": GRU(depth=2, width=16, mlp=24),
    "ssm": SSM(depth=1, width=16, mlp=24, state=4),
    "transformer": Transformer(depth=1, heads=2, head_dim=8, mlp=24, gate_init=1.0),
}
every_predictor = pytest.mark.parametrize("predictor", PREDICTORS.values(), ids=PREDICTORS)


def build(predictor: GRU | SSM | Transformer) -> JEPA:
    torch.manual_seed(0)
    encoder = ViT(width=8, depth=1, heads=1, patch=8, image_size=8)
    return JEPA(
        JEPAConfig(
            encoder=encoder,
            predictor=predictor,
            controls=1,
            laws=1,
            latent=12,
            projector_width=16,
            condition_width=16,
            history=4,
        )
    ).eval()


class Drift:
    """A model whose rollout is known: the next latent is the mean of the window plus the last condition."""

    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        mean = z.cumsum(1) / torch.arange(1, z.shape[1] + 1).view(-1, *[1] * (z.ndim - 2))
        return mean + c.view(*c.shape[:2], *[1] * (z.ndim - 3), c.shape[2])


@every_predictor
def test_rollout_composes(predictor: GRU | SSM | Transformer) -> None:
    model, z, c = build(predictor), torch.randn(3, 4, 12), torch.randn(3, 8, 12)
    whole = rollout(model, z, c, steps=5, history=4)
    parts = rollout(model, rollout(model, z, c, 3, 4), c, 2, 4)
    assert torch.equal(whole, parts)  # S(5) = S(2) after S(3)
    assert torch.equal(rollout(model, z, c, 0, 4), z)  # S(0) = 1
    assert torch.equal(whole[:, :4], z)


@every_predictor
def test_gradient_reaches_the_first_latent_through_all_steps(predictor: GRU | SSM | Transformer) -> None:
    model, c = build(predictor), torch.randn(3, 11, 12)
    z = torch.randn(3, 4, 12, requires_grad=True)
    rollout(model, z, c, steps=8, history=4)[:, -1].sum().backward()  # frame 11 sees no given latent directly
    assert z.grad is not None
    assert (z.grad.abs().amax(-1) > 0).all()


def test_rollout_is_the_recursion_written_out() -> None:
    z, c = torch.tensor([[[2.0], [4.0]]]), torch.tensor([[[9.0], [1.0], [10.0], [100.0]]])
    # mean(2, 4) + 1 = 4;  mean(4, 4) + 10 = 14;  mean(4, 14) + 100 = 109: step s uses the condition of the frame before
    assert rollout(Drift(), z, c, steps=3, history=2).flatten().tolist() == [2, 4, 4, 14, 109]


def test_one_step_starts_every_window_from_true_latents() -> None:
    z, c = torch.tensor([[[2.0], [4.0], [8.0], [0.0]]]), torch.tensor([[[9.0], [1.0], [10.0]]])
    # frame 2: mean(2, 4) + 1;  frame 3: mean(4, 8) + 10
    assert one_step(Drift(), z, c, history=2).flatten().tolist() == [4, 16]


@every_predictor
def test_one_step_is_a_rollout_of_one_step_from_every_frame(predictor: GRU | SSM | Transformer) -> None:
    model, z, c = build(predictor), torch.randn(3, 9, 12), torch.randn(3, 9, 12)
    stepped = one_step(model, z, c, history=4)
    for t in range(4, 9):
        torch.testing.assert_close(stepped[:, t - 4], rollout(model, z[:, :t], c, 1, history=4)[:, t])


def test_window_slides_and_forgets() -> None:
    z, c = torch.randn(2, 6, 3), torch.randn(2, 8, 3)
    changed = z.clone()
    changed[:, :3] += 1
    assert torch.equal(rollout(Drift(), z, c, 3, history=3)[:, 6:], rollout(Drift(), changed, c, 3, history=3)[:, 6:])


def test_patch_grids_roll_out_like_vectors() -> None:
    z, c = torch.randn(2, 4, 5, 3), torch.randn(2, 6, 3)
    grid = rollout(Drift(), z, c, steps=3, history=4)
    assert grid.shape == (2, 7, 5, 3)
    torch.testing.assert_close(grid[:, :, 2], rollout(Drift(), z[:, :, 2], c, steps=3, history=4))


def test_missing_conditions_are_named() -> None:
    with pytest.raises(InputError, match="need 8 conditions, got 7"):
        rollout(Drift(), torch.randn(1, 4, 3), torch.randn(1, 7, 3), steps=5, history=4)
