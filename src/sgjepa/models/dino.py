"""DINO-WM, the baseline: a frozen patch encoder and a Transformer that sees all patches of all frames so far.

Every token is [patch; action embedding]. The reference adds ten more channels, an embedding of a robot state that is
always zero: the same learned constant in every token, trained to predict itself. It carries nothing, a bias can do as
much, and it adds a term to the loss, so it is left out: tokens are 394 wide, not 404, and the predictor with three
action channels has 19,897,508 parameters, not 20,402,228.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sgjepa.core import config as configs
from sgjepa.models.base import CommonConfig, WorldModel
from sgjepa.models.encoders.frozen import DINOv2, FrozenEncoder, MobileNetV2
from sgjepa.models.layers import Block


@dataclass(frozen=True, kw_only=True)
class DinoConfig(CommonConfig):
    """Settings of DINO-WM. action: width of the action embedding."""

    encoder: DINOv2 | MobileNetV2
    depth: int = 6
    heads: int = 16
    head_dim: int = 64
    mlp: int = 2048
    dropout: float = 0.1
    action: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        configs.check_bounds(self, depth=(1, 1000), heads=(1, 1024), head_dim=(1, 65_536), mlp=(1, 1_048_576))
        configs.check_bounds(self, dropout=(0, 1), action=(1, 65_536))

    @property
    def foreign_encoder(self) -> DINOv2 | MobileNetV2:
        """The settings of the frozen encoder."""
        return self.encoder

    def build(self) -> DinoWM:
        """Build a fresh predictor on the pretrained encoder."""
        return DinoWM(self, self.encoder.build())

    def outline(self) -> DinoWM:
        """Build the predictor and the encoder without its pretrained weights."""
        return DinoWM(self, self.encoder.outline())


class DinoWM(WorldModel):
    """Latents z are patch grids (B, T, P, C), conditions c are action embeddings (B, T, action)."""

    encoder_parts = ("encoder",)

    def __init__(self, config: DinoConfig, encoder: FrozenEncoder):
        super().__init__(
            config.controls,
            config.laws,
            latent_shape=(encoder.patches, encoder.channels),
            feature_width=encoder.channels,
            image_size=None,  # any: frames are brought to the encoder's size
            frozen_encoder=encoder.name,  # the actual encoder: a table must not call MobileNetV2 DINO
            blind=config.blind,
        )
        self.config = config
        self.encoder = encoder
        self.embed = nn.Conv1d(config.controls + config.laws, config.action, kernel_size=1)
        self.predictor = PatchPredictor(config, self.encoder.patches, self.encoder.channels)
        if config.residual:  # at first nothing changes
            nn.init.zeros_(self.predictor.norm.weight)

    @property
    def encoder_settings(self) -> object:
        """The encoder's settings, its weights, and the picture size."""
        return configs.to_dict(self.config.encoder)

    def encode(self, frames: Tensor, chunk: int | None = None) -> Tensor:
        """frames (B, T, h, w, 3) uint8 -> z (B, T, P, C) without gradient, `chunk` frames at a time."""
        flat = frames.flatten(0, 1)
        if chunk is None:
            z: Tensor = self.encoder(flat)
        else:
            z = torch.cat([self.encoder(flat[i : i + chunk]) for i in range(0, len(flat), chunk)])
        return z.view(*frames.shape[:2], *z.shape[1:])

    def condition(self, control: Tensor, law: Tensor) -> Tensor:
        """control (B, T, A), law (B, L), both in their own units -> c (B, T, action)."""
        c: Tensor = self.embed(self.action(control, law).transpose(1, 2)).transpose(1, 2)
        return c

    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        """z (B, t, P, C), c (B, t, action) -> (B, t, P, C); frame t answers z[t + 1] and sees nothing later than t."""
        prediction: Tensor = self.predictor(z, c)
        return z + prediction if self.config.residual else prediction

    def features(self, z: Tensor) -> Tensor:
        """(B, T, P, C) -> (B, T, C): the mean patch, for probes and policies."""
        return z.mean(dim=2)


class PatchPredictor(nn.Module):
    """A Transformer over the t * P tokens of a window, causal from frame to frame."""

    mask: Tensor

    def __init__(self, config: DinoConfig, patches: int, channels: int):
        super().__init__()
        tokens, width = config.history * patches, channels + config.action
        self.position = nn.Parameter(torch.randn(1, tokens, width))
        self.blocks = nn.ModuleList(
            Block(width, config.heads, config.head_dim, config.mlp, bias=False, dropout=config.dropout, eps=1e-5)
            for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(width)
        frame = torch.arange(tokens) // patches
        self.register_buffer("mask", frame[:, None] >= frame, persistent=False)  # (tokens, tokens)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        x = torch.cat([z, c[:, :, None].expand(-1, -1, z.shape[2], -1)], dim=-1).flatten(1, 2)
        n = x.shape[1]
        x = x + self.position[:, :n]
        for block in self.blocks:
            x = block(x, mask=self.mask[:n, :n])
        prediction: Tensor = self.norm(x)[..., : z.shape[3]]
        return prediction.reshape(z.shape)
