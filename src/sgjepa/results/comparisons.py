"""Means and differences of results, with 95 % intervals over episodes and trainings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from sgjepa.core.stats import Interval, bootstrap, bootstrap_difference, bootstrap_ratio, spearman
from sgjepa.envs.spec import Measure
from sgjepa.evaluation.metrics import MAIN
from sgjepa.results.claims import MIN_TRAININGS, WORSE, verdict
from sgjepa.results.contents import CLOSED_LOOP
from sgjepa.results.selection import MEAN, Episodes, Horizon, Selection, at
from sgjepa.results.statistics import Estimate, amount, conditional_share, rank_correlation, share, share_difference
from sgjepa.results.trials import COUNT


class Comparisons(Selection):
    """Statistics of a selection: every interval resamples episodes and trainings, every difference is paired."""

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
        if key not in self._curves:  # figures, tables and texts use the same curves
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
        """The mean for each combination of laws' values, over all values of the other laws, with 95 % intervals.

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
        first: str,
        second: str,
        metric: str = MAIN,
        horizons: Sequence[Horizon] | None = None,
        region: Episodes = "all",
    ) -> dict[Horizon, Interval]:
        """One arm minus another on the same episodes, with 95 % intervals; equally many trainings are paired by seed.

        first, second: of `arms`.
        metric, region: as `values` takes them.
        horizons: as `mean` takes them.
        """
        wanted = self._horizons(horizons)
        a, b = (at(self.values(arm, metric, None, region), wanted) for arm in (first, second))
        paired = not self._driven or self.driven(first).pairs == self.driven(second).pairs
        measure = self._measure(metric)
        if measure is not None and measure.unit == "":
            return {h: share_difference(a[..., i], b[..., i], paired) for i, h in enumerate(wanted)}
        return dict(zip(wanted, bootstrap_difference(a, b, paired=paired), strict=True))

    def gap(
        self, first: str, second: str, metric: str = MAIN, horizon: Horizon | None = None, region: Episodes = "all"
    ) -> Interval:
        """One arm minus another at one horizon, with its 95 % interval.

        first, second, metric, region: as `difference` takes them.
        horizon: the step, or "mean" (default: the last step).
        """
        wanted = self.horizons if horizon is None else horizon
        return self.difference(first, second, metric, [wanted], region)[wanted]

    def ratio(
        self,
        first: str,
        second: str,
        metric: str = MAIN,
        horizons: Sequence[Horizon] | None = None,
        region: Episodes = "all",
    ) -> dict[Horizon, Interval]:
        """One arm divided by another on the same episodes, with 95 % intervals.

        first, second, metric, horizons, region: as `difference` takes them.
        """
        wanted = self._horizons(horizons)
        a, b = (at(self.values(arm, metric, None, region), wanted) for arm in (first, second))
        return dict(zip(wanted, bootstrap_ratio(a, b), strict=True))

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
        """The smallest number of trainings of some arms.

        arms: of `arms` (default: all).
        """
        return min(len(self.seeds(arm)) for arm in arms or self.arms)

    def decides(self, *arms: str) -> bool:
        """Whether arms have enough trainings for a verdict on their difference.

        arms: of `arms` (default: all).
        """
        return self.trainings(*arms) >= MIN_TRAININGS

    def estimate(self, arm: str, measure: Measure, region: Episodes = "all", conditional: bool = False) -> Estimate:
        """A measure of a task with its 95 % interval, Wilson's for a share where the bootstrap is too narrow.

        arm: one of `arms`.
        measure: one of `about.measures`.
        region: "all", "in", "out", or (E,) bool.
        conditional: whether only the episodes in which `measure.condition` happened count.
        """
        values = self._block(arm, measure.name, CLOSED_LOOP, region)[..., 0]
        if conditional:
            return conditional_share(values, self._block(arm, measure.condition, CLOSED_LOOP, region)[..., 0])
        return amount(values) if measure.unit else share(values)

    @property
    def compared(self) -> tuple[Measure, ...]:
        """The measures by which policies are compared: success, and counts that every episode has."""
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

    @cached_property
    def _curves(self) -> dict[tuple[str, str, str, str], list[Interval]]:
        return {}
