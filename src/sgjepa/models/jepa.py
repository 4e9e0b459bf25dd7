"""The world model of the paper: an encoder and a predictor, LeWM or SG-JEPA depending on the predictor and the loss.

frames o ─ encode ─▶ z ─┐
                        ├─ predict ─▶ the next z          c = q([u; g]), the law being one more channel of the action
control u, law g ─ c ───┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sgjepa.core import config as configs
from sgjepa.core.errors import InputError
from sgjepa.models.base import Predictor, WorldModel
from sgjepa.models.candidate_rollouts import Imagined
from sgjepa.models.encoders.cnn import Convolutions
from sgjepa.models.encoders.vit import ViT
from sgjepa.models.layers import ConditionEncoder, Pixels, Projector
from sgjepa.models.predictors import candidates, parallel_rollout
from sgjepa.models.predictors.recurrent import RecurrentPredictor
from sgjepa.models.rollout import rollout


@dataclass(frozen=True)
class JEPAConfig:
    """controls and laws: how many channels of each the data has. history: the longest window, H."""

    foreign_encoder: ClassVar[None] = None
    encoder: ViT | Convolutions
    predictor: Predictor
    controls: int
    laws: int
    latent: int = 256
    projector_width: int = 2048
    condition_width: int = 1024
    history: int = 20
    blind: bool = False  # told the mean training law whatever holds: the factorial's control
    residual: bool = False  # predict a change that is added to the last latent; the paper predicts the latent itself

    def __post_init__(self) -> None:
        configs.check_bounds(self, controls=(0, 4096), laws=(0, 4096), latent=(1, 65_536), history=(1, 10_000))
        configs.check_bounds(self, projector_width=(1, 1_048_576), condition_width=(1, 1_048_576))

    def build(self) -> JEPA:
        """A fresh model."""
        return JEPA(self)

    def outline(self) -> JEPA:
        """The same: no weights have to be found."""
        return JEPA(self)


class JEPA(WorldModel):
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
        self.condition_encoder = ConditionEncoder(config.controls + config.laws, config.condition_width, config.latent)
        self.predictor = config.predictor.build(config.latent, config.history)
        # the paper does not mention it: every prediction passes a second projector before it is compared or fed back
        self.pred_proj = Projector(config.latent, config.projector_width, config.latent)
        if config.residual:  # at first nothing changes
            nn.init.zeros_(self.pred_proj.last.weight)
            nn.init.zeros_(self.pred_proj.last.bias)

    @property
    def encoder_settings(self) -> object:
        """The encoder's; the projector has none that its weights do not show."""
        return configs.to_dict(self.config.encoder)

    def encode(self, frames: Tensor, chunk: int | None = None) -> Tensor:
        """frames (B, T, h, w, 3) uint8 -> z (B, T, D).

        chunk: run the encoder on so many frames at a time and again in the backward pass, so that memory holds the
        activations of one chunk. The projector's BatchNorm still sees the whole batch: the result is the same.
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

    def condition(self, control: Tensor, law: Tensor) -> Tensor:
        """control (B, T, A), law (B, L), both in their own units -> c (B, T, D)."""
        c: Tensor = self.condition_encoder(self.action(control, law))
        return c

    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        """z, c (B, t, D), t <= history -> (B, t, D); position t answers z[t + 1] and sees nothing later than t."""
        prediction: Tensor = self.pred_proj(self.predictor(z, c))
        return z + prediction if self.config.residual else prediction

    def unroll(self, z: Tensor, c: Tensor, steps: int) -> Tensor:
        """The `steps` latents that `rollout` adds to z (B, H, D), as (B, steps, D); c (B, H + steps - 1, D).

        On a CPU a recurrent predictor works on all windows side by side, which is faster and the same up to rounding.
        """
        plain = z.device.type != "cpu" or torch.is_autocast_enabled("cpu")  # the scan by hand knows one precision
        if not plain and isinstance(self.predictor, RecurrentPredictor) and parallel_rollout.can_advance(self.predictor):
            return parallel_rollout.unroll(self.predictor, self.pred_proj, z, c, steps, residual=self.config.residual)
        return rollout(self, z, c, steps, z.shape[1])[:, z.shape[1] :]

    def imagination(self, z: Tensor, past: Tensor, steps: int) -> Imagined | None:
        """What `models.imagine.imagination` asks, by the predictor's own way; None if it has none, or is in training."""

        def head(answer: Tensor, latest: Tensor) -> Tensor:
            change: Tensor = self.pred_proj(answer)
            return latest + change if self.config.residual else change

        if self.training or not candidates.known(self.predictor):
            return None
        return candidates.futures(self.predictor, head, z, past, steps, self.config.history)

    def features(self, z: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, F), what probes and policies read: here the latent itself."""
        return z

    def _see_recomputed(self, frames: Tensor) -> Tensor:
        """As `_see`; the backward pass computes the activations anew."""
        if not torch.is_grad_enabled():
            return self._see(frames)
        # nothing is random in the encoder, so no generator state needs to be kept
        cls: Tensor = checkpoint(self._see, frames, use_reentrant=False, preserve_rng_state=False)
        return cls

    def _see(self, frames: Tensor) -> Tensor:
        cls: Tensor = self.encoder(self.pixels(frames))
        return cls
