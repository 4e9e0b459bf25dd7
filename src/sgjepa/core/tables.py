"""Measurements as tables: equally long named columns, in Parquet files. One row per episode, source and horizon."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sgjepa.core import files
from sgjepa.core.errors import InputError, one_line

Table = dict[str, np.ndarray]


def write_table(path: Path, table: Mapping[str, np.ndarray]) -> None:
    """Write the columns, whole or not at all."""
    buffer = io.BytesIO()
    pq.write_table(pa.table(dict(table)), buffer, compression="zstd")
    files.write_bytes(path, buffer.getbuffer())


def read_table(path: Path) -> Table:
    """All columns, or an InputError that names the file."""
    try:
        table = pq.read_table(path)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read as a table ({one_line(error, 120)})") from error
    return {name: table[name].to_numpy() for name in table.column_names}


def select(table: Table, **equal: object) -> Table:
    """Select the rows whose columns have these values."""
    rows = np.ones(len(next(iter(table.values()))), bool)
    for name, value in equal.items():
        rows &= table[name] == value
    return {name: column[rows] for name, column in table.items()}


def join(tables: Sequence[Table]) -> Table:
    """Concatenate the rows of tables. A column that a table lacks is filled with NaN."""
    names = list(dict.fromkeys(name for table in tables for name in table))
    sizes = [len(next(iter(table.values()))) for table in tables]
    return {
        name: np.concatenate([t.get(name, np.full(n, np.nan)) for t, n in zip(tables, sizes, strict=True)]) for name in names
    }


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """CSV text with a header; numbers in full precision, empty for NaN."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({k: "" if isinstance(v, float) and np.isnan(v) else v for k, v in record.items()})
    return out.getvalue()
