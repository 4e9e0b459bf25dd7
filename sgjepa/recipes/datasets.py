"""The paper's datasets at two sizes. `mini` is a prefix of `paper`: the same episodes, fewer and smaller."""

from __future__ import annotations

from collections.abc import Callable

from sgjepa.data.settings import DatasetConfig, Part
from sgjepa.envs import find
from sgjepa.errors import unknown
from sgjepa.laws import ClippedNormal, Sampler, evenly

SIZES = ("mini", "paper")
_NARROW: dict[str, Sampler] = {"gravity": ClippedNormal(mean=4.0, std=0.5, floor=0.1)}
_WIDE: dict[str, Sampler] = {"gravity": evenly(-2.0, 10.0, 0.5)}  # 25 values


def planar(world: str, size: str) -> DatasetConfig:
    """Train g = max(N(4, 0.5^2), 0.1); test 25 gravities from -2 to 10, equally often."""
    if size == "mini":
        return DatasetConfig(world, image_size=64, train=Part(2000, _NARROW), test=Part(500, _WIDE))
    return DatasetConfig(world, image_size=128, train=Part(8000, _NARROW), test=Part(5000, _WIDE))


DATASETS: dict[str, Callable[[str, str], DatasetConfig]] = {
    "square": planar,
    "right_triangle": planar,
    "pentagon": planar,
    "house": planar,
}


def dataset(world: str, size: str) -> DatasetConfig:
    """The recipe of a world's dataset."""
    find(world)
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    return DATASETS[world](world, size)
