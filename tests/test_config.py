from __future__ import annotations

import json
from dataclasses import replace

import pytest
from conftest import small

from sgjepa.core import config
from sgjepa.core.errors import InputError
from sgjepa.data.config import DatasetConfig
from sgjepa.envs import ENVS
from sgjepa.recipes.datasets import SIZES, dataset


@pytest.mark.parametrize("world", ENVS)
@pytest.mark.parametrize("size", SIZES)
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
