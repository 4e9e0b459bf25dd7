"""The SSM predictor: the same stack as the GRU's with a Mamba/S6 selective state space as its cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sgjepa.core.config import check_bounds
from sgjepa.models.layers import ElementwiseParameter
from sgjepa.models.predictors.recurrent import RecurrentCell, RecurrentPredictor, State

_ROWS = 32  # of a step at a time: at mini size half a megabyte of memory


@dataclass(frozen=True)
class SSM:
    """Settings of an SSM predictor: 14.93 M parameters by default, with latents of 256 and a history of 20."""

    depth: int = 3
    width: int = 512
    mlp: int = 2048
    dropout: float = 0.1
    state: int = 16
    conv: int = 4
    expand: int = 2

    def __post_init__(self) -> None:
        check_bounds(self, depth=(1, 1000), width=(1, 65_536), mlp=(1, 1_048_576), dropout=(0, 1))
        check_bounds(self, state=(1, 4096), conv=(1, 4096), expand=(1, 64))

    def build(self, latent: int, history: int) -> nn.Module:
        """Build the predictor for latents of this width."""
        return RecurrentPredictor(
            lambda: SelectiveSSM(self), latent, history, self.depth, self.width, self.mlp, self.dropout
        )


class SelectiveSSM(RecurrentCell):
    """x (B, T, width) -> (B, T, width), causal. I = expand * width inner channels, each with N = state numbers of memory."""

    def __init__(self, config: SSM):
        super().__init__()
        inner, rank = config.expand * config.width, math.ceil(config.width / 16)
        self.split = (rank, config.state, config.state)
        self.input = nn.Linear(config.width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, config.conv, groups=inner, padding=config.conv - 1)
        self.select = nn.Linear(inner, sum(self.split), bias=False)
        self.step = nn.Linear(rank, inner)
        nn.init.uniform_(self.step.weight, -(rank**-0.5), rank**-0.5)
        rates = torch.arange(1, config.state + 1, dtype=torch.float32)
        self.A_log = ElementwiseParameter(rates.log().repeat(inner, 1))  # (I, N)
        self.D = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.input(x).chunk(2, dim=-1)  # (B, T, I)
        # the convolution is padded on both sides; its first T outputs are the causal ones
        u = F.silu(self.conv(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        rank, B, C = self.select(u).split(self.split, dim=-1)
        delta = F.softplus(self.step(rank))
        y = scan(delta, delta * u, -self.A_log.exp(), B, C) + self.D * u
        out: Tensor = self.output(y * F.silu(gate))
        return out

    def start(self, x: Tensor) -> tuple[Tensor, State]:
        """x (B, T, width) -> (B, T, width), and the state: the inputs that the convolution still sees, and the memory."""
        inner, numbers = self.A_log.shape
        state: State = x.new_zeros(len(x), self.conv.kernel_size[0] - 1, inner), x.new_zeros(len(x), numbers, inner)
        answers = []
        for moment in x.unbind(1):
            y, state = self.advance(moment, state)
            answers.append(y)
        return (torch.stack(answers, dim=1) if answers else x), state

    def advance(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One step x (B, width); state: inputs (B, kernel - 1, I), and memory (B, N, I), which is written over."""
        inputs, h = state
        u, gate = self.input(x).chunk(2, dim=-1)  # (B, I)
        inputs = torch.cat([inputs, u[:, None]], dim=1)
        taps = self.conv.weight[:, 0].T  # (kernel, I)
        seen = (inputs * taps).sum(dim=1)
        u = F.silu(seen if self.conv.bias is None else seen + self.conv.bias)
        rank, B, C = self.select(u).split(self.split, dim=-1)
        delta = F.softplus(self.step(rank))
        y = scan_step(h, delta, delta * u, -self.A_log.exp().T.contiguous(), B, C) + self.D * u
        out: Tensor = self.output(y * F.silu(gate))
        return out, (inputs[:, 1:], h)


def scan_step(h: Tensor, delta: Tensor, x: Tensor, rates: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """One step of `scan_reference` for many rows: h (R, N, I) is written over, y (R, I) is returned. No gradient.

    delta, x (R, I)   rates: A as (N, I)   B, C (R, N). Some rows at a time: what they need stays in the processor's cache.
    """
    y, work = torch.empty_like(x), h.new_empty(min(len(h), _ROWS), *rates.shape)
    for some in range(0, len(h), _ROWS):
        rows = slice(some, some + _ROWS)
        part = h[rows]
        part.mul_(torch.mul(delta[rows, None], rates, out=work[: len(part)]).exp_())
        part.addcmul_(B[rows, :, None], x[rows, None])
        torch.bmm(C[rows, None], part, out=y[rows, None])
    return y


def scan_reference(delta: Tensor, x: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """h[t] = exp(delta[t] A) h[t - 1] + x[t] B[t],  y[t] = C[t] . h[t],  one step at a time.

    delta, x, y: (B, T, I)   A: (I, N), negative   B, C: (B, T, N), chosen by the input
    """
    h, y = torch.zeros_like(A), []
    for t in range(x.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + x[:, t, :, None] * B[:, t, None]  # (B, I, N)
        y.append((h * C[:, t, None]).sum(-1))
    return torch.stack(y, dim=1)


def scan(delta: Tensor, x: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """The scan of `scan_reference` with half the memory; never below float32.

    On one CPU thread 1.6 times as fast for 64 windows of 20 steps and no faster (1.05 times) for 8 (benchmarks/rollout.py).
    """
    with torch.autocast(x.device.type, enabled=False):
        tensors = (s if s.dtype == torch.float64 else s.float() for s in (delta, x, A, B, C))
        # exporters cannot see into a custom autograd function: one of them silently writes zeros in its place
        if torch.compiler.is_exporting() or torch.onnx.is_in_onnx_export():
            return scan_reference(*tensors)
        y: Tensor = _Scan.apply(*tensors)  # type: ignore[no-untyped-call]
        return y


class _Scan(torch.autograd.Function):
    """States as (B, N, I), so that every operation runs along the long axis; only they are kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, delta: Tensor, x: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
        rates = A.T.contiguous()
        y, states, h = torch.empty_like(x), [], x.new_zeros(len(x), *rates.shape)
        work = torch.empty_like(h)
        for t in range(x.shape[1]):
            h = h * torch.mul(delta[:, t, None], rates, out=work).exp_()
            h.addcmul_(B[:, t, :, None], x[:, t, None])
            y[:, t] = (C[:, t, None] @ h).squeeze(1)
            states.append(h)
        ctx.save_for_backward(delta, x, rates, B, C, *states)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        delta, x, rates, B, C, *states = ctx.saved_tensors
        d_delta, d_x, d_rates = torch.zeros_like(delta), torch.empty_like(x), torch.zeros_like(rates)
        d_B, d_C = torch.empty_like(B), torch.empty_like(C)
        d_h, work = torch.zeros_like(states[0]), torch.empty_like(states[0])  # d_h: the gradient of h from all later steps
        for t in reversed(range(x.shape[1])):
            d_h.addcmul_(C[:, t, :, None], grad[:, t, None])
            d_C[:, t] = torch.mul(states[t], grad[:, t, None], out=work).sum(2)
            d_B[:, t] = torch.mul(d_h, x[:, t, None], out=work).sum(2)
            d_x[:, t] = (B[:, t, None] @ d_h).squeeze(1)
            if t:  # before the first step the state is zero, and its decay does not matter
                d_h.mul_(torch.mul(delta[:, t, None], rates, out=work).exp_())
                d_exponent = torch.mul(d_h, states[t - 1], out=work)
                d_delta[:, t] = (d_exponent * rates).sum(1)
                d_rates += d_exponent.mul_(delta[:, t, None]).sum(0)
        return d_delta, d_x, d_rates.T, d_B, d_C
