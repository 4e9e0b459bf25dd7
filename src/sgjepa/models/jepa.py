"""The world model of the paper: an encoder and a predictor, LeWM or SG-JEPA depending on the predictor and the loss.

frames o ─ encode ─▶ z ─┐
                        ├─ predict ─▶ the next z          c = q([u; g]), the law being one more channel of the action
control u, law g ─ c ───┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sgjepa.core import config as configs
from sgjepa.core.errors import InputError
from sgjepa.models.base import VectorConfig, VectorModel
from sgjepa.models.candidate_rollouts import CandidateRollout, prepare_with_shared_past
from sgjepa.models.encoders.cnn import Convolutions
from sgjepa.models.encoders.vit import ViT
from sgjepa.models.layers import Pixels, Projector
from sgjepa.models.predictors import parallel_rollout
from sgjepa.models.rollout import rollout


@dataclass(frozen=True, kw_only=True)
class JEPAConfig(VectorConfig):
    """Settings of a JEPA. latent: D, the latent's width."""

    foreign_encoder: ClassVar[None] = None
    encoder: ViT | Convolutions
    latent: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        configs.check_bounds(self, latent=(1, 65_536))

    def build(self) -> JEPA:
        """Build a fresh model."""
        return JEPA(self)

    def outline(self) -> JEPA:
        """Build a fresh model, as it needs no pretrained weights."""
        return JEPA(self)


class JEPA(VectorModel):
    """Latents z are (B, T, D), conditions c are (B, T, D)."""

    encoder_parts = ("encoder", "projector")

    def __init__(self, config: JEPAConfig):
        super().__init__(
            config.controls,
            config.laws,
            latent_shape=(config.latent,),
            feature_width=config.latent,
            image_size=config.encoder.image_size,
            blind=config.blind,
        )
        self.config = config
        self.pixels = Pixels(channels_last=config.encoder.channels_last)
        self.encoder = config.encoder.build()
        self.projector = Projector(config.encoder.width, config.projector_width, config.latent)
        self.build_dynamics(config, config.latent)

    @property
    def encoder_settings(self) -> object:
        """The encoder's settings; the projector's are visible in its weights."""
        return configs.to_dict(self.config.encoder)

    def encode(self, frames: Tensor, chunk: int | None = None) -> Tensor:
        """frames (B, T, h, w, 3) uint8 -> z (B, T, D).

        chunk: the number of frames that the encoder runs on at a time, and again in the backward pass, so that memory holds
        the activations of one chunk. The projector's BatchNorm still sees the whole batch: the result is the same.
        """
        size = self.config.encoder.image_size
        if frames.dtype != torch.uint8 or frames.shape[2:] != (size, size, 3):
            shape = tuple(frames.shape)
            raise InputError(f"frames should be uint8 (B, T, {size}, {size}, 3), got {frames.dtype} {shape}")
        flat = frames.flatten(0, 1)
        if chunk is None:
            cls = self._see(flat)
        else:
            cls = torch.cat([self._see_recomputed(flat[i : i + chunk]) for i in range(0, len(flat), chunk)])
        z: Tensor = self.projector(cls)
        return z.view(*frames.shape[:2], -1)

    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        """z, c (B, t, D), t <= history -> (B, t, D); position t answers z[t + 1] and sees nothing later than t."""
        prediction: Tensor = self.pred_proj(self.predictor(z, c))
        return z + prediction if self.config.residual else prediction

    def unroll(self, z: Tensor, c: Tensor, steps: int) -> Tensor:
        """The `steps` latents that `rollout` adds to z (B, H, D), as (B, steps, D); c (B, H + steps - 1, D).

        On a CPU a recurrent predictor works on all windows side by side, which is faster and the same up to rounding.
        """
        plain = z.device.type != "cpu" or torch.is_autocast_enabled("cpu")  # the scan by hand knows one precision
        if not plain and parallel_rollout.can_run_in_parallel(self.predictor):
            return parallel_rollout.unroll(self.predictor, self.pred_proj, z, c, steps, residual=self.config.residual)
        return rollout(self, z, c, steps, z.shape[1])[:, z.shape[1] :]

    def candidate_rollout(self, z: Tensor, past: Tensor, steps: int) -> CandidateRollout | None:
        """The predictor's faster candidate rollout of models/candidate_rollouts.py; None without one, or in training."""

        def head(answer: Tensor, latest: Tensor) -> Tensor:
            change: Tensor = self.pred_proj(answer)
            return latest + change if self.config.residual else change

        if self.training:
            return None
        return prepare_with_shared_past(self.predictor, head, z, past, steps, self.config.history)

    def _see_recomputed(self, frames: Tensor) -> Tensor:
        """The encoder's output, whose activations the backward pass recomputes."""
        if not torch.is_grad_enabled():
            return self._see(frames)
        # nothing is random in the encoder, so no generator state needs to be kept
        cls: Tensor = checkpoint(self._see, frames, use_reentrant=False, preserve_rng_state=False)
        return cls

    def _see(self, frames: Tensor) -> Tensor:
        cls: Tensor = self.encoder(self.pixels(frames))
        return cls
