"""CONTRIBUTING's table "I want to add" is true: its files and names exist, and a toy from outside follows each main row."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "sgjepa"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TABLE = [row for row in re.findall(r"^\| .* \|$", GUIDE, re.MULTILINE) if not row.startswith("| I want")]
ROWS = {row.split("|")[1].strip(): row for row in TABLE}
# by row: the function that adds it from outside of the package, and the fixture with a toy, which test_plugins.py and
# test_learned.py run
TOYS = {
    "an environment": ("register_world", "toys"),
    "a physical parameter": ("register_law", "toys"),
    "a predictor": ("register_predictor", "toys"),
    "a world model": ("register_model", "toys"),
    "a policy that learns nothing": ("register_policy", "toys"),
    "a policy that learns": ("register_learned_policy", "regression"),
    "a planner": ("register_planner", "toys"),
    "a metric": ("METRICS.register", "toys"),
    "a pixel codec": ("CODECS.register", "toys"),
    "an experiment": ("register_experiment", "toys"),
}
_FILE = re.compile(r"[`(]([\w/]+/\w+\.(?:py|json))[`)]")
_NAMED = re.compile(r"`(\w+)`,?(?: of| in)? [`(]+([\w/]+\.(?:py|json))")  # `NAME` of `file`, or `NAME` (file)


def located(name: str) -> Path:
    """A file as the table names it: from the root, or from the package."""
    return next(path for path in (ROOT / name, PACKAGE / name) if path.exists())


@pytest.mark.parametrize("row", ROWS)
def test_the_files_and_names_of_a_row_exist(row: str) -> None:
    text = ROWS[row]
    assert [name for name in _FILE.findall(text) if not located(name).is_file()] == []
    for name, file in _NAMED.findall(text):
        assert re.search(rf"\b{name}\b", located(file).read_text(encoding="utf-8")), f"{name} of {file}"
    for call in re.findall(r"`sgjepa\.([\w.]+)`", text):
        module, _, name = f"sgjepa.{call}".rpartition(".")
        assert hasattr(import_module(module), name), call


def test_the_papers_numbers_have_the_sections_that_the_table_names() -> None:
    sections = re.findall(r"`(\w+)`", ROWS["a number of the paper"].split("|")[2])
    assert set(sections) < set(json.loads((PACKAGE / "results" / "published.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("row", TOYS)
def test_a_toy_from_outside_follows_the_row(row: str) -> None:
    call, module = TOYS[row]
    assert call in ROWS[row]
    assert call in (ROOT / "tests" / "fixtures" / f"{module}.py").read_text(encoding="utf-8")
