"""Random damage to every kind of file: each is refused in one line, or makes no difference, and nothing else is touched.

The seed is fixed, so a failure comes back. `-s` shows how many were tried, and how many of them refused.
"""

from __future__ import annotations

import pytest
from fixtures.damage import World, build, commands, fuzz, recipe_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("fuzz") / "world")


def test_a_sample_of_damages_is_refused_in_one_line(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with commands(recipe_of(world)):
        counts = fuzz(world, capsys, per_kind=1, seed=1)
    assert counts["tried"] == len(world.files())
    assert counts["refused"] >= counts["tried"] - 1


@pytest.mark.slow
def test_random_damage_is_refused_in_one_line(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with commands(recipe_of(world)):
        counts = fuzz(world, capsys, per_kind=40, seed=2)
    with capsys.disabled():
        print("\n" + ", ".join(f"{name} {count}" for name, count in counts.items()))
    assert counts["tried"] >= 500
    assert counts["refused"] >= 0.9 * counts["tried"]
