"""Studies: one file a question of the paper. The file's name is the command: `sgjepa study factorial`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sgjepa.errors import unknown
from sgjepa.studies import factorial, linear_surrogate

STUDIES: dict[str, Callable[[Path, Path, str, int, int | None], list[Path]]] = {
    "factorial": factorial.main,
    "linear_surrogate": linear_surrogate.main,
}


def find(name: str) -> Callable[[Path, Path, str, int, int | None], list[Path]]:
    """The study of that name: (runs, datasets, size, seeds, updates) -> folders of its runs."""
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    return STUDIES[name]
