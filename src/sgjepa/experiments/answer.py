"""The input and output of an analysis: the evidence of an experiment, and its answer as blocks of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sgjepa.core.stats import Interval
from sgjepa.evaluation.latent_errors import LatentErrors
from sgjepa.experiments.arms import Arm
from sgjepa.report.blocks import Block, Cell, Number, Row, Section, Table
from sgjepa.report.claims import claims_table
from sgjepa.report.words import fixed, with_interval
from sgjepa.results.claims import Claims
from sgjepa.results.selection import REGIONS, Episodes
from sgjepa.results.table import Results


@dataclass(frozen=True)
class Evidence:
    """All measurements of the selected arms, by world. latents: latent errors of models that plan, by weights digest."""

    arms: Sequence[Arm]
    by_world: Mapping[str, Results]
    datasets: Path
    latents: Mapping[str, LatentErrors] = field(default_factory=dict)

    @property
    def results(self) -> Results:
        """The results of the only world."""
        (results,) = self.by_world.values()
        return results

    def has(self, *names: str) -> bool:
        """Whether all these arms have results."""
        return {self.results.name(arm) for arm in self.results.arms}.issuperset(names)

    def values(self, name: str, metric: str, source: str | None = None, region: Episodes = "all") -> np.ndarray:
        """Values (seeds, E, H) of an arm by name; metric, source and region as in `Results.values`."""
        return self.results.values(self.results.arm(name), metric, source, region)


@dataclass(frozen=True)
class Answer:
    """The result of an analysis. title: of its section. words: a sentence for each finding."""

    title: str
    words: Sequence[str]
    blocks: Sequence[Block | None]
    claims: Claims = ()

    @property
    def section(self) -> Section:
        """The first section of the page, with blocks and claims."""
        claims = claims_table(self.claims)
        return Section(
            self.title, [*(block for block in self.blocks if block), *([claims] if claims else [])], name="finding"
        )


def region_words(region: str) -> str:
    """A region in the words of claims."""
    return "over all episodes" if region == "all" else REGIONS[region]


def main_table(columns: Sequence[str], rows: Sequence[Row | Sequence[Cell]], caption: str) -> Table:
    """The main table of an answer. Its file, finding.csv, has the cells as text."""
    lines = [row.cells if isinstance(row, Row) else row for row in rows]
    records = [dict(zip(columns, map(cell_text, line), strict=True)) for line in lines]
    return Table(columns, rows, f"{caption} Means with 95 % intervals.", "finding", records)


def cell_text(cell: Cell) -> str:
    """A cell of a table as one line of text."""
    if isinstance(cell, Number):
        scale, interval = cell.scale, cell.interval
        scaled = Interval(scale * interval.mean, scale * interval.low, scale * interval.high, interval.count)
        text = with_interval(scaled, cell.decimals) if scaled.low == scaled.low else fixed(scaled.mean, cell.decimals)
        return "" if scaled.mean != scaled.mean else f"{text} {cell.note or ''}".strip()
    if isinstance(cell, Interval):
        return cell_text(Number(cell))
    return "" if cell is None else str(cell)
