"""What a study asks, and what one asks of it: how large, where to, how often, which part of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sgjepa.core.errors import InputError


@dataclass(frozen=True)
class Asked:
    """The report goes to `out/<page>`. seeds, updates: instead of the study's and the recipes' own numbers.

    only: patterns of the cells' names, such as "*_gru"; all without. runs: a folder of trainings that studies share; without
    one they go to `out/runs` under the cells' own names. note: for the page's reader. settings: of every world model that is
    trained, by dotted places of its run's config, instead of the cells' own.
    """

    size: str
    out: Path
    datasets: Path
    seeds: int | None = None
    updates: int | None = None
    workers: int | None = None
    only: Sequence[str] = ()
    runs: Path | None = None
    page: str = "report"
    note: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("seeds", "updates", "workers"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"--{name} must be at least 1, got {value}")

    def command(self, study: str, seeds: int) -> str:
        """What makes the same result again."""
        more = ["--updates", str(self.updates)] if self.updates is not None else []
        only = ["--only", *self.only] if self.only else []
        changed = [word for place, value in self.settings.items() for word in ("--set", f"{place}={value}")]
        return shlex.join(["sgjepa", "study", study, "--size", self.size, "--seeds", str(seeds), *more, *changed, *only])

    @property
    def notes(self) -> str:
        """What a reader of the page must know about the trainings."""
        changed = ", ".join(f"{place} = {value}" for place, value in self.settings.items())
        said = f"Every world model was trained with {changed} instead of the study's own settings." if changed else ""
        return " ".join(part for part in (self.note, said) if part)


@dataclass(frozen=True)
class Question:
    """A study that is no comparison of predictions: how it is called, what it asks, and what the paper says."""

    name: str
    question: str
    claim: str

    @property
    def command(self) -> str:
        return f"sgjepa study {self.name}"
