"""Studies: one file per question of the paper. The file's name is the command: `sgjepa study factorial`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sgjepa.core.errors import unknown
from sgjepa.studies import (
    control,
    crossover,
    factorial,
    history,
    linear_surrogate,
    local_gap,
    post_training,
    predictors,
    shapes,
    tuning,
)


class Answers(Protocol):
    """What a study is for the command line."""

    @property
    def name(self) -> str: ...

    @property
    def question(self) -> str: ...

    def run(
        self,
        size: str,
        out: Path,
        datasets: Path,
        *,
        seeds: int | None = None,
        updates: int | None = None,
        workers: int | None = None,
        only: Sequence[str] = (),
        runs: Path | None = None,
    ) -> Path:
        """Answer the question; returns the page. runs: where the trainings of all studies lie; None: in `out` alone."""


_ALL: tuple[Answers, ...] = (
    factorial.STUDY,
    predictors.STUDY,
    control.STUDY,
    crossover.STUDY,
    local_gap.STUDY,
    history.STUDY,
    shapes.STUDY,
    post_training.STUDY,
    linear_surrogate.STUDY,
    tuning.STUDY,
)
STUDIES: dict[str, Answers] = {study.name: study for study in _ALL}


def find(name: str) -> Answers:
    """The study of that name."""
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    return STUDIES[name]


def listing() -> str:
    """One line per study."""
    width = max(map(len, STUDIES))
    return "\n".join(f"{name:{width}s}  {study.question}" for name, study in STUDIES.items())
