from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from fixtures.datasets import small

from sgjepa.core import config, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.provenance import provenance
from sgjepa.data.config import DatasetConfig
from sgjepa.envs import ENVS
from sgjepa.recipes.datasets import dataset
from sgjepa.recipes.training import recipe


@pytest.mark.parametrize(
    ("world", "size"), [(world, size) for world, env in ENVS.items() for size in env.env_spec.defaults.sizes]
)
def test_every_recipe_survives_json(world: str, size: str) -> None:
    settings = dataset(world, size)
    assert config.from_dict(DatasetConfig, json.loads(json.dumps(config.to_dict(settings)))) == settings


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": 1}, "has no field colour"),
        ({"image_size": "64"}, "DatasetConfig.image_size should be"),
        ({"seed": True}, "DatasetConfig.seed should be"),
        ({"train": {"type": "Part", "episodes": 3}}, "DatasetConfig.train lacks the field laws"),
        ({"train": {"type": "Part", "episodes": 3, "laws": {"gravity": {"type": "Normal"}}}}, "train.laws.gravity"),
        ({"train": []}, "DatasetConfig.train should be an object"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        config.from_dict(DatasetConfig, {**config.to_dict(small()), **change})


def test_difference_finds_the_place() -> None:
    one, other = config.to_dict(small()), config.to_dict(replace(small(), train=replace(small().train, episodes=31)))
    assert config.difference(one, other) == ("train.episodes", 30, 31)
    assert config.difference(one, one) is None


@dataclass(frozen=True)
class Circle:
    kind: ClassVar[str] = "round"
    radius: float = 1.0
    filled: bool = False


@dataclass(frozen=True)
class Box:
    side: float = 1.0


@dataclass(frozen=True)
class Picture:
    shape: Circle | Box
    seed: int = 0


def test_a_union_is_read_by_the_name_of_the_class() -> None:
    read = config.from_dict(Picture, {"type": "Picture", "shape": {"type": "Circle", "radius": 2.0}})
    assert read == Picture(Circle(2.0))
    with pytest.raises(InputError, match='"type" to be one of Circle, Box, got'):
        config.from_dict(Picture, {"shape": {"type": "Ring"}})


@pytest.mark.parametrize(
    ("place", "text", "value"),
    [
        ("optim.lr", "3e-3", 0.003),
        ("optim.lr", 1, 1.0),
        ("optim.kind", "adamw", "adamw"),
        ("train.batch", "20", 20),
        ("train.updates", "none", None),
        ("train.updates", "7", 7),
        ("train.decoder", "true", True),
        ("model.predictor.dropout", "0.25", 0.25),
        ("model.residual", True, True),
        ("data", "a,b", ("a", "b")),
    ],
)
def test_a_setting_is_changed_at_its_place_and_read_by_its_type(place: str, text: object, value: object) -> None:
    run = recipe("square_gru", "mini")
    changed = config.override(run, {place: text})
    found = config.flatten(changed)[place]
    assert (found, type(found)) == (value, type(value))
    others = {name: one for name, one in config.flatten(run).items() if name != place}
    assert others.items() <= config.flatten(changed).items(), "something else was changed"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lr": "1"}, r"there is no setting lr \(did you mean optim.lr\?\); it has name, data, model, loss, train, optim"),
        (
            {"optim.lrr": "1"},
            r"no setting optim.lrr \(did you mean optim.lr\?\); optim has kind, lr_matrix, lr",
        ),
        ({"optim": "1"}, r"optim is not one value; set one of optim.kind, optim.lr_matrix"),
        ({"optim.lr.x": "1"}, r"optim.lr is one value, 0.001, and has nothing below it"),
        ({"optim.lr": "fast"}, r"optim.lr should be a number, got 'fast'"),
        ({"optim.kind": "sgd"}, r"optim.kind should be one of muon, adamw, got 'sgd'"),
        ({"train.batch": "1e3"}, r"train.batch should be a value of type int, got '1e3'"),
        ({"train.batch": True}, r"train.batch should be a value of type int, got True"),
        ({"train.batch": "0"}, r"Train.batch must be at least 1, got 0"),
        ({"train.decoder": "yes"}, r"train.decoder should be a value of type bool"),
        ({"train.updates": "many"}, r"train.updates got 'many', which fits none of int, null"),
        ({"train.batch": "2", "train": "3"}, r"train: a value is set below it, too"),
        ({"train": "3", "train.batch": "2"}, r"train.batch: a value is set above it, too"),
    ],
)
def test_a_setting_that_cannot_be_is_one_line_that_names_what_there_is(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        config.override(recipe("square_gru", "mini"), settings)
    assert "\n" not in str(error.value)


def test_settings_that_need_each_other_are_changed_together() -> None:
    run = recipe("square_gru", "paper")  # its stretches are one window: 20 frames and 5 predicted
    with pytest.raises(InputError, match="a stretch needs exactly 20 frames"):
        config.override(run, {"model.history": "15"})
    assert config.override(run, {"model.history": "15", "train.frames": "20"}).history == 15


def test_changes_are_told_by_the_fewest_words_that_say_which() -> None:
    run = recipe("square_gru", "mini")
    assert config.changes(run, run) == ""
    other = config.override(run, {"optim.lr": "2e-3", "train.batch": "20", "model.predictor.width": "64"})
    assert config.changes(other, run) == "predictor.width64-lr0.002-batch20"
    same = config.override(run, {"optim.lr": str(run.optim.lr)})
    assert config.changes(same, run) == "", "what is as it was is no change"
    names = [config.changes(config.override(run, {place: 3}), run) for place, was in config.flatten(run).items() if was == 2]
    assert len(names) == len(set(names)) > 2, "two places are told by one name"


def test_a_class_attribute_is_no_field() -> None:
    with pytest.raises(InputError, match="has no field kind; it has radius, filled"):
        config.from_dict(Circle, {"kind": "round"})


def test_a_run_of_other_settings_is_refused_in_one_line(tmp_path: Path) -> None:
    picture = config.to_dict(Picture(Circle(2.0)))
    run_folder.create(tmp_path, run_folder.RunRecord(picture, {}, provenance()))
    run_folder.check(tmp_path, Picture(Circle(2.0)), {})
    with pytest.raises(InputError, match=r"holds a run with shape.filled = False, not True"):
        run_folder.check(tmp_path, Picture(Circle(2.0, filled=True)), {})
    with pytest.raises(InputError, match=r"holds a run with shape.type = Circle, not Box") as e:
        run_folder.check(tmp_path, Picture(Box()), {})
    assert "\n" not in str(e.value)
