"""What a page shows, before it is written as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sgjepa.report.panels import Picture
from sgjepa.report.tables import Comparison, Group
from sgjepa.results.claims import Measured
from sgjepa.results.counterfactual import Counterfactual
from sgjepa.results.gather import Results
from sgjepa.results.training import Cost


@dataclass(frozen=True)
class Finding:
    """A study's own section: sentences, and a table with a line for each row of cells.

    more: files beside it, by name. pictures: below the sentences, and as files in the report's figures.
    claims: what it says about claims of the paper.
    """

    title: str
    words: tuple[str, ...]
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: Mapping[str, str] = field(default_factory=dict)
    pictures: tuple[Picture, ...] = ()
    shown: str = ""  # what the pictures show
    claims: tuple[Measured, ...] = ()


@dataclass(frozen=True)
class Content:
    """Everything the page shows."""

    results: Results
    tables: dict[str, list[Group]]  # by region
    comparisons: list[Comparison]
    counterfactuals: list[Counterfactual]
    costs: list[Cost]
    made: dict[str, object]  # where the report came from
    pictures: dict[str, list[Picture]] = field(default_factory=dict)  # by section
    note: str = ""  # what a reader must know about these runs
    finding: Finding | None = None  # what a study computes from its runs
    question: str = ""  # of the study; without one, whether the methods stay right
