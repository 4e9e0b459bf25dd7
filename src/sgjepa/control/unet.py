"""The 1-D U-Net of the diffusion policy (Chi et al. 2023): convolutions over the planned controls; FiLM tells what is seen.

    A controls ─ widths[0] ─┐ ······························ unused ┌─ widths[0] ─ out
                            ↓ half ─ widths[1] ─┐ ─── skip ───┌─ double ↑
                                                ↓ half ─ ... ─┘

The skip at the highest resolution is not used, as in the authors' policy.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from sgjepa.control.mish import Mish


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
    """The step of diffusion as a vector: sines and cosines of it, then two layers."""

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
    """Noisy controls and a condition -> the noise in them."""

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
        kept = []
        for level, blocks in enumerate(self.down):
            x = _through(blocks, x, condition)
            kept.append(x)
            if level < len(self.shrink):
                x = self.shrink[level](x)
        x = _through(self.middle, x, condition)
        for blocks, grow in zip(self.up, self.grow, strict=True):
            x = grow(_through(blocks, torch.cat([x, kept.pop()], dim=1), condition))
        out: Tensor = self.out(x)
        return out.mT


def _through(blocks: nn.Module, x: Tensor, condition: Tensor) -> Tensor:
    for block in blocks.children():
        x = block(x, condition)
    return x
