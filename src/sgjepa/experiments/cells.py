"""Cells: the trainings that a study compares, which of them are asked for, and the datasets they need."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sgjepa.core.errors import InputError, unknown
from sgjepa.data.collect import collect
from sgjepa.data.config import DatasetConfig
from sgjepa.recipes.datasets import named
from sgjepa.training.config import Run


@dataclass(frozen=True)
class Cell:
    """One of the compared trainings. start: the name of another cell, whose weights of the same seed it starts from.

    judged_on: the dataset that it is probed and evaluated on; None for the first it is trained on.
    """

    run: Run
    start: str | None = None
    judged_on: str | None = None


def fitting(names: Sequence[str], only: Sequence[str]) -> list[str]:
    """Those that fit one of the patterns, in their own order; all if there is no pattern."""
    for pattern in only if names else ():
        if not fnmatch.filter(names, pattern):
            raise unknown("cell", pattern, names)
    return [name for name in names if not only or any(fnmatch.fnmatch(name, pattern) for pattern in only)]


def chosen(cells: Sequence[Cell], only: Sequence[str]) -> Sequence[Cell]:
    """The cells whose names fit one of the patterns, in their own order."""
    kept = set(fitting([cell.run.name for cell in cells], only))
    for cell in cells:
        if only and cell.run.name in kept and cell.start is not None and cell.start not in kept:
            raise InputError(f"{cell.run.name} starts from {cell.start}; add it to --only")
    return [cell for cell in cells if cell.run.name in kept]


def names_of(cells: Sequence[Cell]) -> list[str]:
    """The datasets that cells are trained and judged on."""
    found = [name for cell in cells for name in (*cell.run.data, cell.judged_on) if name is not None]
    return list(dict.fromkeys(found))


def make_datasets(
    names: Sequence[str], datasets: Path, workers: int | None, own: Mapping[str, DatasetConfig] | None = None
) -> None:
    """Make those datasets that are missing and have a recipe. own: recipes besides the usual ones, by name."""
    for name in names:
        settings = (own or {}).get(name) or next(iter(named([name]) or ()), None)
        if settings is not None and not (datasets / name).exists():
            print(f"making {datasets / name}", flush=True)
            collect(settings, datasets / name, workers)


def leaders_first(cells: Sequence[Cell]) -> list[Cell]:
    """In an order in which each comes after the one that it starts from."""
    by_name, found = {cell.run.name: cell for cell in cells}, dict[str, Cell]()

    def add(cell: Cell) -> None:
        if cell.start is not None and cell.start not in found:
            add(by_name[cell.start])
        found.setdefault(cell.run.name, cell)

    for cell in cells:
        add(cell)
    return list(found.values())
