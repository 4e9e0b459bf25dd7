"""Results: a long table of measured values, with methods for tables, comparisons and figures.

A row is one value: arm (such as a method), seed (of its training), episode, law.NAME, horizon, source, metric, value.
Sources of a forecast are the model's rollout ("predicted") and its baselines (evaluation/evaluate.py). A trial of a
policy has the source "closed loop" and one value for the whole episode, at horizon 1.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sgjepa.core import config, files
from sgjepa.core.errors import InputError, need_matplotlib, one_line, unknown
from sgjepa.core.stats import Interval
from sgjepa.core.tables import Table
from sgjepa.evaluation.metrics import MAIN, METRICS
from sgjepa.results import contents as forms
from sgjepa.results.answer import Answer, need_pandas
from sgjepa.results.claims import significant
from sgjepa.results.comparisons import Comparisons
from sgjepa.results.contents import CLOSED_LOOP, PREDICTED, Contents
from sgjepa.results.evaluations import Evaluation, read_runs
from sgjepa.results.selection import MEAN, SG_JEPA, About, Horizon
from sgjepa.results.trials import Driven, read_trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DEFAULT_BASELINES = ("LeWM", "DINO-WM")  # arms to compare with by default
_METADATA = b"sgjepa.results"


class Results(Comparisons):
    """Measured values on the same episodes; results of several models are added with `+`.

    An *arm* is a group of measurements, such as a method; trainings of one arm differ in their seed. A *horizon* is the step
    of a forecast, from 1. *Regions*: "in" are episodes whose laws lie within the training distribution, "out" the others.
    """

    def __init__(
        self,
        table: pa.Table | Contents,
        about: About | None = None,
        baseline: str = "",
        evaluations: Mapping[str, tuple[Evaluation, ...]] | None = None,
        driven: Mapping[str, Driven] | None = None,
    ):
        contents = table if isinstance(table, Contents) else forms.from_arrow(table)
        super().__init__(contents, about or About(), baseline, evaluations or {}, driven or {})
        self._table = None if isinstance(table, Contents) else table

    # --- sources -------------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, arm: str, seed: int, errors: Table, about: About) -> Results:
        """Results of an evaluation of your own; `evaluate` calls this.

        arm: the name of the arm.
        seed: of its training.
        errors: columns of one length by name: source, episode, horizon, law.NAME, and one of each metric.
        about: units, and the training distribution of each law.
        """
        return cls(forms.from_errors(arm, seed, errors), about)

    @classmethod
    def of_runs(
        cls,
        runs: Sequence[Path],
        baseline: str | None = None,
        data: str | None = None,
        labels: Mapping[str, str] | None = None,
        names: Mapping[Path, str] | None = None,
    ) -> Results:
        """Results of runs that were evaluated on the same dataset, with the same probe and context.

        runs: folders of runs.
        baseline: the arm that others are compared with (default: LeWM or DINO-WM, or else the first).
        data: the evaluation's name, such as "square-mini-test" (default: the only one that the runs share).
        labels: names of arms by run name, instead of the paper's.
        names: names of runs by folder, instead of their own.
        """
        arms = read_runs(runs, data, labels, names)
        ordered = sorted(arms, key=lambda arm: not arm.startswith(SG_JEPA))  # SG-JEPA first, then its baselines
        return cls.of_evaluations({arm: arms[arm] for arm in ordered}, baseline)

    @classmethod
    def of_evaluations(cls, arms: Mapping[str, tuple[Evaluation, ...]], baseline: str | None = None) -> Results:
        """Results of loaded evaluations.

        arms: evaluations by arm, one for each training, all of the same episodes.
        baseline: as `of_runs` takes it.
        """
        default = [arm for name in _DEFAULT_BASELINES for arm in arms if arm.startswith(name)]
        selected = (default or list(arms))[0] if baseline is None else baseline
        if selected not in arms:
            raise unknown("baseline", selected, arms)
        first = next(iter(arms.values()))[0]
        about = About(
            laws=first.about.laws,
            world=str(first.about.world),
            dataset=first.dataset,
            split=first.split,
            coverage=first.about.coverage,
        )
        return cls(forms.from_evaluations(arms, tuple(METRICS)), about, selected, evaluations=arms)

    @classmethod
    def of_trials(cls, folders: Sequence[Path]) -> Results:
        """Results of trials of policies or planners on the same episodes.

        folders: of trials, as `sgjepa evaluate-policy` writes them; repeats of one training are averaged.
        """
        return cls.of_driven(read_trials(folders))

    @classmethod
    def of_driven(cls, arms: Mapping[str, Driven]) -> Results:
        """Results of loaded trials.

        arms: trials by arm, all of the same episodes.
        """
        first = next(iter(arms.values())).first
        about = About(
            laws=first.about.laws,
            units={measure.name: measure.unit for measure in first.about.measures},
            world=first.about.played.world,
            dataset=first.about.dataset,
            split=first.about.settings.split,
            measures=first.about.measures,
        )
        return cls(forms.from_trials(arms), about, driven=arms)

    @classmethod
    def open(cls, path: str | Path) -> Results:
        """Open results from a file that `save` wrote.

        path: the file.
        """
        try:
            table = pq.read_table(path)
            about = json.loads((table.schema.metadata or {})[_METADATA])
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise InputError(f"{path} is not a file of results ({one_line(error, 100)})") from error
        return cls(table, config.from_dict(About, about))

    def save(self, path: str | Path) -> Path:
        """Write the results to a Parquet file, atomically; returns its path.

        path: the file.
        """
        path, buffer = Path(path), io.BytesIO()
        pq.write_table(self.to_arrow(), buffer, compression="zstd")
        files.write_bytes(path, buffer.getbuffer())
        return path

    def __add__(self, other: Results) -> Results:
        for arm in self.arms:
            if twice := set(self.seeds(arm)) & set(other._contents.seeds.get(arm, ())):
                raise InputError(
                    f"both results have the arm '{arm}' with seed {min(twice)}; rename one: results.renamed('other name')"
                )
        if self.law_names != other.law_names:
            raise InputError(f"results under different laws cannot be added: {self.law_names} and {other.law_names}")
        table = pa.concat_tables([self.to_arrow(), other.to_arrow()], promote_options="permissive").unify_dictionaries()
        units, notes = {**other.about.units, **self.about.units}, {**self.about.notes, **other.about.notes}
        return Results(table, replace(self.about, units=units, notes=notes))

    def renamed(self, arm: str) -> Results:
        """Results of one arm under another name, so that they can be added to others.

        arm: the new name.
        """
        if len(self.arms) != 1:
            raise InputError(f"only results of one arm can be renamed, these have {', '.join(self.arms)}")
        (old,), contents = self.arms, self._contents
        read = contents.read
        contents = replace(contents, seeds={arm: self.seeds(old)}, read=lambda _, metric, source: read(old, metric, source))
        return Results(contents, self.about)

    # --- tables and figures --------------------------------------------------------------------------------------------

    def table(
        self,
        metric: str = MAIN,
        horizons: Sequence[Horizon] | None = None,
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
        self._known("metric", metric, self.metrics)
        wanted = self._horizons(horizons)
        rows = []
        for region in regions or self.regions:
            for arm in self.arms:
                for source in (CLOSED_LOOP,) if self._driven else sources:
                    means = self.mean(arm, metric, wanted, source, region)
                    counts = {"episodes": self.count(region), "trainings": len(self.seeds(arm))}
                    called = arm if source == self._source(None) else f"{arm}: {source}"
                    rows.append({"arm": called, "region": region, **counts, **{_column(h): means[h] for h in wanted}})
        note = f"{metric}{self._unit(metric)}: mean and 95 % interval, h steps ahead"
        return Answer(("arm", "region", "episodes", "trainings", *map(_column, wanted)), tuple(rows), note)

    def compare(
        self,
        baseline: str | None = None,
        metric: str = MAIN,
        horizons: Sequence[Horizon] | None = None,
        regions: Sequence[str] | None = None,
    ) -> Answer:
        """Differences of every arm from a baseline on the same episodes, with a verdict if there are enough trainings.

        A verdict on two methods needs three trainings of each; with fewer the interval is over episodes only.

        baseline: the arm that is subtracted (default: `baseline`, by default the last arm).
        metric: as `table` takes it.
        horizons: as `table` takes them.
        regions: as `table` takes them.

            other = sgjepa.evaluate("runs/mine", "datasets/square-mini", probe="linear", name="the same again")
            print((results + other).compare(horizons=["mean"]))
        """
        self._known("metric", metric, self.metrics)
        wanted = self._horizons(horizons)
        if len(self.arms) < 2:
            raise InputError("a comparison needs two arms; add results: one + other")
        against = self._known("baseline", baseline or self.baseline, self.arms)
        rows = []
        for region in regions or self.regions:
            for arm in (arm for arm in self.arms if arm != against):
                gaps = self.difference(arm, against, metric, wanted, region)
                for horizon, gap in gaps.items():
                    judged = {"difference": gap, "verdict": significant(gap, self.trainings(arm, against))}
                    rows.append({"arm": arm, "minus": against, "region": region, "horizon": _column(horizon), **judged})
        note = f"difference of {metric}{self._unit(metric)}, below zero where the arm errs less; 95 % intervals, paired"
        return Answer(("arm", "minus", "region", "horizon", "difference", "verdict"), tuple(rows), note)

    def plot(self, metric: str = MAIN, by: str = "horizon", horizon: int | None = None) -> Figure:
        """A matplotlib figure of a metric, a line for each arm, with 95 % bands.

        metric: as `table` takes it.
        by: "horizon", or the name of a law.
        horizon: the step of a figure by law (default: the last).

            results.plot(by="gravity").savefig("errors.png")
        """
        need_matplotlib()
        from sgjepa.core.plotting import curves

        self._known("metric", metric, self.metrics)
        if by != "horizon" and by not in self.law_names:
            raise unknown("axis", by, ("horizon", *self.law_names))
        lines: dict[str, tuple[np.ndarray, list[Interval]]] = {}
        for arm in self.arms:
            if by == "horizon":
                lines[arm] = (np.arange(1, self.horizons + 1), self.curve(arm, metric))
            else:
                points = self.by_law(arm, metric, horizon, [by])
                lines[arm] = (np.array([value for (value,) in points]), list(points.values()))
        law = self.about.laws.get(by)
        unit = law.unit.replace("^2", "²") if law else ""
        known = METRICS.get(metric)
        up = f"{known.label if known else metric}{self._unit(metric)}"
        across = "horizon h (steps)" if by == "horizon" else f"{by}{f' ({unit})' if unit else ''}"
        return curves(lines, across, up, law.training.bounds if law else None)

    def to_arrow(self) -> pa.Table:
        """All values as an Arrow table: a row for each arm, seed, episode, horizon, source and metric."""
        if self._table is None:
            self._table = forms.to_arrow(self._contents)
        return self._table.replace_schema_metadata({_METADATA: json.dumps(config.to_dict(self.about))})

    def to_pandas(self) -> Any:
        """All values as a pandas frame; needs pandas."""
        need_pandas()
        return self.to_arrow().replace_schema_metadata(None).to_pandas()

    def __len__(self) -> int:
        return len(self.to_arrow())

    def _unit(self, metric: str) -> str:
        known = METRICS.get(metric)
        unit = self.about.units.get(metric, known.unit if known else "")
        return "" if unit in ("", "1") else f" ({unit})"


def _column(horizon: Horizon) -> str:
    return str(horizon) if horizon == MEAN else f"h = {horizon}"
