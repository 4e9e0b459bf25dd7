"""Faster ways that must give the plain way's numbers: windows side by side, attention of one token, norms of the stem."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgjepa.models.encoders.vit import NormReLU, ViT
from sgjepa.models.jepa import JEPA, JEPAConfig
from sgjepa.models.layers import Attention, Pixels
from sgjepa.models.predictors.gru import GRU, GRUCell
from sgjepa.models.predictors.parallel_rollout import Plan, can_run_in_parallel
from sgjepa.models.predictors.ssm import SSM
from sgjepa.models.rollout import rollout, unroll

torch.set_num_threads(1)

CONFIG = JEPAConfig(
    encoder=ViT(width=16, depth=1, heads=2, patch=8, image_size=32),
    predictor=GRU(depth=2, width=12, mlp=20, dropout=0.3),
    controls=2,
    laws=1,
    latent=6,
    projector_width=16,
    condition_width=8,
    history=5,
)


def build(config: JEPAConfig, training: bool = True) -> JEPA:
    torch.manual_seed(0)
    model = config.build().double().train(training)
    for parameter in model.pred_proj.last.parameters():
        nn.init.normal_(parameter, std=0.3)  # a residual model's start at zero
    return model


def followed(model: JEPA, steps: int, plainly: bool) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """Predictions, all gradients and the model's statistics, and what the random generator gives next."""
    source = torch.Generator().manual_seed(2)
    z = torch.randn(4, 5, 6, generator=source, dtype=torch.float64, requires_grad=True)
    c = torch.randn(4, 5 + steps, 6, generator=source, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    predicted = rollout(model, z, c, steps, history=5)[:, 5:] if plainly else unroll(model, z, c, steps)
    (predicted * torch.randn(predicted.shape, generator=source, dtype=torch.float64)).sum().backward()  # type: ignore[no-untyped-call]
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert z.grad is not None
    assert c.grad is not None
    return predicted, {**found, "z": z.grad, "c": c.grad, **dict(model.named_buffers())}, torch.rand(3)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("steps", [1, 3, 5, 8])  # also more than the history holds
@pytest.mark.parametrize("residual", [False, True])
def test_windows_side_by_side_are_windows_one_after_another(training: bool, steps: int, residual: bool) -> None:
    """Predictions, gradients, BatchNorm's statistics and the random numbers that dropout takes."""
    config = replace(CONFIG, residual=residual)
    one, other = (followed(build(config, training), steps, plainly) for plainly in (True, False))
    torch.testing.assert_close(one[0], other[0])
    assert one[1].keys() == other[1].keys()
    for name in one[1]:
        torch.testing.assert_close(one[1][name], other[1][name], rtol=1e-6, atol=1e-9, msg=name)
    assert torch.equal(one[2], other[2])


def test_a_predictor_that_cannot_go_on_from_a_state_is_unrolled_plainly() -> None:
    model = build(replace(CONFIG, predictor=SSM(depth=1, width=12, mlp=20, state=4, dropout=0.0)), training=False).float()
    assert not can_run_in_parallel(model.predictor)
    z, c = torch.randn(2, 5, 6), torch.randn(2, 8, 6)
    assert torch.equal(unroll(model, z, c, 4), rollout(model, z, c, 4, history=5)[:, 5:])


def test_mixed_precision_is_unrolled_plainly() -> None:
    model = build(CONFIG, training=False).float()
    z, c = torch.randn(2, 5, 6), torch.randn(2, 8, 6)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(unroll(model, z, c, 4), rollout(model, z, c, 4, history=5)[:, 5:])


def test_every_window_sees_every_frame_of_its_own_once() -> None:
    plan = Plan(history=4, steps=3)
    blocks = plan.blocks(0, 6)
    assert len(blocks) == 4 * 3
    for window in range(3):
        assert [frame for frame, of in blocks if of == window] == list(range(window, window + 4))


def test_a_cell_that_goes_on_from_a_state_is_the_cell() -> None:
    """Two sequences of four moments, cut in the middle; a third begins at the cut."""
    torch.manual_seed(0)
    cell, x = GRUCell(6), torch.randn(3, 4, 6)
    whole = cell(x)
    first = cell.scan(x[:2, :2].transpose(0, 1).flatten(0, 1), torch.zeros(0, 6), [2, 2])
    rows = [torch.cat([x[:2, 2 + t], x[2:, t]]) for t in range(2)]
    second = cell.scan(torch.cat(rows), first[-2:], [3, 3])
    torch.testing.assert_close(second[3:5], whole[:2, 3])
    torch.testing.assert_close(second[5], whole[2, 1])


def attention_reference(layer: Attention, x: Tensor) -> Tensor:
    h = layer.norm(x)
    q, k, v = (m(h).unflatten(-1, (layer.heads, -1)).transpose(1, 2) for m in (layer.query, layer.key, layer.value))
    y: Tensor = layer.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
    return y


@pytest.mark.parametrize("first", [None, 1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tokens", [5, 40])  # few, and many
def test_attention_of_few_tokens_and_of_one_is_attention(first: int | None, bias: bool, tokens: int) -> None:
    torch.manual_seed(0)
    layer = Attention(12, heads=3, head_dim=4, bias=bias).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, tokens, 12, dtype=torch.float64, requires_grad=True)
    found, wanted = layer(x, first), attention_reference(layer, x)[:, :first]
    torch.testing.assert_close(found, wanted)
    weights = torch.randn(wanted.shape, dtype=torch.float64)
    inputs = (x, *layer.parameters())
    for one, other in zip(*(torch.autograd.grad((y * weights).sum(), inputs) for y in (found, wanted)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format])
def test_the_stems_norm_is_groupnorm_and_relu(order: torch.memory_format) -> None:
    torch.manual_seed(0)
    layer = NormReLU(1, 6).double()
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    x = torch.randn(3, 6, 4, 4, dtype=torch.float64).contiguous(memory_format=order).requires_grad_()
    found, wanted = layer(x), F.relu(F.group_norm(x, 1, layer.weight, layer.bias))
    torch.testing.assert_close(found, wanted)
    weights = torch.randn_like(wanted)
    inputs = (x, layer.weight, layer.bias)
    for one, other in zip(*(torch.autograd.grad((y * weights).sum(), inputs) for y in (found, wanted)), strict=True):
        torch.testing.assert_close(one, other)


def test_pixels_are_the_same_in_either_order_of_memory() -> None:
    frames = torch.randint(0, 256, (2, 8, 6, 3), dtype=torch.uint8)
    plain, last = Pixels()(frames), Pixels(channels_last=True)(frames)
    assert torch.equal(plain, last)
    assert last.is_contiguous(memory_format=torch.channels_last)
