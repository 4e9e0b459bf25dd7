import copy
import math

import pytest
import torch
from torch import nn

from sgjepa.core import config
from sgjepa.core.errors import InputError
from sgjepa.training.optim import (
    Hybrid,
    Muon,
    OptimConfig,
    muon_for,
    newton_schulz,
    newton_schulz_reference,
    schedule,
    split_parameters,
    stacked_gates,
    torch_muon,
)

SHAPES = [(24, 24), (48, 24), (24, 48), (96, 24), (24, 100), (1, 30), (24, 48)]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def matrices(shapes=SHAPES, seed=0):
    source = generator(seed)
    return [torch.randn(shape, generator=source) for shape in shapes]


def with_gradients(shapes=SHAPES):
    parameters = [nn.Parameter(m) for m in matrices(shapes)]
    for p, grad in zip(parameters, matrices(shapes, seed=1), strict=True):
        p.grad = grad
    return parameters


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(3, 4, 1)
        self.gru = nn.GRU(4, 6, batch_first=True)
        self.norm = nn.LayerNorm(6)
        self.out = nn.Linear(6, 3)
        self.table = nn.Parameter(torch.randn(5, 3))
        self.table.no_matrix = True
        self.frozen = nn.Parameter(torch.randn(2, 2), requires_grad=False)

    def forward(self, x):
        hidden, _ = self.gru(self.conv(x).mT)
        return self.out(self.norm(hidden)) + self.table.sum(dim=0)


def train(model, optimizer, steps, total=10, cfg=OptimConfig()):  # noqa: B008 - frozen
    for step in steps:
        x = torch.randn(2, 3, 5, generator=generator(step))
        optimizer.scale_rates(schedule(step, total, cfg))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("shape", [(16, 16), (16, 24), (16, 32), (16, 80), (1, 20)])
def test_fast_newton_schulz_is_the_plain_one(shape):
    """Square and slightly wide ones step by step, from twice as long on by Gram matrices."""
    stack = torch.stack(matrices([shape] * 3))
    expected = torch.stack([newton_schulz_reference(m) for m in stack])
    torch.testing.assert_close(newton_schulz(stack), expected, rtol=0, atol=1e-4)
    exact = torch.stack([newton_schulz_reference(m.double()) for m in stack])
    torch.testing.assert_close(newton_schulz(stack).double(), exact, rtol=0, atol=1e-4)


def test_gram_form_holds_for_matrices_of_low_rank():
    low = matrices([(16, 2)])[0] @ matrices([(2, 64)], seed=1)[0]
    torch.testing.assert_close(newton_schulz(low[None])[0], newton_schulz_reference(low), rtol=0, atol=1e-4)


def test_newton_schulz_brings_singular_values_near_one():
    for m in matrices([(16, 16), (16, 40), (40, 16)]):
        # skip singular values below 1e-2 of the norm: five steps cannot lift them all the way
        before = torch.linalg.svdvals(m / m.norm())
        after = torch.linalg.svdvals(newton_schulz_reference(m))
        assert after.max() < 1.25
        assert after[before > 1e-2].min() > 0.6


def test_zero_gradient_gives_no_update():
    assert newton_schulz(torch.zeros(2, 3, 8)).abs().max() == 0


def test_an_update_is_the_orthogonalised_gradient_at_the_papers_scale():
    parameters = with_gradients()
    before = [p.detach().clone() for p in parameters]
    Muon(parameters, lr=0.01, weight_decay=0.1).step()
    for p, old in zip(parameters, before, strict=True):
        direction = newton_schulz_reference(p.grad)  # momentum only scales the first gradient
        expected = old * (1 - 0.01 * 0.1) - 0.01 * 0.4 * math.sqrt(max(p.shape)) * direction
        torch.testing.assert_close(p.detach(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [(64, 64), (64, 256), (192, 64)])
def test_an_updates_root_mean_square_does_not_depend_on_shape(shape):
    (p,) = with_gradients([shape])
    before = p.detach().clone()
    Muon([p], lr=1.0, weight_decay=0).step()
    assert (p.detach() - before).square().mean().sqrt().item() == pytest.approx(0.4, rel=0.15)


def test_muon_follows_torchs_own():
    """With the same settings, at other rates too: torch's runs in bf16, so within 3 % of the way gone."""
    ours, theirs = with_gradients(), with_gradients()
    start = [p.detach().clone() for p in ours]
    own = Muon(ours, lr=1e-3, weight_decay=0.1)
    other = torch_muon(theirs, lr=1e-3, weight_decay=0.1)
    for seed in range(4):
        for a, b, grad in zip(ours, theirs, matrices(seed=10 + seed), strict=True):
            a.grad, b.grad = grad.clone(), grad.clone()
        own.step()
        other.step()
    for a, b, old in zip(ours, theirs, start, strict=True):
        assert (a - b).norm() < 0.03 * (a - old).norm()


def test_a_gpu_takes_torchs_muon_and_a_cpu_ours():
    model = Small()
    matrices, _ = split_parameters(model)
    cfg = OptimConfig(lr_matrix=0.01, weight_decay=0.1)
    on_gpu, on_cpu = muon_for("cuda", matrices, {}, cfg), muon_for("cpu", matrices, {}, cfg)
    assert isinstance(on_gpu["torch_muon"], torch.optim.Muon)
    assert isinstance(on_cpu["muon"], Muon)
    apart = muon_for("cuda", matrices, stacked_gates(model), cfg)
    assert isinstance(apart["muon"], Muon), "torch's knows no blocks of rows"


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_torchs_decay_is_ours(decay):
    """Without a gradient's direction only the decay is left, which no bf16 touches."""
    ours, theirs = with_gradients(), with_gradients()
    for p in ours + theirs:
        p.grad.zero_()
    Muon(ours, lr=1e-2, weight_decay=decay).step()
    torch_muon(theirs, lr=1e-2, weight_decay=decay).step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_gates_apart_are_updated_as_separate_matrices():
    (stacked,) = with_gradients([(30, 12)])
    apart = [nn.Parameter(block.clone()) for block in stacked.detach().chunk(3)]
    for p, grad in zip(apart, stacked.grad.chunk(3), strict=True):
        p.grad = grad.clone()
    together = copy.deepcopy(stacked)
    together.grad = stacked.grad.clone()
    Muon([stacked], lr=0.1, row_blocks=3).step()
    Muon(apart, lr=0.1).step()
    Muon([together], lr=0.1).step()
    torch.testing.assert_close(stacked.detach(), torch.cat([p.detach() for p in apart]))
    assert (stacked - together).abs().max() > 1e-2


@pytest.mark.parametrize(("shape", "row_blocks"), [((4,), 1), ((2, 3, 4), 1), ((10, 4), 3)])
def test_muon_refuses_what_is_not_a_stack_of_matrices(shape, row_blocks):
    with pytest.raises(ValueError, match="matrices"):
        Muon([nn.Parameter(torch.zeros(shape))], row_blocks=row_blocks)


def test_matrices_go_to_muon_and_the_rest_to_adamw():
    model = Small()
    names = {id(p): name for name, p in model.named_parameters()}
    muon, adamw = ({names[id(p)] for p in part} for part in split_parameters(model))
    assert muon == {"gru.weight_ih_l0", "gru.weight_hh_l0", "out.weight"}
    biases = {"conv.bias", "gru.bias_ih_l0", "gru.bias_hh_l0", "norm.bias", "out.bias"}
    assert adamw == biases | {"conv.weight", "norm.weight", "table"}


def test_gates_are_found_in_recurrent_layers():
    model = nn.ModuleList([nn.GRU(4, 6), nn.LSTM(4, 6), nn.Linear(18, 6)])
    assert sorted(stacked_gates(model).values()) == [3, 3, 4, 4]
    groups = Hybrid(model, OptimConfig(gates="apart")).parts["muon"].param_groups
    assert [(group["row_blocks"], len(group["params"])) for group in groups] == [(1, 1), (3, 2), (4, 2)]


@pytest.mark.parametrize("gates", ["together", "apart"])
@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_resuming_is_bitwise_exact(tmp_path, kind, gates):
    cfg = OptimConfig(kind=kind, gates=gates, lr_matrix=0.01, lr=0.01)
    whole, first, second = Small(), Small(), Small()
    train(whole, Hybrid(whole, cfg), range(10))
    optimizer = Hybrid(first, cfg)
    train(first, optimizer, range(5))
    torch.save({"model": first.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "half.pt")
    saved = torch.load(tmp_path / "half.pt", weights_only=True)
    second.load_state_dict(saved["model"])
    resumed = Hybrid(second, cfg)
    resumed.load_state_dict(saved["optimizer"])
    train(second, resumed, range(5, 10))
    for one, other in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(whole.out.weight, first.out.weight)


def test_another_kind_of_optimiser_is_not_resumed():
    saved = Hybrid(Small(), OptimConfig()).state_dict()
    with pytest.raises(InputError, match="adamw"):
        Hybrid(Small(), OptimConfig(kind="adamw")).load_state_dict(saved)


def test_a_step_clips_the_gradient_and_reports_its_norm():
    model = nn.Linear(3, 2, bias=False)
    optimizer = Hybrid(model, OptimConfig(clip=1.0))
    model.weight.grad = torch.full((2, 3), 10.0)
    assert optimizer.clip_gradients().item() == pytest.approx(10 * math.sqrt(6))
    optimizer.step()
    assert model.weight.grad.norm().item() == pytest.approx(1, rel=1e-4)
    optimizer.zero_grad()
    assert model.weight.grad is None


def test_frozen_parameters_stay():
    model = Small()
    frozen = model.frozen.clone()
    train(model, Hybrid(model, OptimConfig()), range(2))
    assert torch.equal(model.frozen, frozen)


def test_schedule_rises_stays_and_falls_to_the_floor():
    cfg = OptimConfig(warmup=0.05, cooldown=0.2, floor=0.1)
    factors = [schedule(step, 1000, cfg) for step in range(1000)]
    assert factors[0] == pytest.approx(1 / 50)
    assert factors[24] == pytest.approx(0.5)
    assert set(factors[49:800]) == {1.0}
    assert factors[899] == pytest.approx(0.55)  # half way down the cosine
    assert factors[999] == pytest.approx(0.1)
    assert factors[800:] == sorted(factors[800:], reverse=True)


def test_schedule_may_be_constant():
    assert {schedule(step, 30, OptimConfig(warmup=0, cooldown=0)) for step in range(30)} == {1.0}


def test_rates_are_scaled_from_their_peaks():
    optimizer = Hybrid(Small(), OptimConfig(lr_matrix=0.2, lr=0.1))
    for factor in (0.5, 0.5, 1.0):  # not cumulative
        optimizer.scale_rates(factor)
        assert {name: part.param_groups[0]["lr"] for name, part in optimizer.parts.items()} == {
            "muon": 0.2 * factor,
            "adamw": 0.1 * factor,
        }


def test_config_survives_json():
    cfg = OptimConfig(kind="adamw", warmup=0.0)
    assert config.from_dict(OptimConfig, config.to_dict(cfg)) == cfg


@pytest.mark.parametrize("choice", [{"kind": "adamW"}, {"gates": "split"}])
def test_a_misspelt_choice_is_refused(choice):
    with pytest.raises(InputError, match="unknown"):
        OptimConfig(**choice)
