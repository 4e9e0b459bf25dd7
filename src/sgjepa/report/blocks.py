"""Blocks of a page: text, tables, figures, films and sections, each rendered as HTML with every text escaped.

A number is shown as mean with its 95 % interval below, and written in full to the CSV file of its table.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from sgjepa.core.methods import styles
from sgjepa.core.stats import Interval
from sgjepa.report.words import DAGGER, FEW, fixed, with_sign

Record = Mapping[str, Any]
CHIPS = {  # the class of a verdict's chip; other words are neutral
    "better": "better",
    "holds": "better",
    "significantly lower": "better",
    "worse": "worse",
    "does not hold": "worse",
    "significantly higher": "worse",
}


def html(words: str) -> str:
    """Escaped text, in which a number stays with its unit."""
    return re.sub(r"(?<=\d) (?=(%|m|m/s|turns)\b|%)", "&nbsp;", escape(words))


# --- cells of a table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """A mean with its interval; a plain `Interval` in a row is shown with three decimals.

    mark: "best" or "second" of its column. verdict: shown as a chip before the mean. scale: 100 for a share in per cent.
    signed: a difference, with a plus above zero. note: follows the interval, such as a dagger. change: a ratio shown as its
    difference from 1 in per cent.
    """

    interval: Interval
    decimals: int = 3
    mark: str = ""
    verdict: str = ""
    scale: float = 1.0
    signed: bool = False
    change: bool = False
    note: str | None = None  # None: a dagger if there are few episodes

    @property
    def html(self) -> str:
        interval = self.interval
        if interval.mean != interval.mean:
            return "–"
        mean, low, high = self._texts
        wrapped = {"best": f"<b>{mean}</b>", "second": f"<u>{mean}</u>"}.get(self.mark, mean)
        note = self.note if self.note is not None else DAGGER if 0 < interval.count < FEW else ""
        ends = f"<small>{low} to {high}{escape(f' {note}') if note else ''}</small>"
        if interval.low != interval.low:  # a published number without interval
            ends = "<small>one episode</small>" if interval.count == 1 else ""
        return (chip(self.verdict) if self.verdict else "") + wrapped + ends

    @property
    def _texts(self) -> tuple[str, str, str]:
        interval = self.interval
        ends = (interval.mean, interval.low, interval.high)
        if self.change:
            mean, low, high = (with_sign(100 * (value - 1), 0) for value in ends)
            return f"{mean} %", low, high
        mean, low, high = (fixed(self.scale * value, self.decimals) for value in ends)
        return with_sign(self.scale * interval.mean, self.decimals) if self.signed else mean, low, high


@dataclass(frozen=True)
class Label:
    """A method, policy or other arm, with its colour; note: in small letters below."""

    label: str
    colour: str = ""
    note: str = ""

    @property
    def html(self) -> str:
        dot = f'<span class="dot" style="--colour: {escape(self.colour)}"></span>' if self.colour else ""
        return f"{dot}{html(self.label)}" + (f"<small>{html(self.note)}</small>" if self.note else "")


@dataclass(frozen=True)
class Verdict:
    """A word on a coloured chip. words: a sentence after it."""

    word: str
    words: str = ""

    @property
    def html(self) -> str:
        return (chip(self.word) if self.word else "") + html(self.words)


@dataclass(frozen=True)
class Code:
    """A command, a commit, a path."""

    text: str

    @property
    def html(self) -> str:
        return f"<code>{escape(self.text)}</code>"


@dataclass(frozen=True)
class Link:
    """A link to another page, by a relative address."""

    words: str
    address: str

    @property
    def html(self) -> str:
        return f'<a href="{escape(self.address)}">{escape(self.words)}</a>'


Cell = str | int | float | Interval | Number | Label | Verdict | Code | Link | None


def chip(word: str) -> str:
    """A verdict, as a word and a colour."""
    return f'<span class="chip {CHIPS.get(word, "undecided")}">{escape(word)}</span>'


def cell_html(cell: Cell) -> str:
    """The HTML of a cell; a missing value is a dash."""
    if cell is None:
        return "–"
    if isinstance(cell, Interval):
        return Number(cell).html
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:.4g}".replace("-", "\N{MINUS SIGN}") if cell == cell else "–"
    return html(cell) if isinstance(cell, str) else cell.html


def cell_values(column: str, cell: Cell) -> dict[str, Any]:
    """The CSV columns of a cell: a number in full, an interval in four columns."""
    if isinstance(cell, Number):
        cell = cell.interval
    if isinstance(cell, Interval):
        return {column: cell.mean, f"{column}_low": cell.low, f"{column}_high": cell.high, f"{column}_episodes": cell.count}
    if isinstance(cell, (Label, Code, Verdict, Link)):
        attributes = {Label: "label", Code: "text", Verdict: "word", Link: "words"}[type(cell)]
        return {column: getattr(cell, attributes)}
    return {column: "" if cell is None else cell}


# --- blocks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A paragraph. quiet: a caption or an explanation. code: a command at its end."""

    words: str
    quiet: bool = False
    code: str = ""

    @property
    def html(self) -> str:
        kind = ' class="quiet"' if self.quiet else ""
        return f"<p{kind}>{html(self.words)}{f' {Code(self.code).html}' if self.code else ''}</p>"


@dataclass(frozen=True)
class Row:
    """A row of a table. kind: "reference" or "paper" for rows that are not compared."""

    cells: Sequence[Cell]
    kind: str = ""


@dataclass(frozen=True)
class Group:
    """A heading above the following rows, across all columns."""

    title: str


@dataclass(frozen=True)
class Table:
    """A table with named columns and rows; a plain sequence of cells is a row, too.

    name: of its CSV file in tables/; "" for no file. records: the file's rows, if they differ from the cells. text: indices
    of columns with words instead of numbers, besides the first.
    """

    columns: Sequence[str]
    rows: Sequence[Row | Group | Sequence[Cell]]
    caption: str = ""
    name: str = ""
    records: Sequence[Record] | None = None
    text: Sequence[int] = ()

    @property
    def html(self) -> str:
        if not self.rows:
            return ""
        head = "".join(f"<th{self._class(i)}>{html(title)}</th>" for i, title in enumerate(self.columns))
        body = "".join(f"<tbody>{''.join(map(self._line, lines))}</tbody>" for lines in self._bodies())
        rows = f'<table aria-label="{escape(self.caption)}"><thead><tr>{head}</tr></thead>{body}</table>'
        caption = f'<p class="caption">{html(self.caption)}</p>' if self.caption else ""
        return f'<div class="table">{caption}<div class="scroll">{rows}</div></div>'

    def _bodies(self) -> Iterator[list[Row | Group | Sequence[Cell]]]:
        """The rows in groups, each with its heading."""
        body: list[Row | Group | Sequence[Cell]] = []
        for line in self.rows:
            if isinstance(line, Group) and body:
                yield body
                body = []
            body.append(line)
        yield body

    def _line(self, line: Row | Group | Sequence[Cell]) -> str:
        if isinstance(line, Group):
            return f'<tr><th colspan="{len(self.columns)}">{html(line.title)}</th></tr>'
        row = line if isinstance(line, Row) else Row(line)
        cells = "".join(f"<td{self._class(i)}>{cell_html(cell)}</td>" for i, cell in enumerate(row.cells))
        kind = f' class="{escape(row.kind)}"' if row.kind else ""
        return f"<tr{kind}>{cells}</tr>"

    def _class(self, column: int) -> str:
        return ' class="text"' if column in self.text else ""

    @property
    def csv(self) -> Sequence[Record]:
        """The records of its CSV file; headings are a column."""
        if self.records is not None:
            return self.records
        records: list[dict[str, Any]] = []
        group: dict[str, Any] = {}
        for line in self.rows:
            if isinstance(line, Group):
                group = {"group": line.title}
                continue
            record = dict(group)
            for column, cell in zip(self.columns, line.cells if isinstance(line, Row) else line, strict=True):
                record |= cell_values(column, cell)
            records.append(record)
        names = list(dict.fromkeys(name for record in records for name in record))
        return [{name: record.get(name, "") for name in names} for record in records]


@dataclass(frozen=True)
class Data:
    """Records of tables/NAME.csv that the page does not show."""

    name: str
    records: Sequence[Record]

    @property
    def html(self) -> str:
        return ""

    @property
    def csv(self) -> Sequence[Record]:
        return self.records


@dataclass(frozen=True)
class Figure:
    """A figure. name: of its files. alt: its description. raster: shown as PNG, not as SVG. wide: in full width.

    caption: above it. Consecutive figures are in one row where there is room.
    """

    name: str
    alt: str
    svg: bytes
    png: bytes
    raster: bool = False
    wide: bool = False
    caption: str = ""

    @property
    def html(self) -> str:
        kind, data = ("png", self.png) if self.raster else ("svg+xml", self.svg)
        return _image(kind, data, self.alt, self.wide, self.caption)


@dataclass(frozen=True)
class Film:
    """An animated WebP. name: of its file. alt: its description."""

    name: str
    alt: str
    webp: bytes
    caption: str = ""

    @property
    def html(self) -> str:
        return _image("webp", self.webp, self.alt, True, self.caption)


def _image(kind: str, data: bytes, alt: str, wide: bool, caption: str) -> str:
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    above = f"<figcaption>{html(caption)}</figcaption>" if caption else ""
    kind = ' class="wide"' if wide else ""
    return f'<figure{kind}>{above}<img src="{source}" alt="{escape(alt)}"></figure>'


Block = Text | Table | Data | Figure | Film


@dataclass(frozen=True)
class Section:
    """A section of a page; an empty section is left out. blocks: in order, None is skipped.

    folded: closed until a reader opens it. name: its anchor (default: from the title).
    """

    title: str
    blocks: Sequence[Block | None]
    folded: bool = False
    name: str = ""

    @property
    def anchor(self) -> str:
        return self.name or plain(self.title.lower())

    @property
    def html(self) -> str:
        return blocks_html(self.blocks)


def blocks_html(blocks: Sequence[Block | None]) -> str:
    """The HTML of all blocks, with consecutive figures that are not wide in a grid."""
    parts = []
    present = [block for block in blocks if block is not None]
    for side_by_side, group in groupby(present, lambda block: isinstance(block, Figure) and not block.wide):
        bodies = [block.html for block in group]
        columns = "figures three" if len(bodies) == 3 else "figures"
        parts.append(f'<div class="{columns}">{"".join(bodies)}</div>' if side_by_side else "".join(bodies))
    return "".join(parts)


def captioned(caption: str, blocks: Sequence[Block]) -> list[Block]:
    """Blocks below a caption; empty if there are no blocks."""
    return [Text(caption, quiet=True), *blocks] if blocks else []


def plain(name: str) -> str:
    """A safe file name: names of laws may hold any characters, such as path separators."""
    return re.sub(r"[^\w-]+", "_", name)


def labels_of(labels: Sequence[str], note: Callable[[str], str] = lambda _: "") -> dict[str, Label]:
    """Labels of arms with their colours, by name. note: small text below a label."""
    return {label: Label(label, colour, note(label)) for label, (colour, _) in styles(labels).items()}
