"""The GRU predictor, the paper's default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sgjepa.core.config import check_bounds
from sgjepa.models.predictors.recurrent import RecurrentCell, RecurrentPredictor, State


@dataclass(frozen=True)
class GRU:
    """Settings of a GRU predictor: 14.57 M parameters by default, with latents of 256 and a history of 20."""

    depth: int = 3
    width: int = 512
    mlp: int = 2048
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_bounds(self, depth=(1, 1000), width=(1, 65_536), mlp=(1, 1_048_576), dropout=(0, 1))

    def build(self, latent: int, history: int) -> nn.Module:
        """Build the predictor for latents of this width."""
        return RecurrentPredictor(
            lambda: GRUCell(self.width), latent, history, self.depth, self.width, self.mlp, self.dropout
        )


class GRUCell(RecurrentCell):
    """nn.GRU without its final state. On a CPU it beats a loop over cells, and compiling either gains nothing."""

    scans = True

    def __init__(self, width: int):
        super().__init__()
        self.gru = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.gru(x)[0]
        return y

    def start(self, x: Tensor) -> tuple[Tensor, State]:
        y = self(x) if x.shape[1] else x
        return y, (y[:, -1] if x.shape[1] else x.new_zeros(len(x), x.shape[2]),)

    def advance(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y = torch.gru_cell(x, state[0], *self.gru.parameters())
        return y, (y,)

    def scan(self, x: Tensor, state: Tensor, counts: Sequence[int]) -> Tensor:
        weight_x, weight_h, bias_x, bias_h = self.gru.parameters()  # nn.GRU's order
        y: Tensor = _Scan.apply(F.linear(x, weight_x, bias_x), state, weight_h, bias_h, tuple(counts))  # type: ignore[no-untyped-call]
        return y


class _Scan(torch.autograd.Function):
    """The recurrence with a hand-written gradient: 8 operations per time step instead of autograd's 30.

    r, u = sigmoid(a[r, u] + b[r, u])     n = tanh(a[n] + r b[n])     h' = n + u (h - n)     b = W h + bias

    a (R, 3 w): the input's part of the gates, in nn.GRU's order r, u, n.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, state: Tensor, weight: Tensor, bias: Tensor, counts: tuple[int, ...]) -> Tensor:
        w = weight.shape[1]
        b, n, y = torch.empty_like(a), a.new_empty(len(a), w), a.new_empty(len(a), w)
        h = a.new_zeros(len(a), w)  # the state before each moment
        h[: len(state)] = state
        for rows, before in _moments(counts):
            if before is not None:
                h[rows.start : rows.start + before.stop - before.start] = y[before]
            torch.addmm(bias, h[rows], weight.T, out=b[rows])
            gates = b[rows, : 2 * w].add_(a[rows, : 2 * w]).sigmoid_()
            torch.addcmul(a[rows, 2 * w :], gates[:, :w], b[rows, 2 * w :], out=n[rows]).tanh_()
            torch.lerp(n[rows], h[rows], gates[:, w:], out=y[rows])
        ctx.counts, ctx.rows_before = counts, len(state)
        ctx.save_for_backward(b, n, h, weight)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        b, n, h, weight = ctx.saved_tensors
        w = weight.shape[1]
        r, u = b[:, :w], b[:, w : 2 * w]
        # terms that do not depend on later moments, for all of them together
        by_u = torch.ops.aten.sigmoid_backward(h - n, u)
        by_n = torch.ops.aten.tanh_backward(1 - u, n)
        by_r = torch.ops.aten.sigmoid_backward(b[:, 2 * w :], r)
        d_a, d_b = torch.empty_like(b), torch.empty_like(b)
        after: Tensor | None = None  # the gradient of the state before the next moment
        for rows, _ in reversed(list(_moments(ctx.counts))):
            d_y = grad[rows]
            if after is not None:
                d_y = d_y + after[: len(d_y)]
            d_n = torch.mul(d_y, by_n[rows], out=d_a[rows, 2 * w :])
            torch.mul(d_n, by_r[rows], out=d_b[rows, :w])
            torch.mul(d_y, by_u[rows], out=d_b[rows, w : 2 * w])
            torch.mul(d_n, r[rows], out=d_b[rows, 2 * w :])
            after = torch.addmm(d_y * u[rows], d_b[rows], weight)
        assert after is not None
        d_a[:, : 2 * w] = d_b[:, : 2 * w]
        return d_a, after[: ctx.rows_before], d_b.T @ h, d_b.sum(0), None


def _moments(counts: Sequence[int]) -> list[tuple[slice, slice | None]]:
    """The rows of each moment, and those of the moment before it."""
    rows = [slice(start, stop) for start, stop in pairwise(accumulate(counts, initial=0))]
    return list(zip(rows, [None, *rows[:-1]], strict=True))
