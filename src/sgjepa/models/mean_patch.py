"""The paper's predictors on a pretrained encoder: latents are the mean patch of a frozen encoder, one vector per frame.

A GRU cannot take DINO-WM's patch grids. It can take their mean patch, the vector that probes and policies of DINO-WM read.
So predictors of one size can be compared on the features of SG-JEPA, LeWM and DINO (experiments/local_gap.py).

z is the encoder's output. Such features differ in scale and change little from frame to frame relative to their mean, so
the predictor's inputs and outputs are z-scored, by statistics of the training episodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sgjepa.core import config as configs
from sgjepa.models.base import VectorConfig, VectorModel
from sgjepa.models.encoders.frozen import DINOv2, FrozenEncoder, MobileNetV2


@dataclass(frozen=True, kw_only=True)
class MeanPatchConfig(VectorConfig):
    """Settings of a mean-patch model, whose latent is as wide as the encoder's patches."""

    encoder: DINOv2 | MobileNetV2

    @property
    def foreign_encoder(self) -> DINOv2 | MobileNetV2:
        """The settings of the frozen encoder."""
        return self.encoder

    def build(self) -> MeanPatch:
        """Build a fresh predictor on the pretrained encoder."""
        return MeanPatch(self, self.encoder.build())

    def outline(self) -> MeanPatch:
        """Build the predictor and the encoder without its pretrained weights."""
        return MeanPatch(self, self.encoder.outline())


class MeanPatch(VectorModel):
    """Latents z and conditions c are (B, T, C), C being the encoder's channels."""

    encoder_parts = ("encoder",)
    latent_mean: Tensor
    latent_std: Tensor

    def __init__(self, config: MeanPatchConfig, encoder: FrozenEncoder):
        width = encoder.channels
        super().__init__(
            config.controls,
            config.laws,
            latent_shape=(width,),
            feature_width=width,
            image_size=None,  # any: frames are brought to the encoder's size
            frozen_encoder=encoder.name,
            blind=config.blind,
        )
        self.config = config
        self.encoder = encoder
        self.register_buffer("latent_mean", torch.zeros(width))
        self.register_buffer("latent_std", torch.ones(width))
        self.build_dynamics(config, width)

    @property
    def encoder_settings(self) -> object:
        """The encoder's settings and weights, and a mark that patches are averaged."""
        return {"mean_patch": configs.to_dict(self.config.encoder)}

    def standardise(self, latents: Iterable[np.ndarray]) -> None:
        """Fit mean and spread of each channel over the training episodes; a channel that never varies maps to zero."""
        count, total, squares = 0, np.zeros(self.feature_width), np.zeros(self.feature_width)
        for z in latents:  # (T, C)
            z = z.astype(np.float64)
            count, total, squares = count + len(z), total + z.sum(axis=0), squares + np.square(z).sum(axis=0)
        mean = total / count
        self.latent_mean.copy_(torch.from_numpy(mean))
        self.latent_std.copy_(torch.from_numpy(np.sqrt(np.maximum(squares / count - mean**2, 1e-12))))

    def encode(self, frames: Tensor, chunk: int | None = None) -> Tensor:
        """frames (B, T, h, w, 3) uint8 -> z (B, T, C) without gradient, `chunk` frames at a time."""
        flat = frames.flatten(0, 1)
        size = len(flat) if chunk is None else chunk
        z = torch.cat([self.encoder(flat[i : i + size]).mean(dim=1) for i in range(0, len(flat), size)])
        return z.view(*frames.shape[:2], -1)

    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        """z, c (B, t, C), t <= history -> (B, t, C); position t answers z[t + 1] and sees nothing later than t."""
        seen = (z - self.latent_mean) / self.latent_std
        prediction = self.pred_proj(self.predictor(seen, c)) * self.latent_std
        return prediction + (z if self.config.residual else self.latent_mean)
