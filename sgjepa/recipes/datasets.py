"""The paper's datasets at two sizes, as each world declares them. `mini` is a prefix of `paper`: fewer and smaller."""

from __future__ import annotations

from collections.abc import Iterable

from sgjepa.core.errors import InputError, unknown
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.envs import ENVS, find
from sgjepa.envs.world import Usual

SIZES = ("mini", "paper")


def usual(world: str) -> Usual:
    """What recipes are made from in that world."""
    declared = find(world).world.usual
    if declared is None:
        raise InputError(f"{world} has no recipes: its World declares no usual settings")
    return declared


def dataset(world: str, size: str) -> DatasetConfig:
    """The recipe of a world's dataset."""
    settings = usual(world)
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    chosen = settings.sizes[size]
    train, test = Part(chosen.train, dict(settings.train)), Part(chosen.test, dict(settings.test))
    return DatasetConfig(world, chosen.pixels, train, test)


def named(names: Iterable[str]) -> list[DatasetConfig] | None:
    """The recipes of datasets by their usual names, WORLD-SIZE; None if one of them has none."""
    found = [name.rpartition("-") for name in names]
    if any(world not in ENVS or ENVS[world].world.usual is None or size not in SIZES for world, _, size in found):
        return None
    return [dataset(world, size) for world, _, size in found]
