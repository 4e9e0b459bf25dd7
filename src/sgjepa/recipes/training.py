"""World-model recipes: the paper's configuration table and its baselines, at three sizes.

A recipe is WORLD_METHOD; a world may be several shapes that are trained on together, for the study of transfer to a new one.
`paper` is the paper's: 20 epochs of independent clips, for GPUs. `mini` is for two CPU cores: small pictures and models,
stretches encoded once for several windows, and the same number of updates on the same data for every method compared.
`small` takes half an hour on one core, with an encoder whose latents keep a body's orientation.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from sgjepa.core.errors import InputError
from sgjepa.core.registry import Registry
from sgjepa.envs import ENVS, get_env
from sgjepa.envs.spec import EnvSpec
from sgjepa.models.base import PredictorConfig
from sgjepa.models.dino import DinoConfig
from sgjepa.models.encoders import vit
from sgjepa.models.encoders.cnn import Convolutions
from sgjepa.models.encoders.frozen import DINOv2, MobileNetV2
from sgjepa.models.encoders.vit import ViT
from sgjepa.models.jepa import JEPAConfig
from sgjepa.models.mean_patch import MeanPatchConfig
from sgjepa.models.predictors.gru import GRU
from sgjepa.models.predictors.ssm import SSM
from sgjepa.models.predictors.transformer import VARIANTS, Transformer, variant
from sgjepa.recipes.datasets import check_size, check_size_of, settings_of
from sgjepa.training.config import Run, Train
from sgjepa.training.losses import OneStepLoss, RolloutLoss
from sgjepa.training.optim import OptimConfig

# the paper's training sets for the transfer to the house
_TOGETHER = {
    "triangle_square": ("right_triangle", "square"),
    "triangle_square_pentagon": ("right_triangle", "square", "pentagon"),
}
_PAPER_BATCH = 64
_LEWM_SIGREG = 0.09  # the original's weight, in every world
_NARROW = {"depth": 2, "width": 128, "mlp": 256}
_LATENT, _HISTORY = 64, 10  # of the sizes for a CPU
# many short stretches: more scenes per update than whole episodes have
_MINI_TRAIN = Train(3, batch=21, frames=24, updates=225, drawn=3, validation=8, decoder_width=64, decoder_frames=16)
_ON_CPU = {"mini": _MINI_TRAIN, "small": replace(_MINI_TRAIN, epochs=12, updates=200)}


@dataclass(frozen=True)
class Tuned:
    """Settings of a method selected on validation episodes, from one grid for all. sigreg: of one test per update."""

    sigreg: float
    residual: bool
    dropout: float


# `sgjepa study hyperparameters` at that size; SSM and Transformer use the GRU's values (docs/log.md)
TUNED = {
    "mini": {"sg_jepa": Tuned(0.09, False, 0.0), "lewm": Tuned(0.02, True, 0.1)},
    "small": {"sg_jepa": Tuned(0.18, True, 0.0), "lewm": Tuned(0.02, True, 0.0)},
}


@dataclass(frozen=True)
class Family:
    """Settings that the models of some worlds share: the paper's, and those of the sizes for a CPU."""

    sigreg: float = 0.09  # the paper's weight of SIGReg
    history: int = 20  # H of the paper's models
    tuned: Mapping[str, Mapping[str, Tuned]] = field(default_factory=lambda: TUNED)  # by size and method
    convolutions: bool = False  # the encoder on a CPU; a ViT encodes a ball's height better


# `sgjepa study hyperparameters_reacher` at mini size, the only size for a CPU of these worlds
_BENCHMARK = Family(
    sigreg=0.72,
    history=10,
    tuned={"mini": {"sg_jepa": Tuned(0.02, True, 0.0), "lewm": TUNED["mini"]["lewm"]}},
    convolutions=True,
)
# a world that is not listed, such as one of a plug-in, has the defaults
FAMILIES = {
    **dict.fromkeys(("right_triangle", "square", "pentagon", "house", "arm_paddle_ball"), Family(sigreg=0.72)),
    **dict.fromkeys(("approach_ball", "arm_catcher_ball"), Family(sigreg=0.18)),
    **dict.fromkeys(("reacher", "cube"), _BENCHMARK),
}


def family_of(spec: EnvSpec) -> Family:
    """The settings of models in a world."""
    return FAMILIES.get(spec.name, Family())


def gru(spec: EnvSpec, size: str) -> Run:
    """SG-JEPA with the GRU predictor."""
    return _sg_jepa(spec, size, "gru", _gru(size), _encoder(spec, size))


def gru_small(spec: EnvSpec, size: str) -> Run:
    """SG-JEPA with the GRU predictor and an encoder of twice the width, the paper's ViT-Small."""
    return _sg_jepa(spec, size, "gru_small", _gru(size), _encoder(spec, size).wider())


def ssm(spec: EnvSpec, size: str) -> Run:
    """SG-JEPA with the selective state-space predictor."""
    predictor = SSM(**_NARROW) if size in _ON_CPU else SSM()
    return _sg_jepa(spec, size, "ssm", predictor, _encoder(spec, size))


def transformer(spec: EnvSpec, size: str, conditioning: str = "adaln_0") -> Run:
    """SG-JEPA with LeWM's Transformer, or one of equal size with another kind of conditioning."""
    predictor = variant(conditioning, _transformer(size), _LATENT if size in _ON_CPU else JEPAConfig.latent)
    return _sg_jepa(spec, size, "transformer", predictor, _encoder(spec, size))


def lewm(spec: EnvSpec, size: str) -> Run:
    """The original LeWM: one step, teacher forced, AdaLN Transformer."""
    loss = OneStepLoss(sigreg=_LEWM_SIGREG)
    if size in _ON_CPU:
        loss = OneStepLoss(sigreg=family_of(spec).tuned[size]["lewm"].sigreg, windows="dense", flatten=True)
    return _run(spec, size, "lewm", _model(spec, size, "lewm", _transformer(size), _encoder(spec, size)), loss)


def dino(spec: EnvSpec, size: str) -> Run:
    """DINO-WM: a frozen patch encoder, one step, teacher forced."""
    controls, laws, history = _controls(spec), _laws(spec), family_of(spec).history
    if size in _ON_CPU:
        narrow = DinoConfig(
            encoder=MobileNetV2(64), controls=controls, laws=laws, depth=2, heads=4, head_dim=32, mlp=256, history=_HISTORY
        )
        return _run(spec, size, "dino", narrow, OneStepLoss(sigreg=0.0, windows="dense"))
    return Run(
        name=f"{spec.name}_dino",
        data=(f"{spec.name}-paper",),
        model=DinoConfig(encoder=DINOv2(), controls=controls, laws=laws, history=history),
        loss=OneStepLoss(sigreg=0.0),
        train=Train(epochs=20, batch=32, frames=history + 1),
        optim=OptimConfig(kind="adamw", lr=5e-4, weight_decay=1e-2),
    )


def dino_gru(spec: EnvSpec, size: str) -> Run:
    """SG-JEPA's GRU and objective on the mean patch of frozen DINO features."""
    like = gru(spec, size)
    assert isinstance(like.model, JEPAConfig)
    shared = ("predictor", "controls", "laws", "projector_width", "condition_width", "history", "residual")
    encoder = MobileNetV2(64) if size in _ON_CPU else DINOv2()
    model = MeanPatchConfig(encoder=encoder, **{name: getattr(like.model, name) for name in shared})
    return replace(like, name=f"{spec.name}_dino_gru", model=model, loss=replace(like.loss, sigreg=0.0))


def _sg_jepa(spec: EnvSpec, size: str, method: str, predictor: PredictorConfig, encoder: ViT | Convolutions) -> Run:
    """A predictor trained on its own rollouts, with the world's weight of SIGReg."""
    loss = RolloutLoss(sigreg=family_of(spec).sigreg)
    if size in _ON_CPU:
        loss = RolloutLoss(sigreg=family_of(spec).tuned[size]["sg_jepa"].sigreg, windows="dense", flatten=True)
    return _run(spec, size, method, _model(spec, size, "sg_jepa", predictor, encoder), loss)


def _run(spec: EnvSpec, size: str, method: str, model: JEPAConfig | DinoConfig, loss: RolloutLoss | OneStepLoss) -> Run:
    """A run with the training length and learning rates of a size."""
    name, data = f"{spec.name}_{method}", (f"{spec.name}-{size}",)
    if size in _ON_CPU:
        return Run(name, data, model, loss, _ON_CPU[size], OptimConfig(lr_matrix=2e-3, lr=1e-3))
    return Run(name, data, model, loss, Train(epochs=20, batch=_PAPER_BATCH, frames=model.history + loss.steps))


def _model(spec: EnvSpec, size: str, method: str, predictor: PredictorConfig, encoder: ViT | Convolutions) -> JEPAConfig:
    if size not in _ON_CPU:
        return JEPAConfig(
            encoder=encoder, predictor=predictor, controls=_controls(spec), laws=_laws(spec), history=family_of(spec).history
        )
    settings = family_of(spec).tuned[size][method]
    return JEPAConfig(
        encoder=encoder,
        predictor=replace(predictor, dropout=settings.dropout) if hasattr(predictor, "dropout") else predictor,
        controls=_controls(spec),
        laws=_laws(spec),
        latent=_LATENT,
        projector_width=256,
        condition_width=128,
        history=_HISTORY,
        residual=settings.residual,
    )


def _controls(spec: EnvSpec) -> int:
    return len(spec.control)


def _laws(spec: EnvSpec) -> int:
    """The number of laws that vary in the world's dataset: 0 in conventional benchmarks."""
    return len(settings_of(spec).train)


def _encoder(spec: EnvSpec, size: str) -> ViT | Convolutions:
    """A ViT; on a CPU convolutions for some worlds, and in the small size where a body turns."""
    pixels, turns = settings_of(spec).sizes[size].pixels, spec.probed is not None and bool(spec.probed.angle)
    if size not in _ON_CPU:
        return vit.tiny(pixels, _patch(pixels))
    if family_of(spec).convolutions or (size == "small" and turns):
        return Convolutions(pixels)
    return vit.mini(pixels, next((patch for patch in (16, 8, 4) if pixels % patch == 0), 16))  # few tokens, if patches tile


def _patch(pixels: int) -> int:
    """Sixteen patches along a side as in the paper, or the next smaller number that tiles the picture."""
    return next((patch for patch in range(max(pixels // 16, 1), pixels) if pixels % patch == 0), pixels)


def _gru(size: str) -> GRU:
    return GRU(**_NARROW) if size in _ON_CPU else GRU()


def _transformer(size: str) -> Transformer:
    return Transformer(depth=3, heads=4, head_dim=32, mlp=256) if size in _ON_CPU else Transformer()


Recipe: TypeAlias = Callable[[EnvSpec, str], Run]  # (world, size) -> run

METHODS: Registry[Recipe] = Registry(
    "method",
    {
        "gru": gru,
        "gru_small": gru_small,
        "ssm": ssm,
        "transformer": transformer,
        **{f"transformer_{name}": partial(transformer, conditioning=name) for name in VARIANTS if name != "adaln_0"},
        "lewm": lewm,
        "dino": dino,
        "dino_gru": dino_gru,
    },
)
DEFAULT_METHOD = "sg_jepa"  # the paper's method with its default predictor, the GRU


def worlds() -> dict[str, tuple[str, ...]]:
    """The first parts of recipe names, with the worlds that each trains on."""
    return {**{name: (name,) for name, env in ENVS.items() if env.env_spec.defaults}, **_TOGETHER}


def recipes() -> dict[str, tuple[tuple[str, ...], Recipe]]:
    """All recipes by name, WORLD_METHOD, with their worlds and the function that makes the run."""
    return {f"{name}_{method}": (parts, make) for name, parts in worlds().items() for method, make in METHODS.items()}


def recipe(name: str, size: str) -> Run:
    """The run of a recipe by name, such as square_gru."""
    known = recipes()
    if name not in known:
        near = [f"{name}_gru"] if name in worlds() else difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        choices = f"worlds: {', '.join(worlds())}; methods: {', '.join(METHODS)}"
        raise InputError(f"unknown recipe '{name}'{hint}; a recipe is WORLD_METHOD, {choices}")
    parts, make = known[name]
    for world in parts:
        check_size(world, size)
    return replace(make(get_env(parts[0]).env_spec, size), name=name, data=tuple(f"{world}-{size}" for world in parts))


def recipe_for(spec: EnvSpec, pixels: int, method: str, size: str) -> Run:
    """The run of a method for pictures of a size, in a world that need not have a simulator.

    Its dataset has the default name, WORLD-SIZE.
    """
    check_size_of(spec, size)
    defaults = settings_of(spec)
    if defaults.sizes[size].pixels != pixels:
        sizes = {**defaults.sizes, size: replace(defaults.sizes[size], pixels=pixels)}
        spec = replace(spec, defaults=replace(defaults, sizes=sizes))
    return _within(METHODS.lookup("gru" if method == DEFAULT_METHOD else method)(spec, size), spec.frames)


def _within(run: Run, frames: int) -> Run:
    """The run for episodes of `frames` frames: short episodes get shorter stretches and a shorter history."""
    if frames >= run.train.frames:
        return run
    history = min(run.history, max(1, frames // 2 - run.loss.steps))
    length = history + run.loss.steps if run.loss.windows == "clip" else frames
    return replace(run, model=replace(run.model, history=history), train=replace(run.train, frames=length))


def recipe_with(predictor: type[PredictorConfig], method: str) -> Recipe:
    """A recipe of SG-JEPA with a registered predictor at its default settings, with the tuned dropout if it has any."""

    def make(spec: EnvSpec, size: str) -> Run:
        return _sg_jepa(spec, size, method, predictor(), _encoder(spec, size))

    return make
