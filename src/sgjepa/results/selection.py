"""Selection of results on the same episodes: arms and their trainings, laws and regions, values by source and metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from sgjepa.core.errors import InputError, unknown
from sgjepa.envs.spec import Measure
from sgjepa.evaluation.metrics import MAIN, METRICS
from sgjepa.evaluation.records import Coverage, LawRecord
from sgjepa.laws import Sampler, get_law, in_distribution
from sgjepa.policies.goal_tasks import PLAN
from sgjepa.results.contents import PREDICTED, Contents
from sgjepa.results.evaluations import Evaluation
from sgjepa.results.trials import Driven

MEAN = "mean"  # instead of a horizon: the mean over all horizons, as in the paper's tables
HORIZONS = (1, 5, 16, 32, 44)  # of tables, up to the last horizon, which is always added
REGIONS = {"all": "all episodes", "in": "in distribution", "out": "out of distribution"}  # of the training laws
SG_JEPA = "SG-JEPA"
BASELINES = {  # sources other than a model's rollout
    "stay": "object stays put",
    "constant_velocity": "constant velocity",
    "simulator": "simulator from the probed state",
    "one_step": "one step at a time",
    "true": "probe on true frames",
}
Horizon: TypeAlias = int | str
Episodes: TypeAlias = str | np.ndarray  # a region's name, or a mask of episodes, (E,) bool


@dataclass(frozen=True)
class About:
    """Metadata of a table of results.

    laws: unit and training distribution of each law, by name. units: of metrics outside `METRICS`.
    measures: of a task, for trials. coverage: L_law of the laws that occur. notes: anything else.
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
    """A law that differs between episodes, for figures of errors by law."""

    name: str
    unit: str
    training: Sampler
    values: tuple[float, ...]

    @property
    def symbol(self) -> str:
        """The law's symbol in text, such as "g"."""
        return get_law(self.name).label

    @property
    def several(self) -> str:
        """The plural of the law's name, such as "gravities"."""
        return get_law(self.name).plural_label

    @property
    def trained(self) -> str:
        """The training distribution in words: "g = 4 ± 0.5 m/s²"."""
        return f"{self.symbol} {self.training.description} {self.unit}".replace("-", "\N{MINUS SIGN}")

    @property
    def inside(self) -> str:
        """The values that are in distribution, in words: "g from 3 to 5"."""
        low, high = self.training.bounds
        ends = f"from {low:g} to {high:g}".replace("-", "\N{MINUS SIGN}")
        return f"{self.symbol} {ends}"


def at(values: np.ndarray, horizons: Sequence[Horizon]) -> np.ndarray:
    """Values (..., columns) at some horizons, or their mean over all, from values (..., H), horizon 1 first."""
    return np.stack([values.mean(axis=-1) if h == MEAN else values[..., int(h) - 1] for h in horizons], axis=-1)


class Selection:
    """Values of arms on the same episodes, to select from by arm, metric, source, region and law."""

    def __init__(
        self,
        contents: Contents,
        about: About,
        baseline: str,
        evaluations: Mapping[str, tuple[Evaluation, ...]],
        driven: Mapping[str, Driven],
    ):
        self._contents, self.about = contents, about
        self._baseline, self._evaluations, self._driven = baseline, dict(evaluations), dict(driven)

    def __repr__(self) -> str:
        seeds = {arm: len(self.seeds(arm)) for arm in self.arms}
        arms = ", ".join(f"{arm} ({count} training{'s' * (count != 1)})" for arm, count in seeds.items())
        return f"Results of {arms}: {', '.join(self.metrics)} over {len(self.episodes)} episodes"

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, in the order of the table."""
        return tuple(self._contents.seeds)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, or of the measures of a task."""
        return self._contents.metrics

    @property
    def comparable(self) -> tuple[str, ...]:
        """Names of the metrics in which different models can be compared; latents have no common unit."""
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
        """The arm that others are compared with (default: the last)."""
        return self._baseline or self.arms[-1]

    @property
    def others(self) -> tuple[str, ...]:
        """All arms but the baseline."""
        return tuple(arm for arm in self.arms if arm != self.baseline)

    @property
    def subject(self) -> str:
        """The main arm of a page: SG-JEPA if it is there."""
        return self.arms[0] if self.arms[0].startswith(SG_JEPA) else (*self.others, self.baseline)[0]

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
        """The trials of an arm by training: records, plans, planning times and outcomes.

        arm: one of `arms`.
        """
        return self._driven[self._known("arm", arm, tuple(self._driven))]

    def name(self, arm: str) -> str:
        """The name of an arm's runs, such as "square_gru".

        arm: one of `arms`.
        """
        runs = self.evaluations(arm)
        return runs[0].name if runs else arm

    def arm(self, name: str) -> str:
        """The arm whose runs have a name.

        name: such as "square_gru".
        """
        arms = {self.name(arm): arm for arm in self.arms}
        return arms[self._known("run", name, tuple(arms))]

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The laws that differ between episodes, with unit, symbol, training distribution and the values that occur."""
        axes = []
        for name, record in self.about.laws.items():
            values = tuple(np.unique(self._contents.laws[name]).tolist())
            axes += [Axis(name, record.unit.replace("^2", "²"), record.training, values)] if len(values) > 1 else []
        return tuple(axes)

    @cached_property
    def coverage(self) -> dict[tuple[float, ...], float]:
        """L_law by the law vector of an episode; empty if the training laws do not vary."""
        known = self.about.coverage
        return dict(zip(known.laws, known.L_law, strict=True)) if known else {}

    @cached_property
    def deviations(self) -> np.ndarray:
        """(E,) the largest distance of a law from its training mean, in standard deviations."""
        laws = [(self._contents.laws[name], record.training) for name, record in self.about.laws.items()]
        spread = [np.abs(values - drawn.mean) / drawn.std for values, drawn in laws if drawn.std]
        return np.max(spread, axis=0) if spread else np.zeros(len(self.episodes))

    @cached_property
    def plans(self) -> dict[str, np.ndarray]:
        """Masks (E,) of the planning cases by the expert's plan in their episodes; empty if there is only one plan."""
        made_for = next(iter(self._driven.values())).first.table.get(PLAN) if self._driven else None
        words = [] if made_for is None else sorted(set(made_for.tolist()))
        return {word: made_for == word for word in words} if len(words) > 1 else {}

    def region(self, name: str) -> np.ndarray:
        """Mask (E,) of the episodes in a region.

        name: "in" if every law is within the training distribution, "out" for all others, or "all".
        """
        self._known("region", name, REGIONS)
        known = {law: record.training for law, record in self.about.laws.items() if law in self._contents.laws}
        laws = [self._contents.laws[law] for law in known]
        everywhere = np.ones(len(self.episodes), bool)
        inside = in_distribution(known, np.stack(laws, axis=1)) if laws else everywhere
        return {"all": everywhere, "in": inside, "out": ~inside}[name]

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that have episodes; only "all" if one of "in" and "out" is empty."""
        inside = self.region("in")
        return tuple(REGIONS) if inside.any() and not inside.all() else ("all",)

    def count(self, region: str) -> int:
        """The number of episodes in a region.

        region: one of `regions`.
        """
        return int(self.region(region).sum())

    def where(self, **laws: float) -> np.ndarray:
        """Mask (E,) of the episodes with these values of laws.

        laws: by name.
        """
        selected = np.ones(len(self.episodes), bool)
        for name, value in laws.items():
            selected &= self._contents.laws[self._known("law", name, self.law_names)] == value
        return selected

    @property
    def steps(self) -> tuple[int, ...]:
        """The horizons of a table, with the last one."""
        return (*(h for h in HORIZONS if h < self.horizons), self.horizons)

    @property
    def columns(self) -> tuple[Horizon, ...]:
        """The horizons of a table, and the mean over all of them."""
        return self.steps if self.about.measures else (*self.steps, MEAN)

    def values(self, arm: str, metric: str = MAIN, source: str | None = None, region: Episodes = "all") -> np.ndarray:
        """The values of a metric, (seeds, E, H), horizon 1 first; not-a-number for missing values.

        arm: one of `arms`.
        metric: one of `metrics`.
        source: one of `sources` (default: "predicted", or the only one).
        region: "all", "in", "out", or (E,) bool.
        """
        self._known("metric", metric, self.metrics)
        return self._block(arm, metric, self._source(source), region)

    def _block(self, arm: str, metric: str, source: str, region: Episodes) -> np.ndarray:
        """The values (seeds, E, H) of a metric, a measure, or the condition of a measure."""
        block = self._contents.read(self._known("arm", arm, self.arms), metric, source)
        if isinstance(region, str) and region == "all":
            return block
        # contiguous, because the order of a sum changes its last digit
        return np.ascontiguousarray(block[:, self.region(region) if isinstance(region, str) else region])

    def _known(self, kind: str, name: str, names: Iterable[str]) -> str:
        if name not in names:
            raise unknown(f"{kind} of these results" if kind in ("arm", "metric", "source") else kind, name, names)
        return name

    def _source(self, name: str | None) -> str:
        """The source with a name; by default the model's rollout, or the only source."""
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
