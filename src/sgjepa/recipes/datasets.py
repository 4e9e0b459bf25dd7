"""The paper's datasets at the sizes of each world. `mini` and `small` are prefixes of `paper`, with smaller pictures."""

from __future__ import annotations

from collections.abc import Iterable

from sgjepa.core.errors import InputError, unknown
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.envs import ENVS, get_env
from sgjepa.envs.spec import DatasetDefaults, EnvSpec

SIZES = ("mini", "small", "paper")


def world_defaults(world: str) -> DatasetDefaults:
    """The dataset defaults of the world of that name; an InputError if it has none."""
    return settings_of(get_env(world).env_spec)


def settings_of(spec: EnvSpec) -> DatasetDefaults:
    """The dataset defaults that recipes in a world are made from; an InputError if it has none."""
    if spec.defaults is None:
        raise InputError(f"{spec.name} has no recipes: its EnvSpec declares no defaults")
    return spec.defaults


def check_size(world: str, size: str) -> None:
    """Raise an InputError for a size that the world of that name does not have."""
    check_size_of(get_env(world).env_spec, size)


def check_size_of(spec: EnvSpec, size: str) -> None:
    """Raise an InputError for a size that a world does not have."""
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    if size not in (sizes := settings_of(spec).sizes):
        raise InputError(f"{spec.name} has no size '{size}'; it has {', '.join(sizes)}")


def dataset(world: str, size: str) -> DatasetConfig:
    """The settings of a world's dataset at a size."""
    defaults = world_defaults(world)
    check_size(world, size)
    counts = defaults.sizes[size]
    train, test = Part(counts.train, dict(defaults.train)), Part(counts.test, dict(defaults.test))
    return DatasetConfig(world, counts.pixels, train, test)


def datasets_named(names: Iterable[str]) -> list[DatasetConfig] | None:
    """The settings of the datasets with these names, WORLD-SIZE; None if one of them is not a recipe."""
    parts = [name.rpartition("-") for name in names]
    declared = {world: env.env_spec.defaults for world, env in ENVS.items()}
    if any((defaults := declared.get(world)) is None or size not in defaults.sizes for world, _, size in parts):
        return None
    return [dataset(world, size) for world, _, size in parts]
