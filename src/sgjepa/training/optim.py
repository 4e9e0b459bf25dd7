"""The hybrid optimiser (paper, "Training setup"): Muon for matrices, AdamW for everything else, and the learning-rate plan.

Choices the paper leaves open follow the reference code: weight decay on every tensor, Muon's included, and gradients
clipped at global norm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError, unknown
from sgjepa.training.muon import Muon, torch_muon

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
    """How many gate matrices are stacked in each weight of a recurrent layer (GRU 3, LSTM 4)."""
    layers = [m for m in model.modules() if isinstance(m, nn.RNNBase)]
    return {p: len(p) // layer.hidden_size for layer in layers for p in layer.parameters() if p.dim() == 2}


def muon_for(
    device: str, matrices: list[nn.Parameter], gates: dict[nn.Parameter, int], cfg: OptimConfig
) -> dict[str, torch.optim.Optimizer]:
    """The Muon for a device, under its name: torch's on a GPU, ours elsewhere and wherever gates are taken apart.

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
    """Muon and AdamW behind one step, zero_grad, state_dict and load_state_dict."""

    def __init__(self, model: nn.Module, cfg: OptimConfig) -> None:
        matrices, others = split_parameters(model)
        if cfg.kind == "adamw":
            matrices, others = [], matrices + others
        gates = stacked_gates(model) if cfg.gates == "apart" else {}
        self.parameters = matrices + others
        self.clip = cfg.clip
        self.parts: dict[str, torch.optim.Optimizer] = {}
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
        """Continue exactly where `state_dict` was taken; rates are set anew by `scale_rates`."""
        if set(state) != set(self.parts):
            raise InputError(
                f"the saved optimiser has {sorted(state)}, this one {sorted(self.parts)}; "
                f"a run goes on with the settings and on the kind of device it began with"
            )
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
