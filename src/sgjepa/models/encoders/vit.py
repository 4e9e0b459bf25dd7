"""The Vision Transformer that turns a frame into one vector: the same maths as HuggingFace's ViTModel.

Only the class token is used, so the last block computes the answer of that token alone. The result is the same and
the block costs a sixth: an encoder of two blocks on plain patches becomes 1.5 times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError, unknown
from sgjepa.models.layers import Block

STEMS = ("patch", "conv")
_EPS = 1e-12  # ViTModel's LayerNorm epsilon


@dataclass(frozen=True)
class ViT:
    """stem "patch": one convolution with kernel = stride = patch, the paper's. stem "conv": 3x3 convolutions of stride 2."""

    width: int
    depth: int
    heads: int
    patch: int
    image_size: int
    mlp_ratio: int = 4
    stem: str = "patch"

    def __post_init__(self) -> None:
        if self.stem not in STEMS:
            raise unknown("stem", self.stem, STEMS)
        check_bounds(self, width=(1, 65_536), heads=(1, 1024), patch=(1, 4096), image_size=(1, 16_384), mlp_ratio=(1, 64))
        check_bounds(self, depth=(-1, 1000))  # the lower bound is checked below
        if self.depth < 1 or self.width % self.heads:
            raise InputError(f"a ViT needs depth >= 1 and heads that divide its width, got {self}")
        if self.image_size % self.patch:
            raise InputError(f"patches of {self.patch} pixels do not tile a picture of {self.image_size}")
        if self.stem == "conv" and (self.patch < 4 or self.patch & (self.patch - 1)):
            raise InputError(f"a conv stem halves the picture step by step: patch must be 4, 8, 16, ..., got {self.patch}")

    @property
    def channels_last(self) -> bool:
        """Whether pictures are best laid out with the channels of a pixel side by side."""
        return self.stem == "conv"

    def wider(self) -> ViT:
        """The encoder with twice the width and twice the heads."""
        return replace(self, width=2 * self.width, heads=2 * self.heads)

    def build(self) -> ViTEncoder:
        """Build a fresh encoder."""
        return ViTEncoder(self)

    @property
    def tokens(self) -> int:
        """The number of tokens: patches and the class token."""
        return (self.image_size // self.patch) ** 2 + 1


def tiny(image_size: int = 128, patch: int = 8) -> ViT:
    """The paper's encoder: 128 px with patch 8 in 2D, 256 px with patch 16 in 3D."""
    return ViT(width=192, depth=12, heads=3, patch=patch, image_size=image_size)


def small(image_size: int = 128, patch: int = 8) -> ViT:
    """The paper's larger encoder, for several shapes at once."""
    return tiny(image_size, patch).wider()


def mini(image_size: int = 64, patch: int = 16) -> ViT:
    """An encoder for two CPU cores: few tokens, and a convolutional stem, which learns positions from fewer frames."""
    return ViT(width=96, depth=2, heads=3, patch=patch, image_size=image_size, stem="conv")


class ViTEncoder(nn.Module):
    """Pictures (N, 3, h, w), normalised -> class tokens (N, width)."""

    def __init__(self, config: ViT):
        super().__init__()
        width, head_dim = config.width, config.width // config.heads
        self.config = config
        patch = config.patch
        self.stem = ConvStem(width, patch) if config.stem == "conv" else nn.Conv2d(3, width, patch, stride=patch)
        self.cls = nn.Parameter(torch.empty(1, 1, width))
        self.position = nn.Parameter(torch.empty(1, config.tokens, width))
        self.blocks = nn.ModuleList(
            Block(width, config.heads, head_dim, config.mlp_ratio * width, bias=True, dropout=0.0, eps=_EPS)
            for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(width, eps=_EPS)
        self.apply(_initialise)
        nn.init.trunc_normal_(self.cls, std=0.02)
        nn.init.trunc_normal_(self.position, std=0.02)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.see(self.stem(pictures))

    def see(self, stem: Tensor) -> Tensor:
        """The answer of the stem, (N, width, rows, columns) -> class tokens (N, width)."""
        patches = stem.flatten(2).transpose(1, 2)  # (N, tokens - 1, width)
        x = torch.cat([self.cls.expand(patches.shape[0], -1, -1), patches], dim=1) + self.position
        for block in self.blocks[:-1]:
            x = block(x)
        x = self.blocks[-1](x, first=1)
        cls: Tensor = self.norm(x[:, 0])
        return cls


class ConvStem(nn.Module):
    """(N, 3, h, w) -> (N, width, h / patch, w / patch): halve the size and double the channels until a patch is a pixel."""

    def __init__(self, width: int, patch: int):
        super().__init__()
        steps = patch.bit_length() - 1
        widths = [3, *(max(8, width >> (steps - 1 - i)) for i in range(steps))]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            # no BatchNorm: a frame must not depend on which others are encoded in the same chunk
            layers += [nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1), NormReLU(1, after), nn.Identity()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(width, width, kernel_size=1))

    def forward(self, pictures: Tensor) -> Tensor:
        # this order of memory makes the stem a third faster on a CPU; the plain patch projection is slower with it
        y: Tensor = self.layers(pictures.contiguous(memory_format=torch.channels_last))
        return y


class NormReLU(nn.GroupNorm):
    """GroupNorm with one group, and a ReLU. (The Identity that follows it in the stem keeps the weights' older names.)

    Where the channels of a pixel lie side by side, a frame is one row of memory and the norm a LayerNorm over it, which
    is quicker than torch's GroupNorm on few channels (12 of them: 1.4 times); and the ReLU needs no memory of its own.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_contiguous(memory_format=torch.channels_last):
            return F.relu(super().forward(x))
        rows = x.permute(0, 2, 3, 1).flatten(1)  # (N, h w C), no copy
        weight, bias = (p.repeat(rows.shape[1] // len(p)) for p in (self.weight, self.bias))
        y = F.layer_norm(rows, rows.shape[1:], weight, bias, self.eps).relu_()
        return y.view_as(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=0.02)
        assert module.bias is not None
        nn.init.zeros_(module.bias)
