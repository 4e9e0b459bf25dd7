"""Answer: a small table with intervals, for printing, notebooks and further analysis."""

from __future__ import annotations

import html
import importlib.util
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sgjepa.core.errors import MachineError
from sgjepa.core.stats import Interval


@dataclass(frozen=True, repr=False)
class Answer:
    """A small table for printing, notebooks and further analysis.

    columns: names of the columns, in order.
    rows: a dict per row, by column; an interval has `mean`, `low` and `high`.
    note: a description of the numbers.
    """

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    note: str = ""

    def __str__(self) -> str:
        cells = [list(self.columns), *([_text(row[name]) for name in self.columns] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join(
            [lines[0], "  ".join("-" * width for width in widths), *lines[1:], *([self.note] if self.note else [])]
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(_text(row[name]))}</td>' for name in self.columns)}</tr>" for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{html.escape(self.note)}</p>"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; an interval becomes three columns: its mean, NAME.low and NAME.high."""
        return pa.Table.from_pylist([_flat(row) for row in self.rows])

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        need_pandas()
        return self.to_arrow().to_pandas()


def _text(value: Any) -> str:
    if isinstance(value, Interval):
        return f"{value.mean:.3g} ({value.low:.3g} to {value.high:.3g})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Interval):
            columns |= {name: value.mean, f"{name}.low": value.low, f"{name}.high": value.high}
        else:
            columns[name] = value
    return columns


def need_pandas() -> None:
    """Raise a MachineError that says how to get pandas where it is not installed."""
    if importlib.util.find_spec("pandas") is None:
        raise MachineError("a pandas frame needs pandas: pip install pandas, or use `.to_arrow()`")
