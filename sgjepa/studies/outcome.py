"""What a study hands to the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sgjepa.report.html import Finding
from sgjepa.results.gather import Results


@dataclass(frozen=True)
class Outcome:
    """The folders of its runs, and what it computes from their evaluations for a section of its own."""

    folders: list[Path]
    finding: Callable[[Results], Finding] | None = None
