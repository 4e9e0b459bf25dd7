"""A decoder of latents to pictures, for visual inspection only. No number in the results depends on it."""

from __future__ import annotations

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from sgjepa.core.errors import InputError

_SIDE = 8  # of the first feature map


class Decoder(nn.Module):
    """Latents (B, T, F) -> RGB in 0..1, (B, T, h, w, 3), the layout of stored frames divided by 255.

    The latents are detached: the decoder can be trained together with a world model without changing it.
    """

    def __init__(self, latent: int, image_size: int, channels: int = 256):
        super().__init__()
        doublings = (image_size // _SIDE).bit_length() - 1
        if image_size != _SIDE << max(doublings, 0):
            raise InputError(
                f"the decoder doubles a map of {_SIDE}: pictures can be 8, 16, 32, ... pixels, got {image_size}"
            )
        widths = [max(channels // 8, channels >> i) for i in range(doublings + 1)]
        self.input = nn.Linear(latent, widths[0] * _SIDE**2)
        self.first = ResidualBlock(widths[0])
        self.stages = nn.ModuleList(Stage(a, b) for a, b in pairwise(widths))
        self.output = nn.Conv2d(widths[-1], 3, kernel_size=3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        x = self.input(z.detach().flatten(0, 1)).unflatten(1, (-1, _SIDE, _SIDE))
        x = self.first(x)
        for stage in self.stages:
            x = stage(x)
        picture: Tensor = self.output(F.gelu(x)).sigmoid().permute(0, 2, 3, 1)
        return picture.reshape(*z.shape[:2], *picture.shape[1:])


class Stage(nn.Module):
    """Twice the size: repeat pixels, convolve, one residual block. (A strided transposed convolution would leave a grid.)"""

    def __init__(self, before: int, after: int):
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel_size=3, padding=1)
        self.block = ResidualBlock(after)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.block(self.conv(F.interpolate(x, scale_factor=2)))
        return y


class ResidualBlock(nn.Module):
    """x + conv(act(norm(conv(act(norm(x))))))."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.Sequential(
            *(
                layer
                for _ in range(2)
                for layer in (nn.GroupNorm(1, width), nn.GELU(), nn.Conv2d(width, width, 3, padding=1))
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.layers(x)
        return y
