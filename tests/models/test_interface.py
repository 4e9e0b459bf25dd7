"""What every world model keeps to, also one that a user brings: one list of calls for all."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from fixtures.runs import RUN
from torch import Tensor, nn

from sgjepa.core import config, run_folder
from sgjepa.core.errors import InputError
from sgjepa.models.base import Config, WorldModel
from sgjepa.models.rollout import one_step, rollout
from sgjepa.models.weights import load_weights, save_weights
from sgjepa.recipes.training import METHODS, recipe
from sgjepa.training.config import Run
from sgjepa.training.world_model import train

torch.set_num_threads(1)


@dataclass(frozen=True)
class PooledConfig:
    """A user's own model: latents are mean colours of quarters of the picture, (4, 3), and the predictor is one layer."""

    controls: int = 2
    laws: int = 1
    history: int = 4
    foreign_encoder: ClassVar[None] = None

    def build(self) -> Pooled:
        return Pooled(self)

    def outline(self) -> Pooled:
        return Pooled(self)


class Pooled(WorldModel):
    encoder_parts = ("colours",)

    def __init__(self, settings: PooledConfig):
        super().__init__(settings.controls, settings.laws, latent_shape=(4, 3), feature_width=12, image_size=None)
        self.colours = nn.Linear(3, 3)
        self.mix = nn.GRU(12 + settings.controls + settings.laws, 12, batch_first=True)

    @property
    def encoder_settings(self) -> object:
        return None

    def encode(self, frames: Tensor, chunk: int | None = None) -> Tensor:
        pictures = frames.flatten(0, 1).movedim(-1, 1).float() / 255
        quarters: Tensor = self.colours(nn.functional.adaptive_avg_pool2d(pictures, 2).flatten(2).mT)
        return quarters.unflatten(0, frames.shape[:2])

    def condition(self, control: Tensor, law: Tensor) -> Tensor:
        return self.action(control, law)

    def predict(self, z: Tensor, c: Tensor) -> Tensor:
        y, _ = self.mix(torch.cat([z.flatten(2), c], dim=-1))
        return z + y.view(z.shape)

    def features(self, z: Tensor) -> Tensor:
        return z.flatten(2)


SQUARE = recipe("square_gru", "mini").model
MODELS: dict[str, Config] = {
    **{method: recipe(f"square_{method}", "mini").model for method in METHODS},
    "convolutions": recipe("square_gru", "small").model,
    "no controls": recipe("approach_ball_gru", "mini").model,
    "two laws": replace(SQUARE, laws=2),
    "two controls, no law": replace(SQUARE, controls=2, laws=0),
    "a user's": PooledConfig(),
}


@cache
def built(name: str) -> WorldModel:
    """In eval mode and a little off its start: there some weights are zero, and hide what would be seen."""
    torch.manual_seed(0)
    try:
        model = MODELS[name].build().eval()
    except InputError as error:
        pytest.skip(str(error))
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(name: str) -> WorldModel:
    return built(name)


def frames(model: WorldModel, *shape: int) -> Tensor:
    size, source = model.image_size or 64, torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (*shape, size, size, 3), dtype=torch.uint8, generator=source)


def inputs(model: WorldModel, steps: int, batch: int = 2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """control, law, z, c; nothing has a gradient."""
    source = torch.Generator().manual_seed(2)
    control = torch.randn(batch, steps, model.controls, generator=source)
    law = torch.randn(batch, model.laws, generator=source)
    z = torch.randn(batch, steps, *model.latent_shape, generator=source)
    with torch.no_grad():
        return control, law, z, model.condition(control, law)


@torch.no_grad()
def test_shapes(model: WorldModel) -> None:
    control, law, _, _ = inputs(model, 3)
    z, c = model.encode(frames(model, 2, 3)), model.condition(control, law)
    assert z.shape == (2, 3, *model.latent_shape)
    assert c.shape[:2] == (2, 3)
    assert model.predict(z, c).shape == z.shape
    assert model.features(z).shape == (2, 3, model.feature_width)
    torch.testing.assert_close(model.encode(frames(model, 2, 3), chunk=4), z)


def test_the_gradient_reaches_the_predictor(model: WorldModel) -> None:
    control, law, z, _ = inputs(model, 3)
    model.zero_grad()
    model.predict(z, model.condition(control, law)).square().sum().backward()
    encoder = {p for part in model.encoder_modules() for p in part.parameters()}
    others = [p for p in model.parameters() if p not in encoder]
    assert others
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in others)
    assert all((p.grad != 0).any() for p in others if p.dim() > 1)
    model.zero_grad()


@torch.no_grad()
def test_an_episode_is_answered_the_same_in_any_company(model: WorldModel) -> None:
    control, law, z, c = inputs(model, 3, batch=3)
    pictures, one = frames(model, 3, 3), slice(1, 2)
    near = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(model.encode(pictures)[one], model.encode(pictures[one]), **near)
    torch.testing.assert_close(c[one], model.condition(control[one], law[one]), **near)
    torch.testing.assert_close(model.predict(z, c)[one], model.predict(z[one], c[one]), **near)
    torch.testing.assert_close(model.features(z)[one], model.features(z[one]), **near)


@torch.no_grad()
def test_a_prediction_sees_nothing_later(model: WorldModel) -> None:
    _, _, z, c = inputs(model, 4)
    before = model.predict(z, c)
    for t in range(4):
        for changed in (0, 1):
            both = [z.clone(), c.clone()]
            both[changed][:, t] = both[changed][:, t].flip(-1)  # not plus a constant: a LayerNorm would take it away
            moved = (model.predict(*both) - before).abs().flatten(2).amax((0, 2)) > 1e-5
            assert not moved[:t].any()
            assert moved[t], "a frame's own latent and condition must reach its prediction"


@torch.no_grad()
def test_every_input_channel_reaches_the_condition_of_its_frame_alone(model: WorldModel) -> None:
    control, law, _, c = inputs(model, 3)
    for channel in range(model.laws):
        other = law.clone()
        other[:, channel] += 1
        assert (model.condition(control, other) != c).any(-1).all(), "the law holds in every frame"
    for channel in range(model.controls):
        other = control.clone()
        other[:, 1, channel] += 1
        assert (model.condition(other, law) != c).any(-1).any(0).tolist() == [False, True, False]


@pytest.mark.parametrize("method", ["gru", "dino"])
def test_a_blind_model_is_told_the_mean_law_whatever_holds(method: str) -> None:
    built(method)  # skips where weights are missing
    model = replace(MODELS[method], blind=True).build()  # type: ignore[type-var]
    control, law, _, c = inputs(model, 3)
    assert torch.equal(model.condition(control, law + 5), c)
    assert not torch.equal(model.condition(control + 5, law), c)


@torch.no_grad()
def test_a_mean_patch_is_the_mean_of_dino_wms_patches_and_is_predicted_in_their_scale() -> None:
    grid, mean = built("dino"), built("dino_gru")
    pictures = frames(mean, 2, 3)
    z = mean.encode(pictures)
    assert torch.allclose(z, grid.features(grid.encode(pictures)), atol=1e-5)
    shifted = MODELS["dino_gru"].build().eval()
    shifted.load_state_dict(mean.state_dict())
    seen = 7 + 3 * torch.randn(64, *z.shape[2:])
    shifted.standardise([seen[:40].numpy(), seen[40:].numpy()])
    assert torch.allclose(shifted.latent_mean, seen.mean(0), atol=1e-4)
    assert torch.allclose(shifted.latent_std, seen.std(0, correction=0), atol=1e-4)
    c = mean.condition(torch.zeros(2, 3, 2), torch.zeros(2, 1))
    scaled = z * shifted.latent_std + shifted.latent_mean
    answer = mean.predict(z, c) * shifted.latent_std + shifted.latent_mean
    assert torch.allclose(shifted.predict(scaled, c), answer, atol=1e-3)


@torch.no_grad()
def test_rollout_composes(model: WorldModel) -> None:
    _, _, z, c = inputs(model, 9)
    whole = rollout(model, z[:, :4], c, steps=5, history=3)
    assert torch.equal(whole, rollout(model, rollout(model, z[:, :4], c, 3, 3), c, 2, 3))  # S(5) = S(2) after S(3)
    assert torch.equal(whole[:, 4:5], one_step(model, whole[:, 1:5], c[:, 1:5], history=3))


@torch.no_grad()
def test_weights_and_settings_on_disk_make_the_same_model(name: str, model: WorldModel, tmp_path: Path) -> None:
    save_weights(tmp_path / "model.safetensors", model)
    settings = MODELS[name]
    if name != "a user's":  # artifact.json knows the configs in training/config.py
        run = json.loads(json.dumps(config.to_dict(replace(recipe("square_gru", "mini"), model=settings))))
        settings = config.from_dict(Run, run).model
    other = settings.build().eval()
    load_weights(tmp_path / "model.safetensors", other)
    _, _, z, c = inputs(model, 3)
    assert torch.equal(other.encode(frames(model, 1, 2)), model.encode(frames(model, 1, 2)))
    assert torch.equal(other.predict(z, c), model.predict(z, c))


@torch.no_grad()
def test_the_encoders_part_of_the_weights_decides_the_latents(name: str, model: WorldModel) -> None:
    torch.manual_seed(1)
    other = MODELS[name].build().eval()
    kept = model.encoder_state()
    assert not other.load_state_dict(kept, strict=False).unexpected_keys
    assert torch.equal(other.encode(frames(model, 1, 2)), model.encode(frames(model, 1, 2)))
    assert {"control_mean", "control_std", "law_mean", "law_std"} <= kept.keys()
    assert len(kept) < len(model.state_dict())


def test_a_frozen_encoder_gets_no_gradient_and_stays_in_eval_mode(name: str) -> None:
    built(name)  # skips where weights are missing
    model = MODELS[name].build().train()
    model.freeze_encoder()
    assert not model.encode(frames(model, 2, 2)).requires_grad
    assert not any(m.training for part in model.encoder_modules() for m in part.modules())
    assert any(p.requires_grad for p in model.parameters())


def test_what_training_could_collapse_and_what_can_be_decoded(model: WorldModel) -> None:
    assert (model.collapse_width is None) == (model.frozen_encoder is not None)
    if model.frozen_encoder is None and len(model.latent_shape) == 1:
        z = torch.randn(2, 3, *model.latent_shape)
        assert model.build_decoder(channels=8)(z).shape == frames(model, 2, 3).shape
    else:
        with pytest.raises(InputError, match="picture decoder needs"):
            model.build_decoder(channels=8)


def test_a_users_model_is_trained_like_ours(finished: Path, tmp_path: Path) -> None:
    run = replace(RUN, model=PooledConfig(), train=replace(RUN.train, frames=64, epochs=1))  # type: ignore[arg-type]
    folder = train(run, tmp_path / "own", finished.parent)
    assert train(run, folder, finished.parent) == folder
    validation = [row for row in run_folder.read(folder) if row["split"] == "validation"]
    assert 1 <= validation[-1]["rank"] <= 12
