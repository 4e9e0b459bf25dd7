"""Results: one long table of everything measured, and the questions that are asked of it.

A row is one value: arm (what was measured), seed (of its training), episode, law.NAME, horizon, source, metric, value.
Sources of a forecast are the model's own rollout ("predicted") and its baselines (evaluation/evaluate.py). A trial of a
policy has the source "closed loop" and one value for the whole episode, at horizon 1.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sgjepa.core import artifact, config
from sgjepa.core.errors import InputError, need_matplotlib, one_line, unknown
from sgjepa.core.stats import Interval, bootstrap, bootstrap_difference, bootstrap_ratio, spearman
from sgjepa.core.tables import Table
from sgjepa.envs.spec import Measure
from sgjepa.evaluation.metrics import MAIN as MAIN
from sgjepa.evaluation.metrics import METRICS
from sgjepa.evaluation.records import Coverage, LawRecord
from sgjepa.laws import Sampler, get_law, in_distribution
from sgjepa.policies.goal_tasks import PLAN
from sgjepa.results import contents as forms
from sgjepa.results.answer import Answer, need_pandas
from sgjepa.results.claims import LEAST, WORSE, significant, verdict
from sgjepa.results.contents import CLOSED_LOOP, PREDICTED, Contents
from sgjepa.results.evaluations import Evaluation, read_runs
from sgjepa.results.statistics import Estimate, amount, conditional_share, rank_correlation, share, share_difference
from sgjepa.results.trials import COUNT, Driven, read_trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEAN = "mean"  # in place of a horizon: the mean over all of them, as in the paper's tables
HORIZONS = (1, 5, 16, 32, 44)  # of tables, as far as they go; the last one is always added
REGIONS = {"all": "all episodes", "in": "in distribution", "out": "out of distribution"}  # of the training laws
OURS = "SG-JEPA"
BASELINES = {  # sources beside a model's own rollout
    "stay": "object stays put",
    "constant_velocity": "constant velocity",
    "simulator": "simulator from the probed state",
    "one_step": "one step at a time",
    "true": "probe on true frames",
}
_USUAL = ("LeWM", "DINO-WM")  # compared with, if nothing else is asked for
_METADATA = b"sgjepa.results"
Horizon: TypeAlias = int | str
Episodes: TypeAlias = str | np.ndarray  # a region's name, or which episodes, (E,) bool


@dataclass(frozen=True)
class About:
    """What the numbers of a table mean.

    laws: unit and training distribution of each law, by name. units: of metrics that are not among the usual ones.
    measures: of a task, for trials. coverage: L_law of the laws that occur. notes: anything else, for a reader.
    """

    laws: dict[str, LawRecord] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    world: str = ""
    dataset: str = ""
    split: str = ""
    measures: tuple[Measure, ...] = ()
    coverage: Coverage | None = None


@dataclass(frozen=True)
class Axis:
    """A law that differs between episodes: what errors can be drawn against."""

    name: str
    unit: str
    training: Sampler
    values: tuple[float, ...]

    @property
    def symbol(self) -> str:
        """How text calls a value of the law: "g"."""
        return get_law(self.name).label

    @property
    def several(self) -> str:
        """The law's name for several of them: "gravities"."""
        return get_law(self.name).plural_label

    @property
    def trained(self) -> str:
        """What training drew: "g = 4 ± 0.5 m/s²"."""
        return f"{self.symbol} {self.training.description} {self.unit}".replace("-", "\N{MINUS SIGN}")

    @property
    def inside(self) -> str:
        """Which values count as in distribution: "g from 3 to 5"."""
        low, high = self.training.bounds
        ends = f"from {low:g} to {high:g}".replace("-", "\N{MINUS SIGN}")
        return f"{self.symbol} {ends}"


def at(values: np.ndarray, horizons: Sequence[Horizon]) -> np.ndarray:
    """Values (..., H), horizon 1 first, at some horizons, or their mean over all: (..., columns)."""
    return np.stack([values.mean(axis=-1) if h == MEAN else values[..., int(h) - 1] for h in horizons], axis=-1)


class Results:
    """Everything that was measured on the same episodes: results of several models are added with `+`.

    An *arm* is what was measured, such as a method; trainings of one arm differ in their seed. A *horizon* is the step of
    a forecast, 1 being the first. *Regions*: "in" are episodes whose laws lie within what training drew, "out" the others.
    """

    def __init__(
        self,
        table: pa.Table | Contents,
        about: About | None = None,
        baseline: str = "",
        evaluations: Mapping[str, tuple[Evaluation, ...]] | None = None,
        driven: Mapping[str, Driven] | None = None,
    ):
        self._contents = table if isinstance(table, Contents) else forms.from_arrow(table)
        self._table = None if isinstance(table, Contents) else table
        self._baseline, self._evaluations, self._driven = baseline, dict(evaluations or {}), dict(driven or {})
        self._curves: dict[tuple[str, str, str, str], list[Interval]] = {}
        self.about = about or About()

    # --- where they come from ------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, arm: str, seed: int, errors: Table, about: About) -> Results:
        """Results of one evaluation of your own; `evaluate` makes them for you.

        arm: what was measured.
        seed: of its training.
        errors: columns of one length by name: source, episode, horizon, law.NAME, and one of each metric.
        about: units, and what training drew of each law.
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
        labels: arms of runs of certain names, instead of the paper's.
        names: of runs by their folders, instead of those they were trained under.
        """
        arms = read_runs(runs, data, labels, names)
        ordered = sorted(arms, key=lambda arm: not arm.startswith(OURS))  # what a report is about, and then its baselines
        return cls.of_evaluations({arm: arms[arm] for arm in ordered}, baseline)

    @classmethod
    def of_evaluations(cls, arms: Mapping[str, tuple[Evaluation, ...]], baseline: str | None = None) -> Results:
        """Results of evaluations that were read before.

        arms: evaluations by arm, one for each training, all of the same episodes.
        baseline: as `of_runs` takes it.
        """
        usual = [arm for name in _USUAL for arm in arms if arm.startswith(name)]
        chosen = (usual or list(arms))[0] if baseline is None else baseline
        if chosen not in arms:
            raise unknown("baseline", chosen, arms)
        first = next(iter(arms.values()))[0]
        about = About(
            laws=first.about.laws,
            world=str(first.about.world),
            dataset=first.dataset,
            split=first.split,
            coverage=first.about.coverage,
        )
        return cls(forms.from_evaluations(arms, tuple(METRICS)), about, chosen, evaluations=arms)

    @classmethod
    def of_trials(cls, folders: Sequence[Path]) -> Results:
        """Results of trials of policies, driven or planned, on the same episodes.

        folders: of trials, as `sgjepa evaluate-policy` writes them; tries of one training are averaged.
        """
        return cls.of_driven(read_trials(folders))

    @classmethod
    def of_driven(cls, arms: Mapping[str, Driven]) -> Results:
        """Results of trials that were read before.

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
        """Results from a file that `save` wrote.

        path: the file.
        """
        try:
            table = pq.read_table(path)
            about = json.loads((table.schema.metadata or {})[_METADATA])
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise InputError(f"{path} is not a file of results ({one_line(error, 100)})") from error
        return cls(table, config.from_dict(About, about))

    def save(self, path: str | Path) -> Path:
        """Write them as one Parquet file, whole or not at all.

        path: the file. It comes back as a `Path`.
        """
        path, buffer = Path(path), io.BytesIO()
        pq.write_table(self.to_arrow(), buffer, compression="zstd")
        artifact.write_bytes(path, buffer.getbuffer())
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
        """The same under another name, for results of one arm, so that they can be added to others.

        arm: the new name.
        """
        if len(self.arms) != 1:
            raise InputError(f"only results of one arm can be renamed, these have {', '.join(self.arms)}")
        (old,), contents = self.arms, self._contents
        read = contents.read
        contents = replace(contents, seeds={arm: self.seeds(old)}, read=lambda _, metric, source: read(old, metric, source))
        return Results(contents, self.about)

    # --- what there is -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.to_arrow())

    def __repr__(self) -> str:
        seeds = {arm: len(self.seeds(arm)) for arm in self.arms}
        arms = ", ".join(f"{arm} ({count} training{'s' * (count != 1)})" for arm, count in seeds.items())
        return f"Results of {arms}: {', '.join(self.metrics)} over {len(self.episodes)} episodes"

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of what was measured, in the order in which they came."""
        return tuple(self._contents.seeds)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the errors, or of the measures of a task."""
        return self._contents.metrics

    @property
    def comparable(self) -> tuple[str, ...]:
        """Names of the errors that different models can be compared in: latents have no common unit."""
        return tuple(name for name, metric in METRICS.items() if metric.compared and name in self.metrics)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the forecasts: "predicted", and the baselines; "closed loop" for trials."""
        return self._contents.sources

    @property
    def law_names(self) -> tuple[str, ...]:
        """Names of the laws."""
        return tuple(self._contents.laws)

    @property
    def episodes(self) -> np.ndarray:
        """(E,) numbers of the episodes."""
        return self._contents.episodes

    @property
    def horizons(self) -> int:
        """The last horizon."""
        return self._contents.horizons

    @property
    def laws(self) -> dict[str, np.ndarray]:
        """The laws of each episode, (E,) by name."""
        return dict(self._contents.laws)

    @property
    def world(self) -> str:
        """The name of the world; empty if it is not known."""
        return self.about.world

    @property
    def baseline(self) -> str:
        """The arm that others are compared with: the one that was chosen, or the last."""
        return self._baseline or self.arms[-1]

    @property
    def others(self) -> tuple[str, ...]:
        """All arms but the baseline."""
        return tuple(arm for arm in self.arms if arm != self.baseline)

    @property
    def subject(self) -> str:
        """The arm that a page is about first: SG-JEPA, where it takes part."""
        return self.arms[0] if self.arms[0].startswith(OURS) else (*self.others, self.baseline)[0]

    def seeds(self, arm: str) -> tuple[int, ...]:
        """Seeds of the trainings of an arm.

        arm: one of `arms`.
        """
        return self._contents.seeds[self._known("arm", arm, self.arms)]

    def evaluations(self, arm: str) -> tuple[Evaluation, ...]:
        """The evaluated runs of an arm, by seed: folders, records, states, training curves; none if not read from runs.

        arm: one of `arms`.
        """
        return self._evaluations.get(self._known("arm", arm, self.arms), ())

    def driven(self, arm: str) -> Driven:
        """The trials of an arm by training: records, plans, how long plans took, what episodes came to.

        arm: one of `arms`.
        """
        return self._driven[self._known("arm", arm, tuple(self._driven))]

    def name(self, arm: str) -> str:
        """What the runs of an arm are called, such as "square_gru".

        arm: one of `arms`.
        """
        runs = self.evaluations(arm)
        return runs[0].name if runs else arm

    def arm(self, name: str) -> str:
        """The arm whose runs are called so.

        name: such as "square_gru".
        """
        arms = {self.name(arm): arm for arm in self.arms}
        return arms[self._known("run", name, tuple(arms))]

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The laws that differ between episodes, with unit, symbol, what training drew, and the values that occur."""
        axes = []
        for name, record in self.about.laws.items():
            values = tuple(np.unique(self._contents.laws[name]).tolist())
            axes += [Axis(name, record.unit.replace("^2", "²"), record.training, values)] if len(values) > 1 else []
        return tuple(axes)

    @cached_property
    def coverage(self) -> dict[tuple[float, ...], float]:
        """L_law by the laws of an episode, all of them; empty if the training laws never vary."""
        known = self.about.coverage
        return dict(zip(known.laws, known.L_law, strict=True)) if known else {}

    @cached_property
    def deviations(self) -> np.ndarray:
        """(E,) how many standard deviations the law that strays most lies from the mean of the training laws."""
        laws = [(self._contents.laws[name], record.training) for name, record in self.about.laws.items()]
        spread = [np.abs(values - drawn.mean) / drawn.std for values, drawn in laws if drawn.std]
        return np.max(spread, axis=0) if spread else np.zeros(len(self.episodes))

    @cached_property
    def plans(self) -> dict[str, np.ndarray]:
        """(E,) bool for each thing that episodes were made for: which cases come from them; empty where all are alike."""
        made_for = next(iter(self._driven.values())).first.table.get(PLAN) if self._driven else None
        words = [] if made_for is None else sorted(set(made_for.tolist()))
        return {word: made_for == word for word in words} if len(words) > 1 else {}

    def region(self, name: str) -> np.ndarray:
        """(E,) bool: which episodes lie in a region.

        name: "in" where every law is within what training drew, "out" for all others, or "all".
        """
        self._known("region", name, REGIONS)
        known = {law: record.training for law, record in self.about.laws.items() if law in self._contents.laws}
        laws = [self._contents.laws[law] for law in known]
        everywhere = np.ones(len(self.episodes), bool)
        inside = in_distribution(known, np.stack(laws, axis=1)) if laws else everywhere
        return {"all": everywhere, "in": inside, "out": ~inside}[name]

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that have episodes; "all" alone where there is nothing to tell apart."""
        inside = self.region("in")
        return tuple(REGIONS) if inside.any() and not inside.all() else ("all",)

    def count(self, region: str) -> int:
        """How many episodes lie in a region.

        region: one of `regions`.
        """
        return int(self.region(region).sum())

    def where(self, **laws: float) -> np.ndarray:
        """(E,) bool: which episodes have these values of laws.

        laws: by name.
        """
        chosen = np.ones(len(self.episodes), bool)
        for name, value in laws.items():
            chosen &= self._contents.laws[self._known("law", name, self.law_names)] == value
        return chosen

    @property
    def steps(self) -> tuple[int, ...]:
        """The horizons of a table; the last one is always among them."""
        return (*(h for h in HORIZONS if h < self.horizons), self.horizons)

    @property
    def columns(self) -> tuple[Horizon, ...]:
        """The horizons of a table, and the mean over all of them."""
        return self.steps if self.about.measures else (*self.steps, MEAN)

    def values(self, arm: str, metric: str = MAIN, source: str | None = None, region: Episodes = "all") -> np.ndarray:
        """The values of one metric, (seeds, E, H), horizon 1 first; not-a-number where there is none.

        arm: one of `arms`.
        metric: one of `metrics`.
        source: one of `sources` (default: "predicted", or the only one).
        region: "all", "in", "out", or (E,) bool.
        """
        self._known("metric", metric, self.metrics)
        return self._block(arm, metric, self._source(source), region)

    # --- questions -----------------------------------------------------------------------------------------------------

    def mean(
        self,
        arm: str,
        metric: str = MAIN,
        horizons: Sequence[Horizon] | None = None,
        source: str | None = None,
        region: Episodes = "all",
    ) -> dict[Horizon, Interval]:
        """Means over episodes and trainings at some horizons, with 95 % intervals.

        arm, metric, source, region: as `values` takes them.
        horizons: steps ahead, or "mean" for the mean over all of them (default: those of `columns`).
        """
        wanted = self._horizons(horizons)
        if (measure := self._measure(metric)) is not None:
            return dict.fromkeys(wanted, self.estimate(arm, measure, region).interval)
        return dict(zip(wanted, bootstrap(at(self.values(arm, metric, source, region), wanted)), strict=True))

    def curve(self, arm: str, metric: str = MAIN, source: str | None = None, region: str = "all") -> list[Interval]:
        """The mean at every horizon, 1 first, with 95 % intervals.

        arm, metric, source, region: as `values` takes them.
        """
        key = (arm, metric, self._source(source), region)
        if key not in self._curves:  # figures, tables and sentences ask for the same ones
            self._curves[key] = bootstrap(self.values(*key))
        return self._curves[key]

    def by_law(
        self,
        arm: str,
        metric: str = MAIN,
        horizon: int | None = None,
        names: Sequence[str] | None = None,
        source: str | None = None,
    ) -> dict[tuple[float, ...], Interval]:
        """The mean for each combination of laws' values, over whatever the other laws are, with 95 % intervals.

        arm, metric, source: as `values` takes them.
        horizon: the step (default: the last).
        names: of the laws (default: all).
        """
        columns = [self._contents.laws[name] for name in (self.law_names if names is None else names)]
        law = np.stack(columns, axis=1)
        values = self.values(arm, metric, source)[:, :, [(horizon or self.horizons) - 1]]
        points: dict[tuple[float, ...], Interval] = {}
        for point in np.unique(law, axis=0):
            points[tuple(point.tolist())] = bootstrap(values[:, (law == point).all(axis=1)])[0]
        return points

    def difference(
        self,
        one: str,
        other: str,
        metric: str = MAIN,
        horizons: Sequence[Horizon] | None = None,
        region: Episodes = "all",
    ) -> dict[Horizon, Interval]:
        """One arm minus another on the same episodes, with 95 % intervals; equally many trainings are paired by seed.

        one, other: of `arms`.
        metric, region: as `values` takes them.
        horizons: as `mean` takes them.
        """
        wanted = self._horizons(horizons)
        mine, theirs = (at(self.values(arm, metric, None, region), wanted) for arm in (one, other))
        paired = not self._driven or self.driven(one).pairs == self.driven(other).pairs
        measure = self._measure(metric)
        if measure is not None and measure.unit == "":
            return {h: share_difference(mine[..., i], theirs[..., i], paired) for i, h in enumerate(wanted)}
        return dict(zip(wanted, bootstrap_difference(mine, theirs, paired=paired), strict=True))

    def gap(
        self, one: str, other: str, metric: str = MAIN, horizon: Horizon | None = None, region: Episodes = "all"
    ) -> Interval:
        """One arm minus another at one horizon, as `difference` has it.

        one, other, metric, region: as `difference` takes them.
        horizon: the step, or "mean" (default: the last step).
        """
        wanted = self.horizons if horizon is None else horizon
        return self.difference(one, other, metric, [wanted], region)[wanted]

    def ratio(
        self,
        one: str,
        other: str,
        metric: str = MAIN,
        horizons: Sequence[Horizon] | None = None,
        region: Episodes = "all",
    ) -> dict[Horizon, Interval]:
        """One arm divided by another on the same episodes, with 95 % intervals.

        one, other, metric, horizons, region: as `difference` takes them.
        """
        wanted = self._horizons(horizons)
        mine, theirs = (at(self.values(arm, metric, None, region), wanted) for arm in (one, other))
        return dict(zip(wanted, bootstrap_ratio(mine, theirs), strict=True))

    def against(self, arm: str, source: str, metric: str = MAIN, region: Episodes = "all") -> list[Interval]:
        """An arm's rollout minus one of its own baselines at every horizon, 1 first, with 95 % intervals.

        arm, metric, region: as `values` takes them.
        source: a baseline, such as "stay".
        """
        return bootstrap(self.values(arm, metric, None, region) - self.values(arm, metric, source, region))

    def marks(
        self, metric: str = MAIN, horizon: Horizon = MEAN, region: Episodes = "all", arms: Sequence[str] | None = None
    ) -> dict[str, str]:
        """Which arm is "best", the lowest error and all that do not differ from it significantly, "second", or "".

        metric, region: as `values` takes them.
        horizon: the step, or "mean".
        arms: that are compared (default: all).
        """
        compared = list(self.arms if arms is None else arms)
        marks = dict.fromkeys(compared, "")
        if len(compared) < 2:
            return marks
        means = {arm: float(at(self.values(arm, metric, None, region), [horizon]).mean()) for arm in compared}
        left = sorted(compared, key=means.__getitem__)
        for mark in ("best", "second"):
            if left:
                leader = left[0]
                gaps = {arm: self.gap(arm, leader, metric, horizon, region) for arm in left[1:]}
                marks |= dict.fromkeys([leader, *(arm for arm, gap in gaps.items() if verdict(gap) != WORSE)], mark)
                left = [arm for arm in left if not marks[arm]]
        return marks

    def trainings(self, *arms: str) -> int:
        """How many trainings each of some arms has at least.

        arms: of `arms` (default: all).
        """
        return min(len(self.seeds(arm)) for arm in arms or self.arms)

    def decides(self, *arms: str) -> bool:
        """Whether arms were trained often enough for a verdict on their difference.

        arms: of `arms` (default: all).
        """
        return self.trainings(*arms) >= LEAST

    def estimate(self, arm: str, measure: Measure, region: Episodes = "all", given: bool = False) -> Estimate:
        """A measure of a task with its 95 % interval, Wilson's for a share where a bootstrap says too little.

        arm: one of `arms`.
        measure: one of `about.measures`.
        region: "all", "in", "out", or (E,) bool.
        given: of a share, only among the episodes in which `measure.given` happened.
        """
        values = self._block(arm, measure.name, CLOSED_LOOP, region)[..., 0]
        if given:
            return conditional_share(values, self._block(arm, measure.condition, CLOSED_LOOP, region)[..., 0])
        return amount(values) if measure.unit else share(values)

    @property
    def compared(self) -> tuple[Measure, ...]:
        """The measures that policies are compared in: success, and what is counted in every episode."""
        success, *others = self.about.measures
        return success, *(measure for measure in others if measure.unit == COUNT)

    def coverage_rank(self, arm: str, metric: str = MAIN, horizon: Horizon | None = None) -> tuple[float, int]:
        """The rank correlation over the test laws between L_law and the mean error, and the number of laws.

        arm, metric: as `values` takes them.
        horizon: the step, or "mean" (default: the last step).
        """
        far, values, groups = self._by_coverage(arm, metric, horizon)
        return spearman(far, np.array([values[:, rows].mean() for rows in groups]))

    def coverage_correlation(self, arm: str, metric: str = MAIN, horizon: Horizon | None = None) -> Interval:
        """The rank correlation over the test laws between L_law and the mean error, with its 95 % interval.

        arm, metric, horizon: as `coverage_rank` takes them.
        """
        return rank_correlation(*self._by_coverage(arm, metric, horizon))

    def _by_coverage(
        self, arm: str, metric: str, horizon: Horizon | None
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """L_law of each law vector (n,), values (seeds, E), and the episodes of each law vector."""
        law = np.stack(list(self._contents.laws.values()), axis=1)
        points = [point for point in map(tuple, np.unique(law, axis=0).tolist()) if point in self.coverage]
        groups = [np.flatnonzero((law == point).all(axis=1)) for point in points]
        values = at(self.values(arm, metric), [self.horizons if horizon is None else horizon])[..., 0]
        return np.array([self.coverage[point] for point in points]), values, groups

    # --- answers to print ----------------------------------------------------------------------------------------------

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
        """Differences of every arm from a baseline on the same episodes, with a verdict where there can be one.

        A verdict on two methods needs three trainings of each; with fewer the interval is over episodes alone.

        baseline: the arm that is subtracted (default: `baseline`, the last if none was chosen).
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
        horizon: at which step, against a law (default: the last).

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
        """The same as a pandas frame, where pandas is installed."""
        need_pandas()
        return self.to_arrow().replace_schema_metadata(None).to_pandas()

    def _block(self, arm: str, metric: str, source: str, region: Episodes) -> np.ndarray:
        """(seeds, E, H) of a metric, or of a measure that is counted beside those of the task."""
        block = self._contents.read(self._known("arm", arm, self.arms), metric, source)
        if isinstance(region, str) and region == "all":
            return block
        # contiguous: sums in another order would differ in the last digit
        return np.ascontiguousarray(block[:, self.region(region) if isinstance(region, str) else region])

    def _known(self, kind: str, name: str, names: Iterable[str]) -> str:
        if name not in names:
            raise unknown(f"{kind} of these results" if kind in ("arm", "metric", "source") else kind, name, names)
        return name

    def _source(self, name: str | None) -> str:
        """The source of that name; by default the model's own rollout, or the only one."""
        if name is None:
            return PREDICTED if PREDICTED in self.sources else self.sources[0]
        return self._known("source", name, self.sources)

    def _measure(self, metric: str) -> Measure | None:
        return next((measure for measure in self.about.measures if measure.name == metric), None)

    def _horizons(self, wanted: Sequence[Horizon] | None) -> tuple[Horizon, ...]:
        horizons = self.columns if wanted is None else tuple(wanted)
        for horizon in horizons:
            if horizon != MEAN and not (isinstance(horizon, int) and 1 <= horizon <= self.horizons):
                raise InputError(f"a horizon is a number from 1 to {self.horizons}, or '{MEAN}', got {horizon!r}")
        return horizons

    def _unit(self, metric: str) -> str:
        known = METRICS.get(metric)
        unit = self.about.units.get(metric, known.unit if known else "")
        return "" if unit in ("", "1") else f" ({unit})"


def _column(horizon: Horizon) -> str:
    return str(horizon) if horizon == MEAN else f"h = {horizon}"
