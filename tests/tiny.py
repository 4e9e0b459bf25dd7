"""Studies with updates of two stretches instead of hundreds: the way from data to page is the same, and takes seconds."""

from __future__ import annotations

from dataclasses import replace

from sgjepa.experiments.cells import Cell
from sgjepa.experiments.study import Study
from sgjepa.training.config import Run


def tiny(study: Study) -> Study:
    """The same cells in tiny batches, read by a linear probe."""

    def cells(size: str) -> list[Cell]:
        return [replace(cell, run=tiny_run(cell.run)) for cell in study.cells(size)]

    return replace(study, cells=cells, probe="linear")


def tiny_run(run: Run) -> Run:
    """The same run in batches of two stretches."""
    return replace(run, train=replace(run.train, batch=2, drawn=1, validation=1))
