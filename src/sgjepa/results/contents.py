"""The two forms of a table of results: long rows in Arrow, and dense blocks of values by arm, metric and source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sgjepa.core.errors import InputError
from sgjepa.core.tables import Table
from sgjepa.results.evaluations import Evaluation
from sgjepa.results.trials import Driven

LAW = "law."
PREDICTED, CLOSED_LOOP = "predicted", "closed loop"
_KEYS = ("arm", "seed", "episode", "horizon", "source", "metric", "value")


@dataclass(frozen=True)
class Contents:
    """The values of a table of results, with all arms on the same episodes. seeds: of the trainings of each arm.

    read: the block (seeds, E, H) of an arm, a metric and a source, horizon 1 first; not-a-number for missing values.
    """

    seeds: Mapping[str, tuple[int, ...]]
    metrics: tuple[str, ...]
    sources: tuple[str, ...]
    episodes: np.ndarray  # (E,) numbers
    laws: Mapping[str, np.ndarray]  # (E,) by name
    horizons: int
    read: Callable[[str, str, str], np.ndarray]


def from_evaluations(arms: Mapping[str, tuple[Evaluation, ...]], order: tuple[str, ...]) -> Contents:
    """The contents of evaluations, read when they are needed. order: metrics that come first."""
    first = next(iter(arms.values()))[0]
    keys = {"source", "episode", "horizon"}
    names = [name for name in first.table if name not in keys and not name.startswith(LAW)]
    return Contents(
        seeds={arm: tuple(int(evaluation.about.seed) for evaluation in group) for arm, group in arms.items()},
        metrics=(*(name for name in order if name in names), *(name for name in names if name not in order)),
        sources=first.sources,
        episodes=first.episodes,
        laws=dict(zip(first.laws, first.law.T, strict=True)),
        horizons=first.horizons,
        read=lambda arm, metric, source: np.stack([evaluation.values(metric, source) for evaluation in arms[arm]]).astype(
            np.float64
        ),
    )


def from_trials(arms: Mapping[str, Driven]) -> Contents:
    """The contents of trials: measures of whole episodes, at horizon 1, averaged over the repeats of a training."""
    first = next(iter(arms.values())).first
    return Contents(
        seeds={arm: driven.seeds for arm, driven in arms.items()},
        metrics=tuple(measure.name for measure in first.about.measures),
        sources=(CLOSED_LOOP,),
        episodes=first.episodes,
        laws=dict(zip(first.about.laws, first.law.T, strict=True)),
        horizons=1,
        read=lambda arm, metric, source: arms[arm].values(metric)[..., None],
    )


def from_arrow(table: pa.Table) -> Contents:
    """The contents of a long table; an InputError if it lacks a column."""
    missing = [name for name in _KEYS if name not in table.column_names]
    if missing:
        raise InputError(f"a table of results lacks the column {', '.join(missing)}")
    pairs = table.select(["arm", "seed"]).group_by(["arm", "seed"]).aggregate([]).to_pylist()
    arms = _names(table, "arm")
    seeds = {arm: tuple(sorted(int(row["seed"]) for row in pairs if str(row["arm"]) == arm)) for arm in arms}
    episodes, first = np.unique(table["episode"].to_numpy(), return_index=True)
    laws = {name.removeprefix(LAW): table[name].to_numpy()[first] for name in table.column_names if name.startswith(LAW)}
    horizons = int(pc.max(table["horizon"]).as_py())
    blocks: dict[tuple[str, str, str], np.ndarray] = {}

    def read(arm: str, metric: str, source: str) -> np.ndarray:
        key = (arm, metric, source)
        if key not in blocks:
            rows = table
            for name, value in zip(("arm", "metric", "source"), key, strict=True):
                rows = rows.filter(pc.equal(rows[name].cast(pa.string()), value))
            block = np.full((len(seeds[arm]), len(episodes), horizons), np.nan)
            where = (
                np.searchsorted(seeds[arm], rows["seed"].to_numpy()),
                np.searchsorted(episodes, rows["episode"].to_numpy()),
                rows["horizon"].to_numpy() - 1,
            )
            block[where] = rows["value"].to_numpy()
            blocks[key] = block
        return blocks[key]

    return Contents(seeds, _names(table, "metric"), _names(table, "source"), episodes, laws, horizons, read)


def _names(table: pa.Table, column: str) -> tuple[str, ...]:
    return tuple(str(name) for name in pc.unique(table[column].cast(pa.string())).to_pylist())


def to_arrow(contents: Contents) -> pa.Table:
    """The long table of contents, with a row for each finite value."""
    episodes, steps = len(contents.episodes), np.arange(1, contents.horizons + 1, dtype=np.int32)
    parts = []
    for arm, seeds in contents.seeds.items():
        for metric in contents.metrics:
            for source in contents.sources:
                values = contents.read(arm, metric, source).ravel()
                known = np.isfinite(values)
                table = {
                    "seed": np.repeat(np.array(seeds, np.int64), episodes * len(steps)),
                    "episode": np.tile(np.repeat(contents.episodes, len(steps)), len(seeds)),
                    **{LAW + name: np.tile(np.repeat(law, len(steps)), len(seeds)) for name, law in contents.laws.items()},
                    "horizon": np.tile(steps, len(seeds) * episodes),
                }
                rows = {name: column[known] for name, column in table.items()}
                parts.append(_long_rows(arm, metric, rows, _same(source, int(known.sum())), values[known]))
    return _joined(parts)


def from_errors(arm: str, seed: int, errors: Table) -> pa.Table:
    """Long rows of one evaluation, whose columns are the metrics."""
    laws = [name for name in errors if name.startswith(LAW)]
    metrics = [name for name in errors if name not in ("episode", "horizon", "source", *laws)]
    parts = []
    for metric in metrics:
        values = np.asarray(errors[metric], np.float64)
        known = np.isfinite(values)
        rows = {"seed": np.full(int(known.sum()), seed, np.int64)}
        rows |= {name: np.asarray(errors[name])[known] for name in ("episode", *laws, "horizon")}
        source = pa.array(np.asarray(errors["source"]).astype(str)[known]).dictionary_encode()
        parts.append(_long_rows(arm, metric, rows, source, values[known]))
    return _joined(parts)


def _long_rows(arm: str, metric: str, rows: Table, source: pa.Array, values: np.ndarray) -> pa.Table:
    """Rows of one arm and one metric, in the columns of every table of results."""
    columns = {
        "arm": _same(arm, len(values)),
        "seed": rows["seed"],
        "episode": rows["episode"].astype(np.int32),
        **{name: column.astype(np.float64) for name, column in rows.items() if name.startswith(LAW)},
        "horizon": rows["horizon"].astype(np.int32),
        "source": source,
        "metric": _same(metric, len(values)),
        "value": values,
    }
    return pa.table(columns)


def _joined(tables: list[pa.Table]) -> pa.Table:
    """Concatenate long tables."""
    return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()


def _same(name: str, count: int) -> pa.Array:
    """A column with one name in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([name]))
