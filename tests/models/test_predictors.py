"""Facts about the GRU, SSM and Transformer predictors."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from sgjepa.core.errors import InputError
from sgjepa.models.predictors.gru import GRU
from sgjepa.models.predictors.ssm import SSM, SelectiveSSM, scan, scan_reference
from sgjepa.models.predictors.transformer import VARIANTS, Transformer, variant

torch.set_num_threads(1)

Predictor = GRU | SSM | Transformer

SMALL: dict[str, Predictor] = {
    "gru": GRU(depth=2, width=16, mlp=24),
    "ssm": SSM(depth=2, width=16, mlp=24, state=4),
    "adaln": Transformer(depth=2, heads=2, head_dim=8, mlp=24, gate_init=0.1),
    "input_concat": Transformer(depth=2, heads=2, head_dim=8, mlp=24, condition="input_concat", gate_init=0.1),
    "block_concat": Transformer(depth=2, heads=2, head_dim=8, mlp=24, condition="block_concat", gate_init=0.1),
}
every_predictor = pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)


def build(config: Predictor) -> nn.Module:
    torch.manual_seed(0)
    predictor = config.build(latent=12, history=6)
    if isinstance(config, Transformer) and config.condition == "adaln":
        for name, parameter in predictor.named_parameters():
            if "modulation" in name:  # they start at zero, where the condition is not read yet
                nn.init.normal_(parameter, std=0.1)
    return predictor.eval()


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(3, 6, 12, generator=generator), torch.randn(3, 6, 12, generator=generator)


def count(config: Predictor) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in config.build(latent=256, history=20).parameters())


def test_parameter_counts_are_the_papers() -> None:
    assert count(GRU()) == 14_573_315
    assert count(SSM()) == 14_929_667
    assert count(Transformer()) == 14_978_560
    assert [round(count(GRU(depth=d)) / 1e6, 2) for d in (2, 4)] == [9.85, 19.3]


def test_conditioning_variants_are_matched_in_size() -> None:
    millions = {name: round(count(config) / 1e6, 2) for name, config in VARIANTS.items()}
    assert millions == {"adaln_0": 14.98, "adaln_0.1": 14.98, "adaln_1": 14.98, "input_concat": 14.98, "block_concat": 14.97}


def test_variants_follow_from_their_size() -> None:
    """The rule that sizes a variant gives the paper's widths, and equal counts for a small predictor too."""
    for name, config in VARIANTS.items():
        assert variant(name, Transformer(), latent=256) == config
    small = Transformer(depth=3, heads=4, head_dim=32, mlp=256)
    counts = []
    for name in VARIANTS:
        with torch.device("meta"):
            predictor = variant(name, small, latent=64).build(latent=64, history=10)
        counts.append(sum(p.numel() for p in predictor.parameters()))
    assert max(counts) < 1.01 * min(counts)


@every_predictor
def test_the_future_never_changes_a_prediction(config: Predictor) -> None:
    predictor, both = build(config).double(), [x.double() for x in inputs()]
    before = predictor(*both)
    for changed in (0, 1):
        for t in range(6):
            inner = [x.clone() for x in both]
            inner[changed][:, t] = torch.randn(3, 12)
            moved = (predictor(*inner) - before).abs().amax((0, 2)) > 1e-12
            assert moved.tolist() == [s >= t for s in range(6)]


@every_predictor
def test_a_short_window_is_the_start_of_a_long_one(config: Predictor) -> None:
    predictor, (z, c) = build(config), inputs()
    torch.testing.assert_close(predictor(z[:, :4], c[:, :4]), predictor(z, c)[:, :4], rtol=1e-4, atol=1e-5)


@every_predictor
def test_every_parameter_and_the_oldest_latent_get_a_gradient(config: Predictor) -> None:
    predictor, (z, c) = build(config), inputs()
    z.requires_grad_()
    predictor(z, c)[:, -1].square().sum().backward()
    assert z.grad is not None
    assert (z.grad[:, 0].abs().amax(-1) > 0).all()
    assert all(p.grad is not None for p in predictor.parameters())


@every_predictor
def test_predictors_repeat_themselves_in_eval_and_drop_out_in_training(config: Predictor) -> None:
    predictor, (z, c) = build(config), inputs()
    assert torch.equal(predictor(z, c), predictor(z, c))
    predictor.train()
    assert not torch.equal(predictor(z, c), predictor(z, c))


@pytest.mark.parametrize("gate", [0.0, 0.1, 1.0])
def test_adaln_starts_with_the_given_gate_and_without_the_condition(gate: float) -> None:
    torch.manual_seed(0)
    predictor = Transformer(depth=1, heads=2, head_dim=8, mlp=24, gate_init=gate).build(latent=12, history=6).eval()
    z, c = inputs()
    block = predictor.blocks[0]
    shift1, scale1, gate1, shift2, scale2, gate2 = block.modulation(c).chunk(6, dim=-1)
    assert all((t == 0).all() for t in (shift1, scale1, shift2, scale2))
    assert all(torch.allclose(t, torch.tensor(gate)) for t in (gate1, gate2))
    assert torch.equal(predictor(z, c), predictor(z, c + 1))
    if gate == 0:  # the block is the identity: the norm of the latent is all that is left
        x = z + predictor.position
        torch.testing.assert_close(predictor(z, c), nn.functional.layer_norm(x, (12,)))


def test_unknown_condition_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean adaln"):
        Transformer(condition="ada_ln")


def scan_inputs(dtype: torch.dtype, i: int = 12) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = ((3, 7, i), (3, 7, i), (i, 4), (3, 7, 4), (3, 7, 4))
    delta, x, rates, b, c = (torch.randn(shape, dtype=dtype) for shape in shapes)
    return [t.requires_grad_() for t in (nn.functional.softplus(delta), x, -rates.exp(), b, c)]


def test_scan_equals_reference_in_value_and_gradient() -> None:
    results = []
    for function in (scan, scan_reference):
        tensors = scan_inputs(torch.float32)
        y = function(*tensors)
        weights = torch.linspace(-1, 1, y.numel()).view_as(y)
        results.append((y.detach(), torch.autograd.grad((y.square() * weights).sum(), tensors)))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


def test_scan_gradient_is_the_finite_difference() -> None:
    tensors = scan_inputs(torch.float64, i=3)
    assert torch.autograd.gradcheck(scan, tensors)


def test_scan_keeps_float32_inside_autocast() -> None:
    torch.manual_seed(0)
    cell = SelectiveSSM(SSM(width=16, state=4))
    x = torch.randn(2, 6, 16)
    exact = cell(x)
    with torch.autocast("cpu", torch.bfloat16):
        rough = cell(x)
        halves = [t.detach().bfloat16() for t in scan_inputs(torch.float32)]
        assert scan(*halves).dtype == torch.float32
    rough.float().sum().backward()
    torch.testing.assert_close(rough.float(), exact, rtol=0.1, atol=0.02)


def test_ssm_computes_what_mambapy_computes() -> None:
    mamba = pytest.importorskip("mambapy.mamba")
    theirs = mamba.MambaBlock(mamba.MambaConfig(d_model=32, n_layers=1, d_state=8))
    ours = SelectiveSSM(SSM(width=32, state=8))
    names = {"in_proj": "input", "conv1d": "conv", "x_proj": "select", "dt_proj": "step", "out_proj": "output"}
    weights = theirs.state_dict()
    for old, new in names.items():
        weights = {name.replace(old, new): value for name, value in weights.items()}
    ours.load_state_dict(weights)
    x = torch.randn(2, 9, 32)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_only_the_ssm_rates_are_two_dimensional_without_being_matrices() -> None:
    for name, config in SMALL.items():
        model = copy.deepcopy(build(config))  # deepcopy drops attributes of plain parameters
        flagged = [n for n, p in model.named_parameters() if getattr(p, "no_matrix", False)]
        assert flagged == (["layers.0.cell.A_log", "layers.1.cell.A_log"] if name == "ssm" else [])
