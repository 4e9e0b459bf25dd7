"""The network of a diffusion policy and the diffusion process: adding noise, and sampling with DDPM or DDIM.

The U-Net's activation is Mish, x·tanh(softplus x), in less than half of PyTorch's time on a CPU. With e = exp(x) and
n = e² + 2e it is x·n / (n + 2), and its derivative n / (n + 2) + 4x·(e + e²) / (n + 2)²: one exponential instead of an
exponential, a logarithm and a hyperbolic tangent, all of which a plain backward pass would compute again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError, unknown

_LARGE = 20.0  # above this mish(x) equals x in float32 and float64


class _Mish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        e = x.clamp(max=_LARGE).exp_()
        n = torch.addcmul(2 * e, e, e)
        below = n + 2
        share = n.div_(below)
        ctx.save_for_backward(x, e, below, share)
        return x * share

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x, e, below, share = ctx.saved_tensors
        bend = torch.addcmul(e, e, e).div_(below).div_(below).mul_(x)
        return share.add(bend, alpha=4).mul_(gradient)


class Mish(nn.Module):
    """The Mish activation, equal to `nn.Mish` and faster on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return F.mish(x)
        out: Tensor = _Mish.apply(x)  # type: ignore[no-untyped-call]
        return out


class Block(nn.Module):
    """Two convolutions; between them the condition scales and shifts every channel."""

    def __init__(self, before: int, after: int, condition: int, kernel: int, groups: int):
        super().__init__()
        self.first = conv(before, after, kernel, groups)
        self.film = nn.Sequential(Mish(), nn.Linear(condition, 2 * after))
        self.second = conv(after, after, kernel, groups)
        self.skip = nn.Conv1d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """x (B, before, A), condition (B, D) -> (B, after, A)"""
        scale, shift = self.film(condition)[:, :, None].chunk(2, dim=1)
        out: Tensor = self.second(self.first(x) * scale + shift) + self.skip(x)
        return out


def conv(before: int, after: int, kernel: int, groups: int) -> nn.Sequential:
    """Convolution, GroupNorm, Mish."""
    return nn.Sequential(nn.Conv1d(before, after, kernel, padding=kernel // 2), nn.GroupNorm(groups, after), Mish())


class StepEmbedding(nn.Module):
    """Embedding of the diffusion step: sines and cosines, then two layers."""

    frequencies: Tensor

    def __init__(self, width: int):
        super().__init__()
        half = width // 2
        frequencies = torch.exp(-math.log(10_000) / (half - 1) * torch.arange(half))
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), Mish(), nn.Linear(4 * width, width))

    def forward(self, step: Tensor) -> Tensor:
        """step (B,) -> (B, width)"""
        phase = step[:, None].float() * self.frequencies
        out: Tensor = self.layers(torch.cat([phase.sin(), phase.cos()], dim=-1))
        return out


class UNet(nn.Module):
    """A U-Net that predicts the noise in controls from a condition."""

    def __init__(self, controls: int, condition: int, widths: tuple[int, ...], kernel: int, groups: int):
        super().__init__()

        def two(before: int, after: int) -> nn.ModuleList:
            return nn.ModuleList([Block(start, after, condition, kernel, groups) for start in (before, after)])

        levels = list(pairwise((controls, *widths)))
        self.down = nn.ModuleList([two(before, after) for before, after in levels])
        self.shrink = nn.ModuleList([nn.Conv1d(width, width, 3, stride=2, padding=1) for width in widths[:-1]])
        self.middle = two(widths[-1], widths[-1])
        back = list(reversed(list(pairwise(widths))))
        self.up = nn.ModuleList([two(2 * after, before) for before, after in back])
        self.grow = nn.ModuleList([nn.ConvTranspose1d(before, before, 4, stride=2, padding=1) for before, _ in back])
        self.out = nn.Sequential(conv(widths[0], widths[0], kernel, groups), nn.Conv1d(widths[0], controls, 1))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """x (B, A, C), condition (B, D) -> (B, A, C)"""
        x = x.mT
        skips = []
        for level, blocks in enumerate(self.down):
            x = _through(blocks, x, condition)
            skips.append(x)
            if level < len(self.shrink):
                x = self.shrink[level](x)
        x = _through(self.middle, x, condition)
        for blocks, grow in zip(self.up, self.grow, strict=True):
            x = grow(_through(blocks, torch.cat([x, skips.pop()], dim=1), condition))
        out: Tensor = self.out(x)
        return out.mT


def _through(blocks: nn.Module, x: Tensor, condition: Tensor) -> Tensor:
    for block in blocks.children():
        x = block(x, condition)
    return x


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network; the defaults are the paper's. history: H, observed frames. horizon: A, planned controls."""

    history: int = 20
    horizon: int = 16
    hidden: int = 256  # of the GRU
    layers: int = 2
    widths: tuple[int, ...] = (256, 512, 1024)  # of the U-Net, each at half the resolution of the one before
    kernel: int = 5
    groups: int = 8
    step_width: int = 256
    # whether each feature's change since the last frame is an input, too: small policies with few updates do not learn
    # velocities by themselves
    changes: bool = False

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("hidden", "widths", "kernel", "groups"), (1, 65_536))
        check_bounds(self, history=(1, 10_000), horizon=(1, 10_000), layers=(1, 100), step_width=(4, 65_536), **counts)
        if not self.widths or any(width % self.groups for width in self.widths):
            raise InputError(f"the widths of a U-Net must divide by its {self.groups} groups, got {list(self.widths)}")
        if self.horizon % 2 ** (len(self.widths) - 1):
            halvings = len(self.widths) - 1
            raise InputError(f"{self.horizon} planned controls cannot be halved {halvings} times: choose another horizon")
        if self.kernel % 2 == 0 or self.step_width % 2:
            raise InputError(f"a kernel is odd and a step's width even, got {self.kernel} and {self.step_width}")

    def build(self, features: int, controls: int, laws: int) -> Network:
        """A new network. laws: 0 if the policy is not conditioned on the law."""
        return Network(self, features, controls, laws)


class Network(nn.Module):
    """The trainable network of a diffusion policy: a GRU over features, and the U-Net."""

    def __init__(self, cfg: NetworkConfig, features: int, controls: int, laws: int):
        super().__init__()
        self.horizon, self.controls = cfg.horizon, controls
        # (F,) root mean squares of each feature's change per frame, from the data
        self.pace: Tensor | None
        self.register_buffer("pace", torch.ones(features) if cfg.changes else None)
        self.look = nn.GRU(features * (2 if cfg.changes else 1), cfg.hidden, cfg.layers, batch_first=True)
        self.norm = nn.LayerNorm(cfg.hidden)
        self.step = StepEmbedding(cfg.step_width)
        self.unet = UNet(controls, cfg.step_width + cfg.hidden + laws, cfg.widths, cfg.kernel, cfg.groups)

    def seen(self, features: Tensor, law: Tensor) -> Tensor:
        """The condition (B, hidden + L) of planned controls, from features (B, H, F), oldest first, and law (B, L)."""
        if self.pace is not None:
            changes = torch.zeros_like(features)  # 0 for the oldest frame
            changes[:, 1:] = features.diff(dim=1) / self.pace
            features = torch.cat([features, changes], dim=-1)
        _, last = self.look(features)  # (layers, B, hidden)
        return torch.cat([self.norm(last[-1]), law], dim=-1)

    def forward(self, x: Tensor, step: Tensor, seen: Tensor) -> Tensor:
        """The predicted noise (B, A, C) in controls x (B, A, C) at step (B,). seen: (B, S), from `seen`."""
        out: Tensor = self.unet(x, torch.cat([self.step(step), seen], dim=-1))
        return out


Sampler: TypeAlias = Literal["ddpm", "ddim"]
Predict: TypeAlias = Callable[[Tensor, int], Tensor]  # x (N, A, C) at a step -> the noise in it
_OFFSET = 0.008  # s of the paper, which gives the first step some noise
_BETA = (1e-4, 0.999)  # implementations without the lower bound differ where K is in the hundreds


@dataclass(frozen=True)
class Diffusion:
    """The diffusion process. steps: K. sampler, sampled: the default sampler and its number of steps."""

    steps: int = 100
    sampler: Sampler = "ddpm"
    sampled: int = 100

    def __post_init__(self) -> None:
        check_bounds(self, steps=(1, 100_000), sampled=(1, 100_000))
        if self.sampler not in get_args(Sampler):
            raise unknown("sampler", self.sampler, get_args(Sampler))
        if self.sampled > self.steps or (self.sampler == "ddpm" and self.sampled != self.steps):
            most = "all" if self.sampler == "ddpm" else "at most"
            raise InputError(
                f"{self.sampler} takes {most} {self.steps} steps, the policy's own number, not {self.sampled}"
                + ("; ddim can take fewer" if self.sampler == "ddpm" else "")
            )

    @property
    def draws(self) -> int:
        """The number of noise tensors that a sample needs."""
        return self.sampled if self.sampler == "ddpm" else 1


def betas(steps: int) -> np.ndarray:
    """The variance that each step adds, (K,) float64."""
    left = [math.cos((k / steps + _OFFSET) / (1 + _OFFSET) * math.pi / 2) ** 2 for k in range(steps + 1)]
    return np.clip(1 - np.divide(left[1:], left[:-1]), *_BETA)


def alpha_bars(steps: int) -> np.ndarray:
    """The share of the signal's variance that is left at each step, (K,) float64."""
    return np.cumprod(1 - betas(steps))


def add_noise(x0: Tensor, noise: Tensor, step: Tensor, steps: int) -> Tensor:
    """Noisy x (B, A, C) at step (B,) of 0 .. K - 1, from x0 and noise (B, A, C)."""
    left = torch.from_numpy(alpha_bars(steps)).to(x0.device)[step][:, None, None]
    return left.sqrt().to(x0) * x0 + (1 - left).sqrt().to(x0) * noise


def sample(predict: Predict, noise: Tensor, diffusion: Diffusion) -> Tensor:
    """Sample controls (N, A, C) in ±1 from normal numbers (N, draws, A, C)."""
    left = alpha_bars(diffusion.steps)
    x = noise[:, 0]
    if diffusion.sampler == "ddim":
        steps = visited(diffusion)
        for step, after in zip(steps, [*steps[1:], -1], strict=True):
            x = ddim_step(x, predict(x, step), left[step], left[after] if after >= 0 else 1.0)
        return x
    for draw, step in enumerate(reversed(range(diffusion.steps)), start=1):
        x, spread = ddpm_step(x, predict(x, step), step, diffusion.steps)
        if step > 0:
            x = x + spread * noise[:, draw]
    return x


def visited(diffusion: Diffusion) -> list[int]:
    """The steps of DDIM, the noisiest first: evenly spaced from the last to the first, rounded."""
    return [int(step) for step in np.linspace(diffusion.steps - 1, 0, diffusion.sampled).round()]


def ddpm_step(x: Tensor, epsilon: Tensor, step: int, steps: int) -> tuple[Tensor, float]:
    """Mean (N, A, C) and standard deviation of x before this step."""
    beta, left = betas(steps)[step], alpha_bars(steps)
    now, before = left[step], left[step - 1] if step > 0 else 1.0
    of_x0 = math.sqrt(before) * beta / (1 - now)
    of_x = math.sqrt(1 - beta) * (1 - before) / (1 - now)
    return of_x0 * beneath(x, epsilon, now) + of_x * x, math.sqrt(beta * (1 - before) / (1 - now))


def ddim_step(x: Tensor, epsilon: Tensor, now: float, before: float) -> Tensor:
    """x (N, A, C) at the step whose signal share is `before`, from the step whose share is `now`."""
    return math.sqrt(before) * beneath(x, epsilon, now) + math.sqrt(1 - before) * epsilon


def beneath(x: Tensor, epsilon: Tensor, left: float) -> Tensor:
    """The predicted x0 (N, A, C), clipped to ±1."""
    return ((x - math.sqrt(1 - left) * epsilon) / math.sqrt(left)).clamp(-1, 1)
