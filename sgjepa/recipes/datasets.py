"""The paper's datasets at two sizes. `mini` is a prefix of `paper`: the same episodes, fewer and smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sgjepa.core.errors import unknown
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.envs import find
from sgjepa.laws import ClippedNormal, Grid, Sampler, evenly

SIZES = ("mini", "paper")
_NARROW: dict[str, Sampler] = {"gravity": ClippedNormal(mean=4.0, std=0.5, floor=0.1)}
_WIDE: dict[str, Sampler] = {"gravity": evenly(-2.0, 10.0, 0.5)}  # 25 values

_EARTH: dict[str, Sampler] = {"gravity": ClippedNormal(mean=9.8, std=2.0, floor=0.0)}
_PLANETS: dict[str, Sampler] = {  # 25 values: 0 to 20, then Pluto, Moon, Mars, Venus
    "gravity": Grid((*evenly(0.0, 20.0, 1.0).values, 0.62, 1.63, 3.72, 8.87))
}


def planar(world: str, size: str) -> DatasetConfig:
    """Train g = max(N(4, 0.5^2), 0.1); test 25 gravities from -2 to 10, equally often."""
    if size == "mini":
        return DatasetConfig(world, image_size=64, train=Part(2000, _NARROW), test=Part(500, _WIDE))
    return DatasetConfig(world, image_size=128, train=Part(8000, _NARROW), test=Part(5000, _WIDE))


def approach_ball(world: str, size: str) -> DatasetConfig:
    """Train g = max(N(9.8, 2^2), 0); test 0, 1, ..., 20 and four bodies of the solar system, equally often."""
    if size == "mini":
        return DatasetConfig(world, image_size=64, train=Part(1000, _EARTH), test=Part(250, _PLANETS))
    return DatasetConfig(world, image_size=256, train=Part(8000, _EARTH), test=Part(1600, _PLANETS))


def arm_catcher_ball(world: str, size: str) -> DatasetConfig:
    """Train g = max(N(4, 0.5^2), 0.1); test 23 gravities from -1 to 10, equally often. Four of five are planned captures."""
    test: dict[str, Sampler] = {"gravity": evenly(-1.0, 10.0, 0.5)}
    if size == "mini":
        return DatasetConfig(world, image_size=64, train=Part(1000, _NARROW), test=Part(250, test))
    return DatasetConfig(world, image_size=256, train=Part(8000, _NARROW), test=Part(1600, test))


def franka_basket(world: str, size: str) -> DatasetConfig:
    """Train g = max(N(9.8, 2^2), 0.62); test 2.0, 2.7, ..., 16.0 and four bodies of the solar system, equally often."""
    train: dict[str, Sampler] = {"gravity": ClippedNormal(mean=9.8, std=2.0, floor=0.62)}
    test: dict[str, Sampler] = {"gravity": Grid((*evenly(2.0, 16.0, 0.7).values, 8.87, 3.72, 1.63, 0.62))}
    if size == "mini":
        return DatasetConfig(world, image_size=64, train=Part(1000, train), test=Part(250, test))
    return DatasetConfig(world, image_size=256, train=Part(8000, train), test=Part(5000, test))


DATASETS: dict[str, Callable[[str, str], DatasetConfig]] = {
    "square": planar,
    "right_triangle": planar,
    "pentagon": planar,
    "house": planar,
    "approach_ball": approach_ball,
    "arm_catcher_ball": arm_catcher_ball,
    "arm_paddle_ball": approach_ball,  # the same gravities and sizes
    "franka_basket": franka_basket,
}


def named(names: Iterable[str]) -> list[DatasetConfig] | None:
    """The recipes of datasets by their usual names, WORLD-SIZE; None if one of them has none."""
    found = [name.rpartition("-") for name in names]
    if any(world not in DATASETS or size not in SIZES for world, _, size in found):
        return None
    return [dataset(world, size) for world, _, size in found]


def dataset(world: str, size: str) -> DatasetConfig:
    """The recipe of a world's dataset."""
    find(world)
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    return DATASETS[world](world, size)
