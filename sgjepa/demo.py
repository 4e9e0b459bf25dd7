"""`sgjepa demo`: the shortest way through the project. Stages are kept: a second run goes on where the first stopped."""

from __future__ import annotations

from pathlib import Path

from sgjepa.data.collect import collect
from sgjepa.data.preview import preview
from sgjepa.data.store import Dataset, open_dataset
from sgjepa.recipes.datasets import dataset


def demo(out: Path, workers: int | None = None) -> tuple[Dataset, list[Path]]:
    """Make the mini square dataset and look at it. Returns the dataset and the pictures."""
    made = open_dataset(collect(dataset("square", "mini"), out / "square-mini", workers))
    return made, preview(made, made.path / "preview")
