"""`sgjepa describe`: the paper's parameter counts, counted arithmetic, and a report whose numbers are all in the JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from sgjepa import cli
from sgjepa.core.errors import InputError
from sgjepa.models.encoders.cnn import Convolutions
from sgjepa.models.encoders.frozen import MobileNetV2
from sgjepa.models.encoders.vit import ViT
from sgjepa.recipes.datasets import datasets_named
from sgjepa.recipes.training import recipe, recipes
from sgjepa.training.data import windows_of
from sgjepa.training.profile import as_text, describe, flop_counter, outline, parameters

PAPER = {
    "square_gru": 22_251_243,
    "square_ssm": 22_607_595,
    "square_lewm": 22_656_488,
    "square_transformer": 22_656_488,
    "square_transformer_adaln_1": 22_656_488,
    "square_transformer_input_concat": 22_660_100,
    "square_transformer_block_concat": 22_651_892,
    "triangle_square_gru": 22_251_243,
    "triangle_square_gru_small": 38_686_635,
}


def shown(name: str) -> dict[str, Any]:
    run = recipe(name, "mini")
    return describe(run, datasets_named(run.data))


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_models_have_the_papers_size(name: str) -> None:
    found = parameters(outline(recipe(name, "paper")))
    assert found["total"] == PAPER[name]


def test_the_larger_encoder_is_vit_small() -> None:
    tiny, small = (parameters(outline(recipe(f"triangle_square_{m}", "paper"))) for m in ("gru", "gru_small"))
    block = 4 * 384 * 385 + 384 * 1536 + 1536 + 1536 * 384 + 384 + 2 * 2 * 384  # attention, MLP, two norms
    assert small["encoder"] == 12 * block + (3 * 8 * 8 + 1) * 384 + (16 * 16 + 1) * 384 + 384 + 2 * 384
    assert tiny["predictor"] == small["predictor"]


@pytest.mark.parametrize("name", ["square_transformer_block_concat", "triangle_square_gru_small"])
def test_a_variant_is_described(name: str) -> None:
    found = shown(name)
    assert sum(row["parameters"] * row["repeats"] for row in found["layers"]) == found["parameters"]["total"]
    assert found["windows"]["stretches"] == (3600 if "triangle" in name else 1800) * 41


@pytest.mark.parametrize("size", ["mini", "paper"])
@pytest.mark.parametrize("name", recipes())
def test_groups_add_up_for_every_recipe(name: str, size: str) -> None:
    """Also DINO's: a frozen encoder's weights need not be here."""
    *groups, total = parameters(outline(recipe(name, size))).values()
    assert sum(groups) == total > 0


def test_attention_on_a_cpu_is_counted() -> None:
    q = torch.randn(2, 3, 17, 8, requires_grad=True)
    with flop_counter() as counter:
        y = F.scaled_dot_product_attention(q, q, q)
        forward = counter.get_total_flops()
        y.sum().backward()
    assert forward == 2 * (2 * 3 * 17 * 17 * 8) * 2  # scores, and their product with the values
    assert counter.get_total_flops() == 3 * forward


@pytest.fixture(scope="module", params=["square_gru", "square_ssm", "square_lewm", "square_dino"])
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    return shown(request.param)


def test_layers_add_up(found: dict[str, Any]) -> None:
    assert sum(row["parameters"] * row["repeats"] for row in found["layers"]) == found["parameters"]["total"]


def test_updates_are_those_that_training_makes(found: dict[str, Any]) -> None:
    """2,000 episodes, nine tenths for training, each 41 stretches of 24 frames; 21 per update, 3 windows of each."""
    run = recipe(found["recipe"], "mini")
    assert found["windows"]["stretches"] == 1800 * (64 - 24 + 1)
    assert found["windows"]["stretches_per_epoch"] == 225 * 21
    assert found["windows"]["updates"] == 225 * run.train.epochs
    assert found["windows"]["windows_per_epoch"] == 225 * 21 * len(windows_of(run, step=0) or [])


def test_every_printed_number_is_in_the_json(found: dict[str, Any]) -> None:
    text = as_text(json.loads(json.dumps(found)))
    assert text == as_text(found)
    for group, count in found["parameters"].items():
        assert count == 0 or re.search(rf"^  {group} +{count:,}$", text, re.MULTILINE)
    for row in found["layers"]:
        assert f"{row['parameters']:,}" in text
    assert f"{found['windows']['updates']:,} updates in all" in text
    assert f"{found['time']['seconds_per_step']:.3g} s per step" in text


def test_the_command_writes_what_it_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["describe", "square_gru", "--json", str(tmp_path / "d.json")]) == 0
    assert capsys.readouterr().out.rstrip() == as_text(json.loads((tmp_path / "d.json").read_text()))


def test_missing_weights_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: MobileNetV2) -> None:
        raise InputError("MobileNetV2 needs its weights")

    monkeypatch.setattr(MobileNetV2, "build", absent)
    found = shown("square_dino")
    assert found["frozen_encoder"]["parameters"] is None
    assert "its weights are not here: MobileNetV2" in as_text(found)


@pytest.mark.parametrize("stage", ["describe", "train"])
@pytest.mark.parametrize("words", [["square_gro"], ["square_gru", "--size", "huge"]])
def test_a_wrong_name_is_one_line(stage: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([stage, *words]) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "unknown" in error


def test_a_size_that_a_world_lacks_is_named() -> None:
    with pytest.raises(InputError, match="arm_catcher_ball has no size 'small'; it has mini, paper"):
        recipe("arm_catcher_ball_gru", "small")
    with pytest.raises(InputError, match="unknown size 'large'"):
        recipe("square_gru", "large")
    assert isinstance(recipe("square_gru", "small").model.encoder, Convolutions)
    assert isinstance(recipe("approach_ball_gru", "small").model.encoder, ViT)


def test_nothing_but_the_chosen_settings_tells_methods_of_a_size_apart() -> None:
    """The baseline gets the same data, length, optimiser, encoder and latent; validation chose the rest from one grid."""
    for size in ("mini", "small"):
        ours, theirs = (recipe(f"square_{method}", size) for method in ("gru", "lewm"))
        assert (ours.data, ours.train, ours.optim) == (theirs.data, theirs.train, theirs.optim)
        assert ours.model.encoder == theirs.model.encoder
        assert replace(ours.model, predictor=theirs.model.predictor, residual=theirs.model.residual) == theirs.model
