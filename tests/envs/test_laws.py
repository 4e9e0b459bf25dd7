from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from sgjepa import laws
from sgjepa.core.errors import InputError
from sgjepa.laws import ClippedNormal, Grid
from sgjepa.recipes.datasets import dataset


def test_clipped_normal_has_the_papers_moments_and_floor() -> None:
    rng = np.random.default_rng(0)
    drawn = np.array([ClippedNormal(4.0, 0.5, 0.1).sample(rng) for _ in range(20_000)])
    assert abs(drawn.mean() - 4.0) < 4 * 0.5 / np.sqrt(20_000)  # four standard errors
    assert abs(drawn.std() - 0.5) < 4 * 0.5 / np.sqrt(40_000)
    floored = [ClippedNormal(0.0, 1.0, 0.1).sample(rng) for _ in range(100)]
    assert min(floored) == 0.1


def test_the_planar_test_grid_is_the_papers() -> None:
    grid = dataset("square", "paper").test.laws["gravity"]
    assert isinstance(grid, Grid)
    assert grid.values == tuple(np.arange(-2, 10.25, 0.5))
    assert len(grid.values) == 25


def test_paper_sizes_are_the_papers() -> None:
    paper = dataset("house", "paper")
    assert (paper.train.episodes, paper.test.episodes, paper.image_size) == (8000, 25 * 200, 128)
    mini = dataset("house", "mini")
    assert (mini.train.episodes, mini.test.episodes, mini.image_size) == (2000, 25 * 20, 64)


def test_a_grid_gives_every_value_equally_often() -> None:
    samplers = {"gravity": Grid((-2.0, 0.0, 4.0))}
    drawn = Counter(laws.draw(samplers, np.random.default_rng(0), n)["gravity"] for n in range(30))
    assert drawn == {-2.0: 10, 0.0: 10, 4.0: 10}


def test_several_grids_make_their_product() -> None:
    samplers = {"gravity": Grid((0.0, 1.0, 2.0)), "wind": Grid((5.0, 6.0))}
    drawn = [tuple(laws.draw(samplers, np.random.default_rng(0), n).values()) for n in range(6)]
    assert sorted(drawn) == sorted(itertools.product((0.0, 1.0, 2.0), (5.0, 6.0)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "heavy", "9", None, True, 10**400])
def test_a_law_must_be_finite(value: object) -> None:
    with pytest.raises(InputError, match="must be a finite number in m/s\\^2"):
        laws.check({"gravity": value})


def test_an_unknown_law_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown law 'gravty' \(did you mean gravity\?\)"):
        laws.check({"gravty": 4.0})
