"""Facts about the encoder, the world model around it, and the decoder."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fixtures.frames import SMALL, frames
from torch import Tensor, nn

from sgjepa.core.config import from_dict, to_dict
from sgjepa.core.errors import InputError
from sgjepa.core.stats import ZScore
from sgjepa.models.decoder import Decoder
from sgjepa.models.encoders.cnn import Convolutions
from sgjepa.models.encoders.vit import ViT, ViTEncoder, mini, small, tiny
from sgjepa.models.jepa import JEPA, JEPAConfig
from sgjepa.models.layers import Pixels
from sgjepa.models.predictors.gru import GRU
from sgjepa.models.predictors.ssm import SSM
from sgjepa.models.predictors.transformer import Transformer

torch.set_num_threads(1)


def build(config: JEPAConfig = SMALL) -> JEPA:
    torch.manual_seed(0)
    return JEPA(config)


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("config", "parameters"),
    [(tiny(), 5_425_344), (tiny(image_size=256, patch=16), 5_535_936), (small(), 21_467_520)],
)
def test_encoder_has_as_many_parameters_as_the_paper(config: ViT, parameters: int) -> None:
    with torch.device("meta"):
        assert count(ViTEncoder(config)) == parameters


@pytest.mark.parametrize(
    ("predictor", "planar", "spatial"),
    [(GRU(), 22_251_243, 22_361_865), (SSM(), 22_607_595, 22_718_217), (Transformer(), 22_656_488, 22_767_110)],
)
def test_world_model_has_as_many_parameters_as_the_paper(
    predictor: GRU | SSM | Transformer, planar: int, spatial: int
) -> None:
    with torch.device("meta"):
        assert count(JEPA(JEPAConfig(encoder=tiny(), predictor=predictor, controls=2, laws=1))) == planar
        assert count(JEPA(JEPAConfig(encoder=tiny(256, 16), predictor=predictor, controls=5, laws=1))) == spatial


def test_encoder_computes_what_transformers_vit_computes() -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    config = ViT(width=24, depth=3, heads=3, patch=8, image_size=32)
    torch.manual_seed(0)
    ours = ViTEncoder(config).double()
    settings = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=96, image_size=32, patch_size=8
    )
    theirs = transformers.ViTModel(settings, add_pooling_layer=False).double().eval()
    for parameter in ours.parameters():  # biases and norms too must differ from their start to be seen
        nn.init.normal_(parameter, std=0.3)
    names = {
        "embeddings.cls_token": "cls",
        "embeddings.position_embeddings": "position",
        "embeddings.patch_embeddings.projection": "stem",
        "layers.": "blocks.",
        "attention.q_proj": "attention.query",
        "attention.k_proj": "attention.key",
        "attention.v_proj": "attention.value",
        "attention.o_proj": "attention.out",
        "layernorm_before": "attention.norm",
        "layernorm_after": "mlp.0",
        "mlp.fc1": "mlp.1",
        "mlp.fc2": "mlp.4",
        "layernorm": "norm",
    }
    weights = {}
    for name in theirs.state_dict():
        mine = name
        for old, new in names.items():
            mine = mine.replace(old, new)
        weights[name] = ours.state_dict()[mine]
    theirs.load_state_dict(weights)
    assert len(weights) == len(ours.state_dict())
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x).last_hidden_state[:, 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_encoder_sees_every_patch(stem: str) -> None:
    torch.manual_seed(0)
    encoder = ViTEncoder(ViT(width=24, depth=2, heads=3, patch=8, image_size=32, stem=stem))
    x = torch.randn(1, 3, 32, 32, requires_grad=True)
    encoder(x).square().sum().backward()
    assert x.grad is not None
    patches = x.grad.view(3, 4, 8, 4, 8).abs().amax((0, 2, 4))
    assert (patches > 0).all()


def test_a_frame_is_encoded_the_same_in_any_company() -> None:
    torch.manual_seed(0)
    encoder = ViTEncoder(mini(image_size=32, patch=8))
    x = torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(encoder(x)[1:2], encoder(x[1:2]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stem": "con"}, "did you mean"),
        ({"heads": 5}, "heads"),
        ({"patch": 7}, "tile"),
        ({"patch": 2, "stem": "conv"}, "4, 8"),
    ],
)
def test_impossible_encoders_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(tiny(), **change)


def test_pixels_are_normalised_like_imagenet() -> None:
    x = Pixels()(torch.tensor([[[[255, 0, 128]]]], dtype=torch.uint8))
    expected = [(1 - 0.485) / 0.229, (0 - 0.456) / 0.224, (128 / 255 - 0.406) / 0.225]
    torch.testing.assert_close(x.flatten(), torch.tensor(expected))


def test_shapes_of_the_four_methods() -> None:
    model = build().eval()
    z = model.encode(frames(2, 4))
    c = model.condition(torch.randn(2, 4, 2), torch.randn(2, 1))
    assert z.shape == c.shape == model.predict(z, c).shape == model.features(z).shape == (2, 4, 12)


def test_chunks_change_neither_latents_nor_gradients_nor_statistics() -> None:
    results = []
    for chunk in (None, 3):
        model = build().train().double()
        z = model.encode(frames(2, 4), chunk=chunk)
        (z.square().sum(-1) * torch.arange(8.0).view(2, 4)).sum().backward()
        gradients = [p.grad for p in (*model.encoder.parameters(), *model.projector.parameters())]
        results.append([z.detach(), *gradients, *model.projector.buffers()])
    torch.testing.assert_close(results[0], results[1], rtol=1e-6, atol=1e-9)


def test_chunks_keep_less_for_the_backward_pass() -> None:
    kept = []
    for chunk in (None, 2):
        sizes: list[int] = []

        def keep(x: Tensor, sizes: list[int] = sizes) -> Tensor:
            sizes.append(x.numel())
            return x

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            build().encode(frames(4, 4), chunk=chunk)
        kept.append(sum(sizes))
    assert kept[1] < kept[0] / 4  # what is left are the frames themselves and the projector


def test_frames_of_another_size_or_layout_are_refused() -> None:
    for wrong in (frames(2, 4, size=32), frames(2, 4).movedim(-1, 2), frames(2, 4).float()):
        with pytest.raises(InputError, match="uint8"):
            build().encode(wrong)


def test_condition_of_a_frame_depends_on_that_frame_alone() -> None:
    model = build()
    control, law = torch.randn(1, 4, 2), torch.randn(1, 1)
    changed = control.clone()
    changed[:, 2] += 1
    moved = (model.condition(changed, law) - model.condition(control, law)).abs().amax((0, 2)) > 0
    assert moved.tolist() == [False, False, True, False]
    assert (model.condition(control, law + 1) != model.condition(control, law)).any(-1).all()


def test_inputs_are_z_scored_by_the_training_statistics() -> None:
    model = build()
    control, law = torch.randn(3, 4, 2), torch.randn(3, 1)
    before = model.condition(control, law)
    model.normalise(ZScore((1.0, -2.0), (0.5, 3.0)), ZScore((4.0,), (0.1,)))
    raw = control * torch.tensor([0.5, 3.0]) + torch.tensor([1.0, -2.0])
    torch.testing.assert_close(model.condition(raw, law * 0.1 + 4.0), before, rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="2 control channels"):
        model.normalise(ZScore((0.0,), (1.0,)), ZScore((0.0,), (1.0,)))


def test_a_world_without_controls_is_driven_by_its_law() -> None:
    model = build(replace(SMALL, controls=0))
    assert model.condition(torch.empty(2, 4, 0), torch.randn(2, 1)).shape == (2, 4, 12)
    with pytest.raises(InputError, match="at least one"):
        build(replace(SMALL, controls=0, laws=0))


def test_state_dict_carries_the_normalisers() -> None:
    model = build()
    model.normalise(ZScore((1.0, -2.0), (0.5, 3.0)), ZScore((4.0,), (0.1,)))
    other = JEPA(SMALL)
    other.load_state_dict(model.state_dict())
    assert {"control_mean", "control_std", "law_mean", "law_std"} <= model.state_dict().keys()
    assert other.law_mean.tolist() == [4.0]
    z, c = model.eval().encode(frames(1, 4)), model.condition(torch.ones(1, 4, 2), torch.ones(1, 1))
    torch.testing.assert_close(other.eval().predict(z, c), model.predict(z, c), rtol=0, atol=0)


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_weights_can_be_stored_as_safetensors(stem: str, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model = build(replace(SMALL, encoder=replace(SMALL.encoder, stem=stem), predictor=SSM(depth=1, width=16, mlp=32)))
    model.encode(frames(1, 4)).sum().backward()
    safetensors.save_file(model.state_dict(), tmp_path / "model.safetensors")
    loaded = safetensors.load_file(tmp_path / "model.safetensors")
    torch.testing.assert_close(loaded, dict(model.state_dict()), rtol=0, atol=0)


def test_config_survives_json() -> None:
    for predictor in (GRU(), SSM(), Transformer(condition="block_concat")):
        config = replace(SMALL, predictor=predictor)
        assert from_dict(JEPAConfig, to_dict(config)) == config


def test_the_law_reaches_the_prediction_and_the_loss_reaches_the_pixels_encoder() -> None:
    model = build().eval()
    law = torch.tensor([[9.8]], requires_grad=True)
    z = model.encode(frames(1, 4))
    model.predict(z, model.condition(torch.zeros(1, 4, 2), law)).square().sum().backward()
    assert law.grad is not None
    assert law.grad.abs().item() > 0
    assert all(p.grad is not None for p in model.parameters())


def test_a_residual_model_predicts_a_change_and_starts_with_none() -> None:
    plain, changing = build(), build(replace(SMALL, residual=True))
    z, c = torch.randn(3, 4, 12), torch.randn(3, 4, 12)
    assert torch.equal(changing.predict(z, c), z), "before any training, everything stays"
    changing.load_state_dict(plain.state_dict())
    assert torch.allclose(changing.eval().predict(z, c), z + plain.eval().predict(z, c))
    assert count(changing) == count(plain)


def test_decoder_returns_pictures_and_leaves_the_world_model_untouched() -> None:
    model = build()
    z = model.encode(frames(2, 4))
    z.square().mean().backward(retain_graph=True)
    before = copy.deepcopy([p.grad for p in model.parameters()])
    decoder = Decoder(latent=12, image_size=32, channels=16)
    picture = decoder(z)
    assert picture.shape == (2, 4, 32, 32, 3)
    assert 0 <= picture.min() <= picture.max() <= 1
    picture.square().mean().backward()
    assert all(p.grad is not None for p in decoder.parameters())
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        assert (parameter.grad is None and gradient is None) or torch.equal(parameter.grad, gradient)


def test_decoder_widths_halve_down_to_an_eighth() -> None:
    with torch.device("meta"):
        decoder = Decoder(latent=256, image_size=256)
    assert [stage.conv.out_channels for stage in decoder.stages] == [128, 64, 32, 32, 32]
    with pytest.raises(InputError, match="8, 16, 32"):
        Decoder(latent=4, image_size=48)


def test_flattened_convolutions_tell_where_a_thing_is_and_see_frames_alone() -> None:
    """A picture that is moved changes the answer by as much as another picture: no place is averaged away."""
    torch.manual_seed(0)
    encoder = Convolutions(image_size=32, channels=(4, 8, 8), width=16).build()
    picture = torch.zeros(1, 3, 32, 32)
    picture[..., 4:8, 4:8] = 1.0
    seen = encoder(torch.cat([picture, picture.roll(16, dims=3), torch.randn(3, 3, 32, 32)]))
    assert seen.shape == (5, 16)
    assert (seen[0] - seen[1]).norm() > 0.1 * seen[0].norm()
    torch.testing.assert_close(encoder(picture)[0], seen[0])
    wide = Convolutions(image_size=32, channels=(4, 8, 8), width=16).wider()
    assert (wide.channels, wide.width) == ((8, 16, 16), 32)
    with pytest.raises(InputError, match="4 halvings do not divide a picture of 40 pixels evenly"):
        Convolutions(image_size=40)
