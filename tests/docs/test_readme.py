"""The first page: one screen that says what this is and whether it works, and all that it shows really runs."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from sgjepa import zoo
from sgjepa.data import episode
from sgjepa.envs import get_env

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def make_height(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """docs/make_height.py."""
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(ROOT / "docs"))
        import make_height

        yield make_height
        sys.modules.pop("make_height")


def test_the_first_page_is_one_picture_one_table_of_four_rows_and_at_most_700_words() -> None:
    assert len(README.split()) <= 700
    assert len(re.findall(r"!\[|<img", README)) == 1
    rows = [line for line in README.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 4


def test_picture_table_and_what_holds_stand_on_the_first_screen() -> None:
    lines = README.splitlines()
    assert next(i for i, line in enumerate(lines) if line.startswith("![")) < 12
    assert next(i for i, line in enumerate(lines) if line.startswith("**What does not hold.**")) < 32


@pytest.mark.opengl
def test_the_first_pages_python_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one session, as a reader types it; only the recipe for a CPU has two updates instead of 675."""
    from sgjepa.recipes import training

    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "readme", **own_arrays()}
    short = replace(training._ON_CPU["mini"], epochs=1, updates=2)
    with mock.patch.dict(training._ON_CPU, {"mini": short}):
        for block in BLOCKS:
            exec(compile(block, "README.md", "exec", dont_inherit=True), names)
    with Image.open(tmp_path / "height.png") as drawn:
        assert np.asarray(drawn.convert("L")).std() > 5, "the plot is empty"
    assert (tmp_path / "runs" / "mine" / "model.safetensors").is_file()


def own_arrays() -> dict[str, np.ndarray]:
    """What a reader might have: 24 episodes of something. F (N, T, H, W, 3), U (N, T, A), S (N, T, C), g (N,)."""
    env = get_env("square")(image_size=64)
    g = np.linspace(3, 5, 24)
    made = [episode.simulate(env, seed=seed, law={"gravity": float(law)}) for seed, law in enumerate(g)]
    columns = {"F": "frames", "U": "control", "S": "state"}
    return {name: np.stack([getattr(one, column) for one in made]) for name, column in columns.items()} | {"g": g}


def test_the_figure_of_the_height_is_drawn_from_the_kept_numbers(tmp_path: Path, make_height: ModuleType) -> None:
    path = make_height.main(tmp_path / "height.png")
    kept = ROOT / "docs" / "images" / "height.png"
    assert kept.stat().st_size < 250_000
    with Image.open(path) as drawn, Image.open(kept) as shown:
        assert drawn.size == shown.size
        gap = np.abs(np.asarray(drawn.convert("L"), float) - np.asarray(shown.convert("L"), float))
    assert gap.mean() < 2, "the figure is not what the code draws: python docs/make_height.py"


@pytest.mark.opengl
def test_the_shipped_models_imagine_the_heights_that_the_figure_shows(make_height: ModuleType) -> None:
    names = {make_height.SG_JEPA: "approach_ball_sg_jepa", make_height.LEWM: "approach_ball_lewm"}
    found = list(make_height.curves({model: zoo.folder_of(name) for model, name in names.items()}))
    with make_height.CURVES.open(encoding="utf-8") as file:
        kept = list(csv.DictReader(file))
    for model in ("truth", *names):
        mine, shown = (np.array([float(row[model]) for row in rows]) for rows in (found, kept))
        assert np.abs(mine - shown).max() < 0.02, model
