"""The interface of a world model for training, evaluation, control and experiments.

    frames o ─────────── encode ────▶ z ─┐
                                         ├─ predict ─▶ the next z          features(z): the input of probes and policies
    control u, law g ─── condition ─▶ c ─┘

To bring your own model, write `models/<name>.py` with two things:

1. a frozen dataclass of its settings that is a `Config` (below): it names controls, laws and history, and `build` makes the
   model;
2. a class derived from `WorldModel` with the four methods, which passes the shape of its latents to the constructor and
   lists in `encoder_parts` the submodules that `encode` runs through.

Then register the dataclass: `sgjepa.register_model("mine", MyConfig, recipe)`. Everything else (cached latents, both losses,
rollouts, probes, forecasts, checkpoints) works on it unchanged; tests/models/test_interface.py drives every model through
one list of calls.

Shapes: B batch, T time, "..." the shape of one latent: (D,) for a vector, (P, C) for a grid of P patches.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import Field, dataclass
from typing import Annotated, Any, ClassVar, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.core.registry import Registry
from sgjepa.core.stats import ZScore
from sgjepa.models.decoder import Decoder
from sgjepa.models.encoders.frozen import Foreign
from sgjepa.models.layers import ConditionEncoder, Projector


class FourMethods(Protocol):
    """The interface that evaluation requires of any model: the four methods, as documented in `WorldModel`."""

    def encode(self, frames: Tensor, /) -> Tensor: ...

    def condition(self, control: Tensor, law: Tensor, /) -> Tensor: ...

    def predict(self, z: Tensor, c: Tensor, /) -> Tensor: ...

    def features(self, z: Tensor, /) -> Tensor: ...


class PredictorConfig(Protocol):
    """The settings of a predictor of latents that are one vector per frame: a frozen dataclass, as `Config` is."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def build(self, latent: int, history: int) -> nn.Module:
        """Build a causal module from z and c, both (B, t, latent) with t <= history, to (B, t, latent)."""


class Config(Protocol):
    """The settings of a world model. Implement it as a frozen dataclass: it is written to a run's record and read back."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def controls(self) -> int:
        """The number of channels of u; 0 in a world without controls."""

    @property
    def laws(self) -> int:
        """The number of channels of g."""

    @property
    def history(self) -> int:
        """H, the longest window that `predict` takes."""

    @property
    def foreign_encoder(self) -> Foreign | None:
        """The settings of a pretrained frozen encoder, whose weights must be available; None for a model without one."""

    def build(self) -> WorldModel:
        """Build a fresh model; random weights come from torch's global generator."""

    def outline(self) -> WorldModel:
        """Build a model with the right shapes but without pretrained weights, to count parameters and time a step."""


PREDICTORS: Registry[type[PredictorConfig]] = Registry(
    "predictor",
    {
        "GRU": "sgjepa.models.predictors.gru:GRU",
        "SSM": "sgjepa.models.predictors.ssm:SSM",
        "Transformer": "sgjepa.models.predictors.transformer:Transformer",
    },
)
MODELS: Registry[type[Config]] = Registry(
    "world model",
    {
        "JEPAConfig": "sgjepa.models.jepa:JEPAConfig",
        "DinoConfig": "sgjepa.models.dino:DinoConfig",
        "MeanPatchConfig": "sgjepa.models.mean_patch:MeanPatchConfig",
    },
)
# the types of fields that hold one of them
Predictor: TypeAlias = Annotated[PredictorConfig, PREDICTORS]
Model: TypeAlias = Annotated[Config, MODELS]


@dataclass(frozen=True, kw_only=True)
class CommonConfig:
    """Fields of every built-in world model. controls, laws: the numbers of channels of each in the data."""

    controls: int
    laws: int
    history: int = 20  # H, the longest window
    blind: bool = False  # always given the mean training law: the control condition of the factorial experiment
    residual: bool = False  # predict a change that is added to the last latent; the papers predict the latent itself

    def __post_init__(self) -> None:
        check_bounds(self, controls=(0, 4096), laws=(0, 4096), history=(1, 10_000))


@dataclass(frozen=True, kw_only=True)
class VectorConfig(CommonConfig):
    """Fields of a world model whose latent is one vector per frame."""

    predictor: Predictor
    projector_width: int = 2048
    condition_width: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounds(self, projector_width=(1, 1_048_576), condition_width=(1, 1_048_576))


class WorldModel(nn.Module, ABC):
    """Derive from it, call its constructor first, and write the four methods.

    Attributes for callers:

    latent_shape     the shape of one frame's latent: (D,) or (P, C)
    feature_width    F, the last axis of `features`
    image_size       the only picture size that `encode` takes, in pixels; None if it takes any
    frozen_encoder   the name of a pretrained encoder that is never trained, for tables; None for a trained encoder
    collapse_width   the number of latent dimensions that may collapse in training; None for a frozen encoder

    Control and law enter in their own units and are z-scored by the model. The statistics are buffers: they are saved with
    the weights, so a loaded model cannot be used with another dataset's.
    """

    encoder_parts: ClassVar[tuple[str, ...]]  # attributes that hold the submodules of `encode`
    control_mean: Tensor
    control_std: Tensor
    law_mean: Tensor
    law_std: Tensor

    def __init__(
        self,
        controls: int,
        laws: int,
        *,
        latent_shape: tuple[int, ...],
        feature_width: int,
        image_size: int | None,
        frozen_encoder: str | None = None,
        blind: bool = False,
    ):
        """blind: the model is always given the mean training law."""
        super().__init__()
        if controls + laws == 0:
            raise InputError("a world model needs at least one control or one law")
        self.controls, self.laws, self.blind = controls, laws, blind
        self.latent_shape, self.feature_width = latent_shape, feature_width
        self.image_size, self.frozen_encoder = image_size, frozen_encoder
        for name, size in (("control", controls), ("law", laws)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))

    @abstractmethod
    def encode(self, frames: Tensor, chunk: int | None = None) -> Tensor:
        """frames (B, T, h, w, 3) uint8 -> z (B, T, ...), each frame on its own.

        chunk: the number of frames encoded at a time, for less memory; the result is the same.
        """

    @abstractmethod
    def condition(self, control: Tensor, law: Tensor) -> Tensor:
        """control (B, T, A), law (B, L), both in their own units -> c (B, T, any width), each frame on its own."""

    @abstractmethod
    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        """z (B, t, ...), c (B, t, ·), t <= H -> (B, t, ...); position t answers z[t + 1] and sees nothing later than t."""

    @abstractmethod
    def features(self, z: Tensor) -> Tensor:
        """z (B, T, ...) -> (B, T, F), for probes and policies."""

    @property
    @abstractmethod
    def encoder_settings(self) -> object:
        """JSON values that, together with the encoder's weights, decide a latent: part of the name of cached latents."""

    @property
    def collapse_width(self) -> int | None:
        """The number of latent dimensions that may collapse in training; None for a frozen encoder."""
        return math.prod(self.latent_shape) if self.frozen_encoder is None else None

    def normalise(self, control: ZScore, law: ZScore) -> None:
        """Set the statistics of control and law from the training episodes."""
        for name, score in (("control", control), ("law", law)):
            for part in ("mean", "std"):
                buffer, values = self.get_buffer(f"{name}_{part}"), getattr(score, part)
                if len(values) != len(buffer):
                    raise InputError(f"the model has {len(buffer)} {name} channels, the statistics have {len(values)}")
                buffer.copy_(torch.tensor(values))

    def standardise(self, latents: Iterable[np.ndarray]) -> None:
        """Fit statistics to a frozen encoder's latents, (T, ...) of one training episode after another.

        The default does nothing.
        """

    def action(self, control: Tensor, law: Tensor) -> Tensor:
        """control (B, T, A), law (B, L) -> the paper's z-scored action [u; g], (B, T, A + L).

        The law is the same in every frame.
        """
        u = (control - self.control_mean) / self.control_std
        g = (law - self.law_mean) / self.law_std
        if self.blind:
            g = torch.zeros_like(g)
        return torch.cat([u, g[:, None].expand(-1, u.shape[1], -1)], dim=-1)

    def encoder_modules(self) -> list[nn.Module]:
        """The modules that `encode` runs through."""
        return [self.get_submodule(name) for name in self.encoder_parts]

    def freeze_encoder(self) -> None:
        """Keep the encoder as it is: no gradient, and BatchNorm by its stored statistics. `train()` undoes the latter."""
        for module in self.encoder_modules():
            module.requires_grad_(False).eval()

    def encoder_state(self) -> dict[str, Tensor]:
        """The part of the state dict that a fresh predictor on this encoder reuses: the encoder, and the statistics."""
        prefixes = (*(f"{name}." for name in self.encoder_parts), "control_", "law_")
        return {name: value for name, value in self.state_dict().items() if name.startswith(prefixes)}

    def build_decoder(self, channels: int) -> Decoder:
        """A fresh decoder from latents to pictures; an InputError if this model's latents cannot have one."""
        if self.frozen_encoder is not None or len(self.latent_shape) != 1 or self.image_size is None:
            raise InputError("the picture decoder needs a model that is trained from pixels, not a frozen encoder")
        return Decoder(self.latent_shape[0], self.image_size, channels)


class VectorModel(WorldModel):
    """A world model with vector latents z (B, T, D), conditions c (B, T, D), a predictor and its head."""

    def build_dynamics(self, config: VectorConfig, width: int) -> None:
        """Build the modules after the encoder. Random weights are drawn in this order."""
        self.condition_encoder = ConditionEncoder(config.controls + config.laws, config.condition_width, width)
        self.predictor = config.predictor.build(width, config.history)
        # the paper does not mention it: every prediction passes a second projector before it is compared or fed back
        self.pred_proj = Projector(width, config.projector_width, width)
        if config.residual:  # at first nothing changes
            nn.init.zeros_(self.pred_proj.last.weight)
            nn.init.zeros_(self.pred_proj.last.bias)

    def condition(self, control: Tensor, law: Tensor) -> Tensor:
        """control (B, T, A), law (B, L), both in their own units -> c (B, T, D)."""
        c: Tensor = self.condition_encoder(self.action(control, law))
        return c

    def features(self, z: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, F) for probes and policies: the latent itself."""
        return z
