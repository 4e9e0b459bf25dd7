"""What an experiment found, as its analysis returns it, and its section of a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from sgjepa.report.blocks import Data, Figure, Section, Table, Text
from sgjepa.report.claims import claims_table
from sgjepa.results.claims import Measured


@dataclass(frozen=True)
class Finding:
    """Sentences, and a table with a line for each row of cells.

    more: CSV files beside it, by name. pictures: above the table. shown: what the pictures show.
    claims: what it says about claims of the paper.
    """

    title: str
    words: tuple[str, ...]
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: Mapping[str, str] = field(default_factory=dict)
    pictures: tuple[Figure, ...] = ()
    shown: str = ""
    claims: tuple[Measured, ...] = ()

    @property
    def section(self) -> Section:
        """Its blocks; the sentences are the page's answer."""
        shown = [Text(self.shown, quiet=True)] if self.pictures else []
        records = [dict(zip(self.head, row, strict=True)) for row in self.rows]
        table = Table(self.head, self.rows, self.caption, "finding", records)
        files = [Data(PurePath(name).stem, list(csv.DictReader(io.StringIO(text)))) for name, text in self.more.items()]
        return Section(self.title, [*shown, *self.pictures, table, claims_table(self.claims), *files], name="finding")
