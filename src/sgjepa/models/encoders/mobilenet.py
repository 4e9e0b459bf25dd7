"""MobileNetV2 up to its stride-16 map, in torchvision's layout, so that torchvision's ImageNet weights fit.

torchvision itself is no dependency: its wheels do not import beside a CPU build of torch.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from sgjepa.core.errors import InputError

CHANNELS, STRIDE = 96, 16

# (expansion, channels, repeats, stride) of the paper's table 2; the rows after stride 16 are not needed
_ROWS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, CHANNELS, 3, 1))


def _conv(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Widen, filter each channel on its own, narrow without an activation."""

    def __init__(self, before: int, after: int, stride: int, expansion: int):
        super().__init__()
        wide = before * expansion
        widen = [_conv(before, wide, kernel=1)] if expansion > 1 else []
        narrow = (nn.Conv2d(wide, after, kernel_size=1, bias=False), nn.BatchNorm2d(after))
        self.conv = nn.Sequential(*widen, _conv(wide, wide, kernel=3, stride=stride, groups=wide), *narrow)
        self.residual = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return x + y if self.residual else y


class MobileNet(nn.Module):
    """(N, 3, h, w) -> (N, 96, h / 16, w / 16): the output of the 14th of torchvision's feature blocks."""

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [_conv(3, 32, kernel=3, stride=2)]
        width = 32
        for expansion, channels, repeats, stride in _ROWS:
            for i in range(repeats):
                blocks.append(InvertedResidual(width, channels, stride if i == 0 else 1, expansion))
                width = channels
        self.features = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.features(x)
        return y


def fold(module: nn.Module) -> nn.Module:
    """Put every BatchNorm into the convolution before it: the same map in eval mode, 1.4 times as fast on a CPU."""
    for child in module.children():
        fold(child)
    if isinstance(module, nn.Sequential):
        layers: list[nn.Module] = []
        for layer in module:
            if isinstance(layer, nn.BatchNorm2d) and isinstance(layers[-1], nn.Conv2d):
                layers[-1] = fuse_conv_bn_eval(layers[-1], layer)
            else:
                layers.append(layer)
        module._modules = {str(i): layer for i, layer in enumerate(layers)}
    return module


def load(path: Path) -> MobileNet:
    """The network with the weights of a torchvision file; what belongs to later blocks is left out."""
    net = MobileNet()
    weights = torch.load(path, map_location="cpu", weights_only=True)
    missing = net.state_dict().keys() - weights.keys()
    if missing:
        raise InputError(
            f"{path} holds no torchvision MobileNetV2: it lacks {sorted(missing)[0]} and {len(missing) - 1} others"
        )
    net.load_state_dict({name: weights[name] for name in net.state_dict()})
    return net
