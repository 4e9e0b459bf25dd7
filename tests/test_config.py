from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from conftest import small

from sgjepa.core import config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.data.config import DatasetConfig
from sgjepa.envs import ENVS
from sgjepa.recipes.datasets import dataset


@pytest.mark.parametrize(("world", "size"), [(world, size) for world, env in ENVS.items() for size in env.world.usual.sizes])
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
    formerly: ClassVar[tuple[str, ...]] = ("Disc",)
    radius: float = 1.0
    filled: bool = False  # came later


@dataclass(frozen=True)
class Box:
    side: float = 1.0


@dataclass(frozen=True)
class Picture:
    shape: Circle | Box
    seed: int = 0


def test_a_class_that_was_renamed_is_read_under_its_older_name() -> None:
    read = config.from_dict(Picture, {"type": "Picture", "shape": {"type": "Disc", "radius": 2.0}})
    assert read == Picture(Circle(2.0))
    assert config.to_dict(read)["shape"]["type"] == "Circle"
    with pytest.raises(InputError, match='"type" to be one of Circle, Box, got'):
        config.from_dict(Picture, {"shape": {"type": "Ring"}})


def test_a_class_attribute_is_no_field() -> None:
    with pytest.raises(InputError, match="has no field formerly; it has radius, filled"):
        config.from_dict(Circle, {"formerly": ["Ellipse"]})


def test_a_run_made_before_a_rename_and_before_a_new_field_goes_on(tmp_path: Path) -> None:
    older = {"type": "Picture", "shape": {"type": "Disc", "radius": 2.0}, "seed": 0}
    files.write_json(tmp_path / run_folder.CONFIG, {"config": older, "data": {}, "provenance": files.provenance()})
    run_folder.check(tmp_path, Picture(Circle(2.0)), {})
    with pytest.raises(InputError, match=r"holds a run with shape.filled = False, not True"):
        run_folder.check(tmp_path, Picture(Circle(2.0, filled=True)), {})
    with pytest.raises(InputError, match=r"holds a run with shape.type = Circle, not Box"):
        run_folder.check(tmp_path, Picture(Box()), {})


def test_a_run_of_other_code_is_refused_in_one_line(tmp_path: Path) -> None:
    older = {"shape": {"type": "Box", "edge": 2.0}}
    files.write_json(tmp_path / run_folder.CONFIG, {"config": older, "data": {}, "provenance": files.provenance()})
    with pytest.raises(
        InputError, match=r"holds a run of other code \(Picture.shape has no field edge.*choose another --out"
    ) as e:
        run_folder.check(tmp_path, Picture(Box()), {})
    assert "\n" not in str(e.value)
