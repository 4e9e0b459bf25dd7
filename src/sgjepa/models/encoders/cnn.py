"""A convolutional encoder whose last map is flattened; it learns positions and orientations within few updates.

A ViT of a few tokens has to learn from its class token where an edge lies; here every cell of the last map has weights of
its own. At 64 px it keeps a body's angle that a small ViT loses (docs/log.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.models.encoders.vit import NormReLU


@dataclass(frozen=True)
class Convolutions:
    """channels: those of consecutive 3x3 convolutions of stride 2. width: that of the vector from the last map."""

    image_size: int = 64
    channels: tuple[int, ...] = (16, 32, 64, 96)
    width: int = 256

    def __post_init__(self) -> None:
        check_bounds(self, image_size=(1, 16_384), channels=(1, 65_536), width=(1, 65_536))
        if not self.channels or self.image_size % 2 ** len(self.channels):
            raise InputError(f"{len(self.channels)} halvings do not divide a picture of {self.image_size} pixels evenly")

    @property
    def channels_last(self) -> bool:
        """Whether pictures are laid out with the channels of a pixel adjacent in memory."""
        return True

    def wider(self) -> Convolutions:
        """The encoder with twice the channels."""
        return replace(self, channels=tuple(2 * c for c in self.channels), width=2 * self.width)

    def build(self) -> ConvolutionalEncoder:
        """Build a fresh encoder."""
        return ConvolutionalEncoder(self)


class ConvolutionalEncoder(nn.Module):
    """Pictures (N, 3, h, w), normalised -> (N, width)."""

    def __init__(self, config: Convolutions):
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in pairwise((3, *config.channels)):
            # no BatchNorm: a frame must not depend on which others are encoded in the same chunk
            layers += [nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1), NormReLU(1, after)]
        self.layers = nn.Sequential(*layers)
        side = config.image_size >> len(config.channels)
        self.last = nn.Linear(config.channels[-1] * side * side, config.width)

    def forward(self, pictures: Tensor) -> Tensor:
        maps = self.layers(pictures.contiguous(memory_format=torch.channels_last))  # (N, C, side, side)
        y: Tensor = self.last(maps.permute(0, 2, 3, 1).flatten(1))
        return y
