"""Muon: momentum whose matrices are replaced by nearly orthogonal ones before they are applied (Jordan et al. 2024).

torch.optim.Muon is the same rule in bf16, which most CPUs compute many times slower than fp32. `Muon` is fp32 on a CPU,
takes matrices of one shape together and long ones by their small Gram matrix (benchmarks/muon.py), knows the paper's
`rms_scale`, and can treat the gates of a recurrent layer one by one. `torch_muon` is torch's at the paper's scale.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError, unknown

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steep at zero: five steps lift small singular values to 0.7 .. 1.2
STEPS = 5
EPS = 1e-7
RMS_SCALE = 0.4  # the paper's


def newton_schulz_reference(x: Tensor) -> Tensor:
    """Five plain steps X <- aX + b(XX')X + c(XX')²X; x (rows, cols) -> the same shape."""
    a, b, c = COEFFICIENTS
    if x.shape[0] > x.shape[1]:
        return newton_schulz_reference(x.T).T
    x = x / x.norm().clamp(min=EPS)
    for _ in range(STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def newton_schulz(x: Tensor) -> Tensor:
    """Five Newton-Schulz steps on a stack of wide matrices, x (N, rows, cols) with rows <= cols."""
    a, b, c = COEFFICIENTS
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp(min=EPS)
    # in bf16 the products of Gram matrices lose the small singular values
    if x.shape[2] >= 2 * x.shape[1] and x.dtype == torch.float32:
        return _from_gram(x)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _from_gram(x: Tensor) -> Tensor:
    """Each step multiplies X from the left by P = aI + bG + cG² with G = XX'; so follow G, and multiply X once.

    P is a polynomial in G, hence symmetric and commuting with it: the next step's Gram matrix is PGP.
    """
    a, b, c = COEFFICIENTS
    gram = x @ x.mT  # (N, rows, rows)
    product: Tensor | None = None
    for step in range(STEPS):
        p = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        p.diagonal(dim1=1, dim2=2).add_(a)
        product = p if product is None else p @ product
        if step < STEPS - 1:
            gram = p @ gram @ p
    assert product is not None
    return product @ x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised, scaled by rms_scale·sqrt(max(rows, cols)), with decoupled weight decay.

    The scale makes an update's root mean square about `rms_scale` times lr for any shape, as AdamW's is.
    A parameter group may set `row_blocks`: its matrices are that many stacked along the rows, each orthogonalised by itself.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        weight_decay: float = 1e-3,
        momentum: float = 0.95,
        rms_scale: float = RMS_SCALE,
        row_blocks: int = 1,
    ) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "rms_scale": rms_scale}
        super().__init__(params, {**defaults, "row_blocks": row_blocks})
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2 or p.shape[0] % group["row_blocks"]:
                    raise ValueError(f"Muon takes matrices of {group['row_blocks']} equal row blocks, got {tuple(p.shape)}")

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update from the gradients in place."""
        same_shape: dict[Any, list[tuple[Tensor, dict[str, Any]]]] = defaultdict(list)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    rows, cols = p.shape[0] // group["row_blocks"], p.shape[1]
                    same_shape[min(rows, cols), max(rows, cols), p.device].append((p, group))
        for (_, large, device), members in same_shape.items():
            dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
            directions = newton_schulz(torch.cat([self._momentum(p, group) for p, group in members]).to(dtype))
            sizes = [group["row_blocks"] for _, group in members]
            for (p, group), update in zip(members, torch.split(directions, sizes), strict=True):
                p.mul_(1 - group["lr"] * group["weight_decay"])
                scale = group["rms_scale"] * math.sqrt(large)
                p.add_(_oriented(update, p, group).reshape(p.shape), alpha=-group["lr"] * scale)

    def _momentum(self, p: Tensor, group: dict[str, Any]) -> Tensor:
        """The Nesterov direction as wide matrices, (row_blocks, small, large)."""
        assert p.grad is not None
        state = self.state[p]
        if not state:
            state["momentum"] = torch.zeros_like(p)
        state["momentum"].mul_(group["momentum"]).add_(p.grad)
        direction = p.grad.add(state["momentum"], alpha=group["momentum"])
        return _oriented(direction.reshape(group["row_blocks"], -1, p.shape[1]), p, group)


def torch_muon(params: list[torch.nn.Parameter], lr: float, weight_decay: float) -> torch.optim.Muon:
    """torch.optim.Muon whose updates are those of `Muon` up to bf16.

    Its scale is 0.2 sqrt(max(rows, cols)); a rate larger by 0.4 / 0.2 makes up for it, and a decay smaller by as much.
    """
    factor = RMS_SCALE / 0.2
    return torch.optim.Muon(params, lr=factor * lr, weight_decay=weight_decay / factor, adjust_lr_fn="match_rms_adamw")


def _oriented(blocks: Tensor, p: Tensor, group: dict[str, Any]) -> Tensor:
    """Transposed if the blocks of p are tall; its own inverse."""
    return blocks.mT if p.shape[0] > p.shape[1] * group["row_blocks"] else blocks


Kind: TypeAlias = Literal["muon", "adamw"]
Gates: TypeAlias = Literal["together", "apart"]


@dataclass(frozen=True)
class OptimConfig:
    """Rates are peak values; warm-up, cool-down and floor are fractions: of all updates, and of the peak."""

    kind: Kind = "muon"  # "adamw" gives it the matrices too, at `lr`
    lr_matrix: float = 1e-4
    lr: float = 5e-5
    weight_decay: float = 1e-3
    clip: float = 1.0
    warmup: float = 0.05  # one of twenty epochs
    cooldown: float = 0.2
    floor: float = 0.1
    gates: Gates = "together"  # a recurrent layer's stacked gate matrices, for Muon

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise unknown("optimiser", self.kind, get_args(Kind))
        if self.gates not in get_args(Gates):
            raise unknown("treatment of gates", self.gates, get_args(Gates))
        rates = dict.fromkeys(("lr_matrix", "lr", "weight_decay", "clip"), (0, float("inf")))
        check_bounds(self, **rates, warmup=(0, 1), cooldown=(0, 1), floor=(0, 1))


def schedule(step: int, total: int, cfg: OptimConfig) -> float:
    """Factor on the learning rates at update `step` of 0 .. total - 1: linear up, flat, half a cosine down to the floor."""
    warm, cool = round(cfg.warmup * total), round(cfg.cooldown * total)
    if step < warm:
        return (step + 1) / warm
    left = total - 1 - step
    if left >= cool:
        return 1.0
    return cfg.floor + (1 - cfg.floor) * (1 - math.cos(math.pi * left / cool)) / 2


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Trainable tensors of exactly two dimensions, and all others.

    A parameter with `no_matrix = True` is a table rather than a linear map (the SSM's A_log) and goes with the others.
    """
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for p in model.parameters():
        if p.requires_grad:
            is_matrix = p.dim() == 2 and not getattr(p, "no_matrix", False)
            (matrices if is_matrix else others).append(p)
    return matrices, others


def stacked_gates(model: nn.Module) -> dict[nn.Parameter, int]:
    """The number of gate matrices stacked in each weight of a recurrent layer (GRU 3, LSTM 4)."""
    layers = [m for m in model.modules() if isinstance(m, nn.RNNBase)]
    return {p: len(p) // layer.hidden_size for layer in layers for p in layer.parameters() if p.dim() == 2}


def muon_for(
    device: str, matrices: list[nn.Parameter], gates: dict[nn.Parameter, int], cfg: OptimConfig
) -> dict[str, torch.optim.Optimizer]:
    """The Muon for a device, by name: torch's on a GPU, `Muon` otherwise and wherever gates are orthogonalised separately.

    The names differ because their momenta do: a run cannot change from one to the other.
    """
    if device == "cuda" and not gates:
        return {"torch_muon": torch_muon(matrices, cfg.lr_matrix, cfg.weight_decay)}
    groups = [
        {"params": [p for p in matrices if gates.get(p, 1) == blocks], "row_blocks": blocks}
        for blocks in sorted({gates.get(p, 1) for p in matrices})
    ]
    return {"muon": Muon(groups, lr=cfg.lr_matrix, weight_decay=cfg.weight_decay)}


class Hybrid:
    """Muon and AdamW with a common step, zero_grad, state_dict and load_state_dict."""

    parameters: list[nn.Parameter]
    clip: float
    parts: dict[str, torch.optim.Optimizer]

    def __init__(self, model: nn.Module, cfg: OptimConfig) -> None:
        matrices, others = split_parameters(model)
        if cfg.kind == "adamw":
            matrices, others = [], matrices + others
        gates = stacked_gates(model) if cfg.gates == "apart" else {}
        self.parameters = matrices + others
        self.clip = cfg.clip
        self.parts = {}
        if matrices:
            self.parts |= muon_for(matrices[0].device.type, matrices, gates, cfg)
        if others:
            # fused: four times faster than the loop over tensors, also on a CPU
            self.parts["adamw"] = torch.optim.AdamW(others, lr=cfg.lr, weight_decay=cfg.weight_decay, fused=True)
        self.peak = {name: part.param_groups[0]["lr"] for name, part in self.parts.items()}

    def scale_rates(self, factor: float) -> None:
        """Set every learning rate to its peak times `factor`."""
        for name, part in self.parts.items():
            for group in part.param_groups:
                group["lr"] = self.peak[name] * factor

    def clip_gradients(self) -> Tensor:
        """Scale the gradients down to norm `clip`; returns their norm before."""
        return nn.utils.clip_grad_norm_(self.parameters, self.clip)

    def step(self) -> None:
        """Update all parameters; clip the gradients before."""
        for part in self.parts.values():
            part.step()

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for part in self.parts.values():
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """Momenta, step counts and group settings of both optimisers."""
        return {name: part.state_dict() for name, part in self.parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of `state_dict`; learning rates are set again by `scale_rates`."""
        if set(state) != set(self.parts):
            raise InputError(
                f"the saved optimiser has {sorted(state)}, this one {sorted(self.parts)}; "
                f"a run goes on with the settings and on the kind of device it began with"
            )
        for name, part in self.parts.items():
            part.load_state_dict(state[name])


class AdamW(Hybrid):
    """AdamW over all parameters, without clipping of gradients."""

    def __init__(self, model: nn.Module, lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        self.parameters, self.clip = list(model.parameters()), math.inf
        self.parts = {"adamw": torch.optim.AdamW(self.parameters, lr, betas, weight_decay=weight_decay, fused=True)}
        self.peak = {"adamw": lr}
