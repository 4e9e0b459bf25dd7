"""World-model recipes: the paper's configuration table and its baselines, at two sizes.

A recipe is WORLD_METHOD; a world may be several shapes that are trained on together, for the study of transfer to a new one.
`paper` is the paper's: 20 epochs of independent clips, for GPUs. `mini` is for two CPU cores: small pictures and models,
stretches encoded once for several windows, and the same number of updates on the same data for every method compared.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sgjepa.core.errors import InputError, unknown
from sgjepa.models.dino import DinoConfig
from sgjepa.models.encoders import vit
from sgjepa.models.encoders.frozen import DINOv2, MobileNetV2
from sgjepa.models.jepa import JEPAConfig
from sgjepa.models.predictors.gru import GRU
from sgjepa.models.predictors.ssm import SSM
from sgjepa.models.predictors.transformer import VARIANTS, Transformer, variant
from sgjepa.recipes.datasets import SIZES
from sgjepa.training.losses import OneStepLoss, RolloutLoss
from sgjepa.training.optim import OptimConfig
from sgjepa.training.run import Run, Train

# world: control channels, picture size, patch, weight of SIGReg (the paper's configuration table)
_PAPER = {
    "square": (2, 128, 8, 0.72),
    "right_triangle": (2, 128, 8, 0.72),
    "pentagon": (2, 128, 8, 0.72),
    "house": (2, 128, 8, 0.72),
    "approach_ball": (0, 256, 16, 0.18),
    "arm_catcher_ball": (3, 256, 16, 0.18),
    "arm_paddle_ball": (5, 256, 16, 0.72),
    "franka_basket": (5, 256, 16, 0.09),
}
# the paper's training sets for the transfer to the house
_TOGETHER = {
    "triangle_square": ("right_triangle", "square"),
    "triangle_square_pentagon": ("right_triangle", "square", "pentagon"),
}
WORLDS = {**{world: (world,) for world in _PAPER}, **_TOGETHER}
_PAPER_BATCH = 64
# of the paper's weights of SIGReg at mini size, chosen on validation episodes (docs/log.md); both are 0.02 for the square
_MINI_SHARE = {"gru": 2 / 9, "lewm": 16 / 9}
_SMALL = {"depth": 2, "width": 128, "mlp": 256}


def gru(world: str, size: str) -> Run:
    """SG-JEPA with the GRU predictor."""
    if size == "mini":
        weight = _MINI_SHARE["gru"] * _PAPER[world][3]
        return _mini(world, "gru", GRU(**_SMALL), RolloutLoss(sigreg=weight, windows="dense", flatten=True))
    return _paper(world, "gru", GRU(), RolloutLoss(sigreg=_PAPER[world][3]))


def gru_small(world: str, size: str) -> Run:
    """The same with an encoder of twice the width and heads: the paper's ViT-Small."""
    base = gru(world, size)
    assert isinstance(base.model, JEPAConfig)
    plain = base.model.encoder
    wider = replace(plain, width=2 * plain.width, heads=2 * plain.heads)
    if size == "paper":
        wider = vit.small(plain.image_size, plain.patch)
    return replace(base, name=f"{world}_gru_small", model=replace(base.model, encoder=wider))


def ssm(world: str, size: str) -> Run:
    """SG-JEPA with the selective state space."""
    predictor = SSM(**_SMALL) if size == "mini" else SSM()
    base = gru(world, size)
    assert isinstance(base.model, JEPAConfig)
    return replace(base, name=f"{world}_ssm", model=replace(base.model, predictor=predictor))


def transformer(world: str, size: str, conditioning: str = "adaln_0") -> Run:
    """SG-JEPA with the Transformer that LeWM has, or one that is conditioned in another way and as large."""
    predictor = _mini_transformer() if size == "mini" else Transformer()
    base = gru(world, size)
    assert isinstance(base.model, JEPAConfig)
    predictor = variant(conditioning, predictor, base.model.latent)
    return replace(base, name=f"{world}_transformer", model=replace(base.model, predictor=predictor))


def lewm(world: str, size: str) -> Run:
    """The original LeWM: one step, teacher forced, AdaLN Transformer."""
    if size == "mini":
        weight = _MINI_SHARE["lewm"] * 0.09
        return _mini(world, "lewm", _mini_transformer(), OneStepLoss(sigreg=weight, windows="dense", flatten=True))
    return _paper(world, "lewm", Transformer(), OneStepLoss(sigreg=0.09))


def dino(world: str, size: str) -> Run:
    """DINO-WM: a frozen patch encoder, one step, teacher forced."""
    controls = _PAPER[world][0]
    if size == "mini":
        base = lewm(world, size)
        model = DinoConfig(MobileNetV2(64), controls, laws=1, depth=2, heads=4, head_dim=32, mlp=256, history=base.history)
        return replace(base, name=f"{world}_dino", model=model, loss=OneStepLoss(sigreg=0.0, windows="dense"))
    return Run(
        name=f"{world}_dino",
        data=(f"{world}-paper",),
        model=DinoConfig(DINOv2(), controls, laws=1),
        loss=OneStepLoss(sigreg=0.0),
        train=Train(epochs=20, batch=32, frames=21),
        optim=OptimConfig(kind="adamw", lr=5e-4, weight_decay=1e-2),
    )


def _paper(world: str, method: str, predictor: GRU | Transformer, loss: RolloutLoss | OneStepLoss) -> Run:
    controls, pixels, patch, _ = _PAPER[world]
    model = JEPAConfig(vit.tiny(pixels, patch), predictor, controls, laws=1)
    return Run(
        name=f"{world}_{method}",
        data=(f"{world}-paper",),
        model=model,
        loss=loss,
        train=Train(epochs=20, batch=_PAPER_BATCH, frames=model.history + loss.steps),
    )


def _mini(world: str, method: str, predictor: GRU | Transformer, loss: RolloutLoss | OneStepLoss) -> Run:
    model = JEPAConfig(
        vit.mini(),
        predictor,
        controls=_PAPER[world][0],
        laws=1,
        latent=64,
        projector_width=256,
        condition_width=128,
        history=10,
    )
    # many short stretches: more scenes an update than whole episodes have
    train = Train(3, batch=21, frames=24, updates=225, drawn=3, validation=8, decoder_width=64, decoder_frames=16)
    return Run(
        name=f"{world}_{method}",
        data=(f"{world}-mini",),
        model=model,
        loss=replace(loss, sigreg=_flat(loss.sigreg, train)),
        train=train,
        optim=OptimConfig(lr_matrix=2e-3, lr=1e-3),
    )


def _flat(weight: float, train: Train) -> float:
    """The paper's weight, for tests over a batch of 64, for one test over all frames: the statistic grows with them."""
    return weight * _PAPER_BATCH / (train.batch * train.frames)


def _mini_transformer() -> Transformer:
    return Transformer(depth=3, heads=4, head_dim=32, mlp=256)


METHODS: dict[str, Callable[[str, str], Run]] = {
    "gru": gru,
    "gru_small": gru_small,
    "ssm": ssm,
    "transformer": transformer,
    **{f"transformer_{name}": partial(transformer, conditioning=name) for name in VARIANTS if name != "adaln_0"},
    "lewm": lewm,
    "dino": dino,
}
RECIPES = {f"{name}_{method}": (worlds, make) for name, worlds in WORLDS.items() for method, make in METHODS.items()}


def recipe(name: str, size: str) -> Run:
    """The run of that name, such as square_gru."""
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        choices = f"worlds: {', '.join(WORLDS)}; methods: {', '.join(METHODS)}"
        raise InputError(f"unknown recipe '{name}'{hint}; a recipe is WORLD_METHOD, {choices}")
    worlds, make = RECIPES[name]
    return replace(make(worlds[0], size), name=name, data=tuple(f"{world}-{size}" for world in worlds))
