"""The cache of latents: named after all that decides them, in the right place, and never trusted when it is damaged."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.runs import RUN

from sgjepa.core.errors import InputError
from sgjepa.data.store import Split, open_dataset
from sgjepa.models.dino import DinoConfig, DinoWM
from sgjepa.models.encoders.frozen import DINOv2
from sgjepa.training.latent_cache import latents_of, weights_digest


@pytest.fixture
def model(tmp_path: Path) -> DinoWM:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    settings = transformers.Dinov2Config(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, mlp_ratio=1, image_size=28, patch_size=14
    )
    transformers.Dinov2Model(settings).save_pretrained(tmp_path / "dinov2")
    encoder = DINOv2(str(tmp_path / "dinov2"), image_size=28)
    return DinoConfig(encoder=encoder, controls=2, laws=1, depth=1, heads=1, head_dim=4, mlp=8, history=3).build()


@pytest.fixture
def split(copied: Path) -> Split:
    return open_dataset(copied).train


def files(split: Split) -> list[Path]:
    return sorted(split.folder.parent.glob("train.latents-*.npy"))


def test_latents_are_the_encoders_and_made_once(model: DinoWM, split: Split) -> None:
    latents = latents_of(model, split, split.folder.parent)
    expected = model.encode(torch.from_numpy(split.pixels(np.array([7]))))[0]
    np.testing.assert_allclose(latents[7], expected.numpy(), atol=2e-3)
    made = files(split)[0].stat().st_mtime_ns
    latents_of(model, split, split.folder.parent)
    assert [path.stat().st_mtime_ns for path in files(split)] == [made]


def test_other_weights_settings_or_data_have_another_file(model: DinoWM, split: Split) -> None:
    latents_of(model, split, split.folder.parent)
    with torch.no_grad():  # the same folder name, other weights
        next(model.encoder.net.parameters()).add_(1.0)
    latents_of(model, split, split.folder.parent)
    assert len(files(split)) == 2
    model.config = replace(model.config, encoder=replace(model.config.encoder, weights="elsewhere"))
    latents_of(model, split, split.folder.parent)
    assert len(files(split)) == 3
    split.digest = "another"
    latents_of(model, split, split.folder.parent)
    assert len(files(split)) == 4


def test_latents_of_our_own_encoder_lie_in_the_run_and_outlive_other_predictors(split: Split, tmp_path: Path) -> None:
    torch.manual_seed(0)
    own = RUN.model.build().train()
    before = [module.training for module in own.modules()]
    latents = latents_of(own, split, tmp_path / "run")
    assert [module.training for module in own.modules()] == before
    assert latents.dtype == np.float32
    with torch.no_grad():
        expected = own.eval().encode(torch.from_numpy(split.pixels(np.array([7]))))[0]
        np.testing.assert_allclose(latents[7], expected.numpy(), atol=1e-5)
        own.predictor.input.weight.add_(1.0)
    (made,) = (tmp_path / "run" / "latents").iterdir()
    assert made.name.startswith("copy-train-")
    latents_of(own, split, tmp_path / "run")
    with torch.no_grad():
        next(own.projector.parameters()).add_(1.0)
    latents_of(own, split, tmp_path / "run")
    assert len(list((tmp_path / "run" / "latents").iterdir())) == 2
    assert files(split) == []


def test_a_run_with_the_same_encoder_beside_it_need_not_encode_again(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    own = RUN.model.build()
    first = np.array(latents_of(own, split, tmp_path / "runs" / "first"))
    (made,) = (tmp_path / "runs" / "first" / "latents").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(type(own), "_see", lambda *_: pytest.fail("a frame was encoded again"))
        np.testing.assert_array_equal(latents_of(own, split, tmp_path / "runs" / "second"), first)
    made.write_bytes(made.read_bytes()[:-200])  # also under its second name
    shutil.rmtree(tmp_path / "runs" / "second")
    np.testing.assert_array_equal(latents_of(own, split, tmp_path / "runs" / "second"), first)


def test_a_buffer_is_part_of_the_weights_digest() -> None:
    one, other = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    assert weights_digest(one) == weights_digest(other)
    other.running_mean += 1  # type: ignore[operator]
    assert weights_digest(one) != weights_digest(other)


@pytest.mark.parametrize("content", [b"", b"not an array at all"])
def test_a_foreign_file_is_one_line(model: DinoWM, split: Split, content: bytes) -> None:
    latents_of(model, split, split.folder.parent)
    files(split)[0].write_bytes(content)
    with pytest.raises(InputError, match=r"train\.latents-\w+\.npy is damaged \(.*\); delete that file"):
        latents_of(model, split, split.folder.parent)


def test_a_truncated_file_is_one_line(model: DinoWM, split: Split) -> None:
    latents_of(model, split, split.folder.parent)
    (path,) = files(split)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="is damaged"):
        latents_of(model, split, split.folder.parent)
