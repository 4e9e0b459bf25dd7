"""A model as ONNX files answers as the model does, for batches of a size that it was not exported with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.frames import SMALL, frames
from torch import nn

from sgjepa.core.errors import InputError
from sgjepa.models.base import Config, WorldModel
from sgjepa.models.dino import DinoConfig
from sgjepa.models.encoders.frozen import MobileNetV2
from sgjepa.models.onnx import export
from sgjepa.models.predictors.ssm import SSM
from sgjepa.models.predictors.transformer import Transformer

torch.set_num_threads(1)

CONFIGS: dict[str, Config] = {
    "gru, no controls": replace(SMALL, encoder=replace(SMALL.encoder, stem="conv"), controls=0, laws=2),
    "ssm": replace(SMALL, predictor=SSM(depth=1, width=16, mlp=24, state=4)),
    "transformer": replace(SMALL, predictor=Transformer(depth=1, heads=2, head_dim=8, mlp=24)),
    "dino": DinoConfig(encoder=MobileNetV2(32), controls=2, laws=1, depth=1, heads=2, head_dim=8, mlp=16, history=4),
}

QUICK = ("ssm", "dino")  # a scan, and an encoder of others; the rest is slow


def build(config: Config) -> WorldModel:
    """Every weight random: some start at zero, where an answer would not depend on its input."""
    torch.manual_seed(0)
    model = config.build().eval()
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.2)
    return model


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CONFIGS])
def test_onnx_answers_as_torch_for_every_batch(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    try:
        model = build(CONFIGS[name])
    except InputError as error:
        pytest.skip(str(error))
    size = model.image_size or 32
    found = export(model, tmp_path, history=4, image_size=size)
    sessions = {method: onnxruntime.InferenceSession(path) for method, path in found.items()}
    for batch, steps in ((1, 4), (5, 1), (3, 7)):
        control, law = torch.randn(batch, steps, model.controls), torch.randn(batch, model.laws)
        width = model.condition(control, law).shape[2]
        inputs = {
            "encode": {"frames": frames(batch, steps, size=size)},
            "condition": {"control": control, "law": law},
            "predict": {"z": torch.randn(batch, 4, *model.latent_shape), "c": torch.randn(batch, 4, width)},
        }
        for method, tensors in inputs.items():
            with torch.no_grad():
                expected = getattr(model, method)(*tensors.values()).numpy()
            given = {name: value.numpy() for name, value in tensors.items()}
            (answer,) = sessions[method].run(None, given)
            assert np.ptp(expected) > 1e-2, "an answer that never varies proves nothing"
            np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-5, err_msg=method)


def test_a_model_in_training_mode_is_not_exported(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    with pytest.raises(InputError, match="eval mode"):
        export(SMALL.build().train(), tmp_path, history=4)


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InputError, match="pip install onnx onnxscript"):
        export(SMALL.build().eval(), tmp_path, history=4)
