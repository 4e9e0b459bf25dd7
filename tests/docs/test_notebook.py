"""docs/notebook.ipynb runs from a fresh kernel, and what is kept of it is what it shows: whole, in order, small."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import nbformat
import numpy as np
import pytest
from nbformat import NotebookNode
from PIL import Image

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
FEW = {"EPISODES": 30, "UPDATES": 2}  # instead of 120 each: a model that has learned nothing, by the same way


@pytest.fixture
def make_notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """docs/make_notebook.py."""
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(ROOT / "docs"))
        import make_notebook

        yield make_notebook
        sys.modules.pop("make_notebook")


@pytest.mark.opengl
def test_the_notebook_runs_cell_by_cell_and_shows_what_is_kept(make_notebook: ModuleType, tmp_path: Path) -> None:
    """With few episodes and updates. The pictures before the training do not depend on them and are the kept ones."""
    found = make_notebook.executed(tmp_path, FEW)
    assert (tmp_path / "runs" / "two_minutes" / "model.safetensors").is_file()
    cells = [cell for cell in found.cells if not cell.source.startswith("EPISODES = 30")]
    kept = nbformat.read(NOTEBOOK, as_version=4)
    assert [cell.source for cell in cells] == [cell.source for cell in kept.cells]
    before = True
    for mine, shown in zip(cells, kept.cells, strict=True):
        assert kinds(mine) == kinds(shown), shown.source
        before &= "UPDATES" not in shown.source
        if before:
            for drawn, was in zip(pictures(mine), pictures(shown), strict=True):
                assert drawn.size == was.size
                assert np.abs(grey(drawn) - grey(was)).mean() < 2, f"python docs/make_notebook.py: {shown.source}"


def test_what_is_kept_was_run_in_order_with_no_error_and_is_small() -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(kept)
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert {output.output_type for cell in code for output in cell.outputs} == {"stream", "execute_result", "display_data"}
    assert sum(len(pictures(cell)) for cell in code) >= 5
    assert all(grey(picture).std() > 5 for cell in code for picture in pictures(cell)), "an empty picture"
    assert NOTEBOOK.stat().st_size < 1_000_000


def kinds(cell: NotebookNode) -> list[list[str]]:
    """What a cell shows, without progress on standard error."""
    shown = [output for output in cell.get("outputs", ()) if output.get("name") != "stderr"]
    return [[output.output_type, *sorted(output.get("data", {}))] for output in shown]


def grey(picture: Image.Image) -> np.ndarray:
    """(h, w), from 0 to 255."""
    return np.asarray(picture.convert("L"), float)


def pictures(cell: NotebookNode) -> list[Image.Image]:
    coded = [output.data["image/png"] for output in cell.get("outputs", ()) if "image/png" in output.get("data", {})]
    return [Image.open(io.BytesIO(base64.b64decode(one))) for one in coded]
