"""Results: one long table of everything measured, and the questions that are asked of it.

A row is one value: arm (what was measured), seed (of its training), episode, law.NAME, horizon, source, metric, value.
Sources of a forecast are the model's own rollout ("predicted") and its baselines; see evaluation/evaluate.py.
"""

from __future__ import annotations

import html
import importlib.util
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sgjepa.core import artifact
from sgjepa.core.errors import InputError, MachineError, need_matplotlib, one_line, unknown
from sgjepa.core.stats import Interval, bootstrap, bootstrap_difference
from sgjepa.core.tables import Table
from sgjepa.data.probe_targets import METRICS, UNITS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAW = "law."
MEAN = "mean"  # in place of a horizon: the mean over all of them
HORIZONS = (1, 5, 16, 32)  # of tables, as far as they go; the last one is always added
REGIONS = ("all", "in", "out")  # of distribution: where every law lies within what training drew
PREDICTED = "predicted"
LEAST = 3  # trainings, from which on a difference between methods can be called significant
_KEYS = ("arm", "seed", "episode", "horizon", "source", "metric", "value")
_METADATA = b"sgjepa.results"


@dataclass(frozen=True)
class About:
    """What the numbers mean. laws: unit, and the bounds of what training drew, by name. notes: free, for a reader."""

    laws: dict[str, dict[str, Any]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Answer:
    """A small table to print, to show in a notebook, or to work on.

    columns: their names, in order.
    rows: a dict for each, by column; an interval has `mean`, `low` and `high`.
    note: what the numbers are.
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
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Interval):
            found |= {name: value.mean, f"{name}.low": value.low, f"{name}.high": value.high}
        else:
            found[name] = value
    return found


def need_pandas() -> None:
    """One line if pandas is not installed."""
    if importlib.util.find_spec("pandas") is None:
        raise MachineError("a pandas frame needs pandas: pip install pandas, or take `.to_arrow()`")


class Results:
    """Everything that was measured on the same episodes: results of several models are added with `+`.

    An *arm* is what was measured, such as a method; trainings of one arm differ in their seed. A *horizon* is the step of
    a forecast, 1 being the first. *Regions*: "in" are episodes whose laws lie within what training drew, "out" the others.
    """

    def __init__(self, table: pa.Table, about: About | None = None):
        missing = [name for name in _KEYS if name not in table.column_names]
        if missing:
            raise InputError(f"a table of results lacks the column {', '.join(missing)}")
        self._table, self.about = table, about or About()

    # --- where they come from ------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, arm: str, seed: int, errors: Table, about: About) -> Results:
        """Results of one evaluation of your own; `evaluate` makes them for you.

        arm: what was measured.
        seed: of its training.
        errors: columns of one length by name: source, episode, horizon, law.NAME, and one of each metric.
        about: units, and what training drew of each law.
        """
        keys = {"episode", "horizon", "source"}
        laws = [name for name in errors if name.startswith(LAW)]
        metrics = [name for name in errors if name not in keys and not name.startswith(LAW)]
        parts = []
        for metric in metrics:
            values = np.asarray(errors[metric], np.float64)
            rows = np.isfinite(values)
            count = int(rows.sum())
            columns: dict[str, Any] = {
                "arm": _same(arm, count),
                "seed": np.full(count, seed, np.int64),
                "episode": np.asarray(errors["episode"])[rows].astype(np.int32),
                **{name: np.asarray(errors[name])[rows].astype(np.float64) for name in laws},
                "horizon": np.asarray(errors["horizon"])[rows].astype(np.int32),
                "source": pa.array(np.asarray(errors["source"]).astype(str)[rows]).dictionary_encode(),
                "metric": _same(metric, count),
                "value": values[rows],
            }
            parts.append(pa.table(columns))
        return cls(pa.concat_tables(parts, promote_options="permissive").unify_dictionaries(), about)

    @classmethod
    def open(cls, path: str | Path) -> Results:
        """Results from a file that `save` wrote.

        path: the file.
        """
        try:
            table = pq.read_table(path)
            said = json.loads((table.schema.metadata or {})[_METADATA])
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise InputError(f"{path} is not a file of results ({one_line(error, 100)})") from error
        return cls(table, About(**said))

    def save(self, path: str | Path) -> Path:
        """Write them as one Parquet file, whole or not at all.

        path: the file. It comes back as a `Path`.
        """
        path, buffer = Path(path), io.BytesIO()
        pq.write_table(self.to_arrow(), buffer, compression="zstd")
        artifact.write_bytes(path, buffer.getbuffer())
        return path

    def __add__(self, other: Results) -> Results:
        twice = self._trainings & other._trainings
        if twice:
            arm, seed = sorted(twice)[0]
            raise InputError(
                f"both results have the arm '{arm}' with seed {seed}; rename one: results.renamed('other name')"
            )
        if self.law_names != other.law_names:
            raise InputError(f"results under different laws cannot be added: {self.law_names} and {other.law_names}")
        joined = pa.concat_tables([self._table, other._table], promote_options="permissive").unify_dictionaries()
        notes = {**self.about.notes, **other.about.notes}
        return Results(joined, About(self.about.laws, {**other.about.units, **self.about.units}, notes))

    def renamed(self, arm: str) -> Results:
        """The same under another name, for results of one arm, so that they can be added to others.

        arm: the new name.
        """
        if len(self.arms) != 1:
            raise InputError(f"only results of one arm can be renamed, these have {', '.join(self.arms)}")
        place = self._table.column_names.index("arm")
        return Results(self._table.set_column(place, "arm", _same(arm, len(self._table))), self.about)

    # --- what there is -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        seeds = {arm: len(self.seeds(arm)) for arm in self.arms}
        arms = ", ".join(f"{arm} ({count} training{'s' * (count != 1)})" for arm, count in seeds.items())
        return f"Results of {arms}: {', '.join(self.metrics)} over {len(self.episodes)} episodes"

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """Names of what was measured, in the order in which they came."""
        return self._names("arm")

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Names of the errors."""
        return self._names("metric")

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Names of the forecasts: "predicted", and the baselines."""
        return self._names("source")

    @cached_property
    def law_names(self) -> tuple[str, ...]:
        """Names of the laws."""
        return tuple(name.removeprefix(LAW) for name in self._table.column_names if name.startswith(LAW))

    @cached_property
    def episodes(self) -> np.ndarray:
        """(E,) numbers of the episodes."""
        return np.unique(self._table["episode"].to_numpy())

    @cached_property
    def horizons(self) -> int:
        """The last horizon."""
        return int(pc.max(self._table["horizon"]).as_py())

    @cached_property
    def laws(self) -> dict[str, np.ndarray]:
        """The laws of each episode, (E,) by name."""
        numbers, first = np.unique(self._table["episode"].to_numpy(), return_index=True)
        assert len(numbers) == len(self.episodes)
        return {name: self._table[LAW + name].to_numpy()[first] for name in self.law_names}

    def seeds(self, arm: str) -> tuple[int, ...]:
        """Seeds of the trainings of an arm.

        arm: one of `arms`.
        """
        return tuple(sorted(seed for one, seed in self._trainings if one == arm))

    @cached_property
    def _trainings(self) -> set[tuple[str, int]]:
        pairs = self._table.select(["arm", "seed"]).group_by(["arm", "seed"]).aggregate([])
        return {(str(row["arm"]), int(row["seed"])) for row in pairs.to_pylist()}

    def _names(self, column: str) -> tuple[str, ...]:
        return tuple(str(name) for name in pc.unique(self._table[column].cast(pa.string())).to_pylist())

    @cached_property
    def _blocks(self) -> dict[tuple[str, str, str], np.ndarray]:
        return {}

    def values(self, arm: str, metric: str = "position_l2", source: str = PREDICTED) -> np.ndarray:
        """The values of one metric, (seeds, E, H), horizon 1 first; not-a-number where there is none.

        arm: one of `arms`.
        metric: one of `metrics`.
        source: one of `sources`.
        """
        for kind, name, names in (
            ("arm", arm, self.arms),
            ("metric", metric, self.metrics),
            ("source", source, self.sources),
        ):
            if name not in names:
                raise unknown(f"{kind} of these results", name, names)
        key = (arm, metric, source)
        if key not in self._blocks:
            table = self._table
            chosen = pc.and_(
                pc.and_(pc.equal(table["arm"].cast(pa.string()), arm), pc.equal(table["metric"].cast(pa.string()), metric)),
                pc.equal(table["source"].cast(pa.string()), source),
            )
            rows = table.filter(chosen)
            seeds = np.array(self.seeds(arm))
            block = np.full((len(seeds), len(self.episodes), self.horizons), np.nan)
            where = (
                np.searchsorted(seeds, rows["seed"].to_numpy()),
                np.searchsorted(self.episodes, rows["episode"].to_numpy()),
                rows["horizon"].to_numpy() - 1,
            )
            block[where] = rows["value"].to_numpy()
            self._blocks[key] = block
        return self._blocks[key]

    def region(self, name: str) -> np.ndarray:
        """(E,) bool: which episodes lie in a region.

        name: "in" where every law is within what training drew, "out" for all others, or "all".
        """
        if name not in REGIONS:
            raise unknown("region", name, REGIONS)
        inside = np.ones(len(self.episodes), bool)
        for law, values in self.laws.items():
            low, high = self.about.laws.get(law, {}).get("training", (-np.inf, np.inf))
            inside &= (values >= low - 1e-6) & (values <= high + 1e-6)
        return {"all": np.ones(len(inside), bool), "in": inside, "out": ~inside}[name]

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that have episodes; "all" alone where there is nothing to tell apart."""
        inside = self.region("in")
        return REGIONS if inside.any() and not inside.all() else ("all",)

    # --- questions -----------------------------------------------------------------------------------------------------

    def table(
        self,
        metric: str = "position_l2",
        horizons: Sequence[int | str] | None = None,
        regions: Sequence[str] | None = None,
        sources: Iterable[str] = (PREDICTED,),
    ) -> Answer:
        """Means of a metric by arm and region, with 95 % intervals over episodes and trainings.

        metric: such as "position_l2", the distance to the true position; `metrics` lists them.
        horizons: steps ahead, or "mean" for the mean over all of them (default: 1, 5, 16, 32, the last, and the mean).
        regions: "all", "in", "out" (default: those that have episodes).
        sources: "predicted" is the model's own forecast; "stay" and others in `sources` are baselines.

            print(results.table(horizons=[1, "mean"], sources=["predicted", "stay"]))
        """
        metric = self._metric(metric)
        wanted = self._horizons(horizons)
        rows = []
        for region in regions or self.regions:
            chosen = self.region(region)
            for arm in self.arms:
                for source in sources:
                    found = bootstrap(_at(self.values(arm, metric, source)[:, chosen], wanted))
                    called = arm if source == PREDICTED else f"{arm}: {source}"
                    columns = dict(zip((_column(h) for h in wanted), found, strict=True))
                    counts = {"episodes": int(chosen.sum()), "trainings": len(self.seeds(arm))}
                    rows.append({"arm": called, "region": region, **counts, **columns})
        note = f"{metric}{self._unit(metric)}: mean and 95 % interval, h steps ahead"
        return Answer(("arm", "region", "episodes", "trainings", *map(_column, wanted)), tuple(rows), note)

    def compare(
        self,
        baseline: str | None = None,
        metric: str = "position_l2",
        horizons: Sequence[int | str] | None = None,
        regions: Sequence[str] | None = None,
    ) -> Answer:
        """Differences of every arm from a baseline on the same episodes, with a verdict where there can be one.

        A verdict on two methods needs three trainings of each; with fewer the interval is over episodes alone.

        baseline: the arm that is subtracted (default: the last).
        metric: as `table` takes it.
        horizons: as `table` takes them.
        regions: as `table` takes them.

            other = sgjepa.evaluate("runs/mine", "datasets/square-mini", probe="linear", name="the same again")
            print((results + other).compare(horizons=["mean"]))
        """
        metric, wanted = self._metric(metric), self._horizons(horizons)
        if len(self.arms) < 2:
            raise InputError("a comparison needs two arms; add results: one + other")
        against = baseline or self.arms[-1]
        if against not in self.arms:
            raise unknown("baseline", against, self.arms)
        rows = []
        for region in regions or self.regions:
            chosen = self.region(region)
            theirs = _at(self.values(against, metric)[:, chosen], wanted)
            for arm in (arm for arm in self.arms if arm != against):
                found = bootstrap_difference(_at(self.values(arm, metric)[:, chosen], wanted), theirs)
                few = min(len(self.seeds(arm)), len(self.seeds(against))) < LEAST
                for horizon, gap in zip(wanted, found, strict=True):
                    said = {"difference": gap, "verdict": _verdict(gap, few)}
                    rows.append({"arm": arm, "minus": against, "region": region, "horizon": _column(horizon), **said})
        note = f"difference of {metric}{self._unit(metric)}, below zero where the arm errs less; 95 % intervals, paired"
        return Answer(("arm", "minus", "region", "horizon", "difference", "verdict"), tuple(rows), note)

    def plot(self, metric: str = "position_l2", by: str = "horizon", horizon: int | None = None) -> Figure:
        """A matplotlib figure of a metric, a line for each arm, with 95 % bands.

        metric: as `table` takes it.
        by: "horizon", or the name of a law.
        horizon: at which step, against a law (default: the last).

            results.plot(by="gravity").savefig("errors.png")
        """
        need_matplotlib()
        from sgjepa.core.plotting import curves

        metric = self._metric(metric)
        if by != "horizon" and by not in self.law_names:
            raise unknown("axis", by, ("horizon", *self.law_names))
        lines: dict[str, tuple[np.ndarray, list[Interval]]] = {}
        for arm in self.arms:
            values = self.values(arm, metric)
            if by == "horizon":
                lines[arm] = (np.arange(1, self.horizons + 1), bootstrap(values))
            else:
                place, law = (horizon or self.horizons) - 1, self.laws[by]
                points = np.unique(law)
                found = [bootstrap(values[:, law == point][:, :, [place]])[0] for point in points]
                lines[arm] = (points, found)
        unit = self.about.laws.get(by, {}).get("unit", "").replace("^2", "²")
        up = f"{METRICS.get(metric, metric)}{self._unit(metric)}"
        across = "horizon h (steps)" if by == "horizon" else f"{by}{f' ({unit})' if unit else ''}"
        training = self.about.laws.get(by, {}).get("training") if by != "horizon" else None
        return curves(lines, across, up, training)

    def to_arrow(self) -> pa.Table:
        """All values as an Arrow table: a row for each arm, seed, episode, horizon, source and metric."""
        said = {"laws": self.about.laws, "units": self.about.units, "notes": self.about.notes}
        return self._table.replace_schema_metadata({_METADATA: json.dumps(said)})

    def to_pandas(self) -> Any:
        """The same as a pandas frame, where pandas is installed."""
        need_pandas()
        return self._table.to_pandas()

    def _metric(self, name: str) -> str:
        if name not in self.metrics:
            raise unknown("metric of these results", name, self.metrics)
        return name

    def _horizons(self, asked: Sequence[int | str] | None) -> tuple[int | str, ...]:
        last = self.horizons
        usual: list[int | str] = [*(h for h in HORIZONS if h < last), last, MEAN]
        wanted = tuple(usual if asked is None else asked)
        for horizon in wanted:
            if horizon != MEAN and not (isinstance(horizon, int) and 1 <= horizon <= last):
                raise InputError(f"a horizon is a number from 1 to {last}, or '{MEAN}', got {horizon!r}")
        return wanted

    def _unit(self, metric: str) -> str:
        unit = self.about.units.get(metric, UNITS.get(metric, ""))
        return "" if unit in ("", "1") else f" ({unit})"


def _same(name: str, count: int) -> pa.Array:
    """A column that says the same in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([name]))


def _at(values: np.ndarray, horizons: Sequence[int | str]) -> np.ndarray:
    """(..., H) -> (..., columns): those horizons, or the mean over all."""
    return np.stack([values.mean(axis=-1) if h == MEAN else values[..., int(h) - 1] for h in horizons], axis=-1)


def _column(horizon: int | str) -> str:
    return str(horizon) if horizon == MEAN else f"h = {horizon}"


def _verdict(gap: Interval, few: bool) -> str:
    if gap.low <= 0 <= gap.high:
        return "not significant"
    return "too few trainings for a verdict" if few else "significantly lower" if gap.high < 0 else "significantly higher"
