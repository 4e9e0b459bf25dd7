"""The paper's datasets at the sizes that each world declares. `mini` and `small` are prefixes of `paper`, smaller drawn."""

from __future__ import annotations

from collections.abc import Iterable

from sgjepa.core.errors import InputError, unknown
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.envs import ENVS, get_env
from sgjepa.envs.spec import DatasetDefaults, EnvSpec

SIZES = ("mini", "small", "paper")


def usual(world: str) -> DatasetDefaults:
    """What recipes are made from in the world of that name."""
    return settings_of(get_env(world).env_spec)


def settings_of(spec: EnvSpec) -> DatasetDefaults:
    """What recipes are made from in a world."""
    if spec.defaults is None:
        raise InputError(f"{spec.name} has no recipes: its EnvSpec declares no usual settings")
    return spec.defaults


def check_size(world: str, size: str) -> None:
    """Refuse a size that does not exist, or not in the world of that name."""
    check_size_of(get_env(world).env_spec, size)


def check_size_of(spec: EnvSpec, size: str) -> None:
    """Refuse a size that does not exist, or not in a world."""
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    if size not in (sizes := settings_of(spec).sizes):
        raise InputError(f"{spec.name} has no size '{size}'; it has {', '.join(sizes)}")


def dataset(world: str, size: str) -> DatasetConfig:
    """The recipe of a world's dataset."""
    settings = usual(world)
    check_size(world, size)
    chosen = settings.sizes[size]
    train, test = Part(chosen.train, dict(settings.train)), Part(chosen.test, dict(settings.test))
    return DatasetConfig(world, chosen.pixels, train, test)


def named(names: Iterable[str]) -> list[DatasetConfig] | None:
    """The recipes of datasets by their usual names, WORLD-SIZE; None if one of them has none."""
    parts = [name.rpartition("-") for name in names]
    declared = {world: env.env_spec.defaults for world, env in ENVS.items()}
    if any((defaults := declared.get(world)) is None or size not in defaults.sizes for world, _, size in parts):
        return None
    return [dataset(world, size) for world, _, size in parts]
