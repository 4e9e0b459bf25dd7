"""The figures of docs/theory.md are made by the code that stands beside it, and are the ones that the page shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
from PIL import Image

DOCS = Path(__file__).parents[2] / "docs"


def test_figures_are_drawn_and_shown(tmp_path: Path) -> None:
    paths = runpy.run_path(str(DOCS / "make_theory_figures.py"))["main"](tmp_path)
    shown = re.findall(r"!\[.*?\]\(images/(.*?)\)", (DOCS / "theory.md").read_text())
    assert sorted(shown) == sorted(path.name for path in paths)
    for path in paths:
        assert path.stat().st_size < 150_000
        with Image.open(path) as drawn, Image.open(DOCS / "images" / path.name) as kept:
            assert drawn.size == kept.size
            gap = np.abs(np.asarray(drawn.convert("L"), float) - np.asarray(kept.convert("L"), float))
        assert gap.mean() < 2, f"{path.name} is not what the code draws: python docs/make_theory_figures.py"
