"""What a page is made of: text, tables, figures, films and sections, each written as HTML with every text escaped.

A number is shown as mean with its 95 % interval below, and kept in full for the CSV file of its table.
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
CHIPS = {  # the colour of a verdict's chip; any other is neutral
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
    """A mean with its interval; a plain `Interval` in a row is one with three decimals.

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
    note: str | None = None  # None: a dagger where it rests on few episodes

    @property
    def html(self) -> str:
        one = self.interval
        if one.mean != one.mean:
            return "–"
        mean, low, high = self._texts
        wrapped = {"best": f"<b>{mean}</b>", "second": f"<u>{mean}</u>"}.get(self.mark, mean)
        note = self.note if self.note is not None else DAGGER if 0 < one.count < FEW else ""
        ends = f"<small>{low} to {high}{escape(f' {note}') if note else ''}</small>"
        if one.low != one.low:  # a published number has no interval
            ends = "<small>one episode</small>" if one.count == 1 else ""
        return (chip(self.verdict) if self.verdict else "") + wrapped + ends

    @property
    def _texts(self) -> tuple[str, str, str]:
        one = self.interval
        ends = (one.mean, one.low, one.high)
        if self.change:
            mean, low, high = (with_sign(100 * (value - 1), 0) for value in ends)
            return f"{mean} %", low, high
        mean, low, high = (fixed(self.scale * value, self.decimals) for value in ends)
        return with_sign(self.scale * one.mean, self.decimals) if self.signed else mean, low, high


@dataclass(frozen=True)
class Named:
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
    """A word on a coloured chip; words: a sentence behind it."""

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
    """To another page of ours, by a relative address."""

    words: str
    address: str

    @property
    def html(self) -> str:
        return f'<a href="{escape(self.address)}">{escape(self.words)}</a>'


Cell = str | int | float | Interval | Number | Named | Verdict | Code | Link | None


def chip(word: str) -> str:
    """A verdict, as a word and a colour."""
    return f'<span class="chip {CHIPS.get(word, "undecided")}">{escape(word)}</span>'


def cell_html(cell: Cell) -> str:
    """What stands in one cell; nothing known is a dash."""
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
    """What a CSV file says of a cell: a number in full, an interval in four columns."""
    if isinstance(cell, Number):
        cell = cell.interval
    if isinstance(cell, Interval):
        return {column: cell.mean, f"{column}_low": cell.low, f"{column}_high": cell.high, f"{column}_episodes": cell.count}
    if isinstance(cell, (Named, Code, Verdict, Link)):
        named = {Named: "label", Code: "text", Verdict: "word", Link: "words"}[type(cell)]
        return {column: getattr(cell, named)}
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
    """A line of a table. kind: "reference" or "paper" for what is not ours to judge."""

    cells: Sequence[Cell]
    kind: str = ""


@dataclass(frozen=True)
class Group:
    """A heading over the lines that follow, across all columns."""

    title: str


@dataclass(frozen=True)
class Table:
    """Columns by name, and lines of cells; a plain sequence of cells is a line, too.

    name: of its CSV file in tables/; without one there is no file. records: the file's lines, where they say more than the
    cells. text: numbers of columns that hold words and not numbers; the first one always does.
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
        """Lines under one heading each."""
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
        """The lines of its file; a heading is a column of its own."""
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
    """Numbers that the page does not show: lines of tables/NAME.csv."""

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
    """name: of its files. alt: what it shows, in words. raster: shown as PNG, not as SVG. wide: in full width.

    caption: above it. Figures that follow each other stand side by side where there is room.
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
    """An animated WebP. name: of its file. alt: what it shows, in words."""

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
    """title: plain text. blocks: in their order, where None is nothing; a section that shows nothing is left out.

    folded: a reader opens it.

    name: where links to it lead, made of the title if there is none.
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
    """All of them; neighbouring figures that are not wide in one grid."""
    parts = []
    present = [one for one in blocks if one is not None]
    for side_by_side, some in groupby(present, lambda one: isinstance(one, Figure) and not one.wide):
        bodies = [one.html for one in some]
        columns = "figures three" if len(bodies) == 3 else "figures"
        parts.append(f'<div class="{columns}">{"".join(bodies)}</div>' if side_by_side else "".join(bodies))
    return "".join(parts)


def captioned(caption: str, blocks: Sequence[Block]) -> list[Block]:
    """Blocks below a caption; nothing where there are none."""
    return [Text(caption, quiet=True), *blocks] if blocks else []


def plain(name: str) -> str:
    """A file's name: a law may be called anything, also something that leads elsewhere."""
    return re.sub(r"[^\w-]+", "_", name)


def named(labels: Sequence[str], note: Callable[[str], str] = lambda _: "") -> dict[str, Named]:
    """Arms in their colours, by label. note: what stands below a label."""
    return {label: Named(label, colour, note(label)) for label, (colour, _) in styles(labels).items()}
