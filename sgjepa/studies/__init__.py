"""Studies: one file per question of the paper. The file's name is the command: `sgjepa study factorial`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from sgjepa.core.errors import unknown
from sgjepa.studies import factorial, linear_surrogate
from sgjepa.studies.outcome import Outcome

Study: TypeAlias = Callable[[Path, Path, str, int, int | None], Outcome]
STUDIES: dict[str, Study] = {
    "factorial": factorial.main,
    "linear_surrogate": linear_surrogate.main,
}


def find(name: str) -> Study:
    """The study of that name: (runs, datasets, size, seeds, updates) -> what it hands to the report."""
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    return STUDIES[name]


def listing() -> dict[str, str]:
    """Every study with its question: the first line of its file."""
    return {name: (inspect.getmodule(main).__doc__ or "").splitlines()[0] for name, main in STUDIES.items()}
