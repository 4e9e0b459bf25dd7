"""Muon: momentum whose matrices are replaced by nearly orthogonal ones before they are applied (Jordan et al. 2024).

torch.optim.Muon is the same rule in bf16, which most CPUs compute many times slower than fp32. `Muon` is fp32 on a CPU,
takes matrices of one shape together and long ones by their small Gram matrix (benchmarks/muon.py), knows the paper's
`rms_scale`, and can treat the gates of a recurrent layer one by one. `torch_muon` is torch's at the paper's scale.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

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
    """The same for a stack of wide matrices, x (N, rows, cols) with rows <= cols."""
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
    A parameter group may set `row_blocks`: its matrices are that many stacked along the rows, each orthogonalised alone.
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
