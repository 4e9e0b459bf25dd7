"""Intervals of shares, differences of shares and rank correlations (NumPy only).

A bootstrap resamples episodes, and trainings if there are several (core/stats.py). For a share it is too narrow where all
values are equal, or where episodes, successes or failures are few: there Wilson's interval, or Newcombe's for a difference,
is used if it is wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sgjepa.core.stats import (
    Interval,
    bootstrap,
    bootstrap_difference,
    bootstrap_known,
    bootstrap_share,
    newcombe,
    resample,
    spearman,
    wilson,
)

FEW = 30  # episodes, below which a share's interval may be Wilson's
RARE = 10  # episodes with the rarer outcome, below which it may be Wilson's
BOOTSTRAP, WILSON = "bootstrap", "Wilson"
_RESAMPLES = 1000  # for a rank correlation


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval. how: the method of the interval. A count of 0 means no data."""

    interval: Interval
    how: str


def amount(values: np.ndarray) -> Estimate:
    """The mean of a non-negative quantity that not every episode has. values: (trainings, E)."""
    mean = bootstrap_known(values)
    return Estimate(replace(mean, low=max(mean.low, 0.0)), BOOTSTRAP)


def share(values: np.ndarray) -> Estimate:
    """The estimate of a share in [0, 1]. values: (trainings, E)."""
    trainings, count = values.shape
    if count == 0:
        return Estimate(Interval(np.nan, np.nan, np.nan, 0), WILSON)
    mean = float(values.mean())
    if (values == values.flat[0]).all() or (trainings == 1 and _few(mean, count)):
        return Estimate(Interval(mean, *wilson(mean * count, count), count), WILSON)
    return _or_wilson(replace(bootstrap(values[..., None])[0], mean=mean))


def conditional_share(both: np.ndarray, happened: np.ndarray) -> Estimate:
    """The share among the episodes in which a condition happened. both, happened: (trainings, E)."""
    if not happened.any():
        return Estimate(Interval(np.nan, np.nan, np.nan, 0), BOOTSTRAP)
    count = int((happened.mean(axis=0) > 0).sum())
    if len(both) == 1 and set(np.unique(happened)) <= {0.0, 1.0}:
        return share(both[:, happened[0] > 0])
    ratio = bootstrap_share(both[..., None], happened[..., None])[0]
    return _or_wilson(Interval(ratio.mean, ratio.low, ratio.high, count))


def share_difference(first: np.ndarray, second: np.ndarray, paired: bool = True) -> Interval:
    """One share minus another on the same episodes. first, second: (trainings, E)."""
    gap = bootstrap_difference(first[..., None], second[..., None], paired=paired)[0]
    if gap.low == gap.high and gap.count:
        # all differences are equal: Wilson's lower bound is the share of episodes with that value, the others may have any
        sure = wilson(gap.count, gap.count)[0]
        gap = Interval(gap.mean, sure * gap.mean - (1 - sure), sure * gap.mean + (1 - sure), gap.count)
    elif gap.count and any(is_rare(float(side.mean()), gap.count) for side in (first, second)):
        alike = correlation(first.mean(axis=0), second.mean(axis=0))
        low, high = newcombe(float(first.mean()), float(second.mean()), gap.count, alike)
        gap = Interval(gap.mean, min(gap.low, low), max(gap.high, high), gap.count)
    return Interval(gap.mean, max(gap.low, -1.0), min(gap.high, 1.0), gap.count)


def mean_of_tries(values: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of repeats of the same episodes over those that have a value; not-a-number where none has."""
    stacked = np.stack(values)
    count = np.isfinite(stacked).sum(axis=0)
    return np.where(count, np.nansum(stacked, axis=0) / np.maximum(count, 1), np.nan)


def is_rare(share: float, count: int) -> bool:
    """Whether too few episodes have the rarer outcome for a bootstrap."""
    return count * min(share, 1 - share) < RARE


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """The correlation of two policies' successes over the same episodes, (E,) each; 0 if one of them is constant."""
    return float(np.corrcoef(first, second)[0, 1]) if first.std() > 0 and second.std() > 0 else 0.0


def _few(share: float, count: int) -> bool:
    return count < FEW or is_rare(share, count)


def _or_wilson(drawn: Interval) -> Estimate:
    """The bootstrap interval of a share, or Wilson's where the bootstrap has no width or is too narrow for few episodes."""
    by_wilson = Interval(drawn.mean, *wilson(drawn.mean * drawn.count, drawn.count), drawn.count)
    drawn = replace(drawn, low=max(drawn.low, 0.0), high=min(drawn.high, 1.0))  # before the comparison
    width = drawn.high - drawn.low
    if not width > 0 or (_few(drawn.mean, drawn.count) and width < by_wilson.high - by_wilson.low):
        return Estimate(by_wilson, WILSON)
    return Estimate(drawn, BOOTSTRAP)


def rank_correlation(x: np.ndarray, values: np.ndarray, groups: Sequence[np.ndarray]) -> Interval:
    """The rank correlation between a number x of each group of episodes and the mean of the group's values.

    Episodes are resampled within each group, and with several trainings their spread is added (Student's t).
    x: (n,). values: (trainings, E). groups: n index arrays into E. count: n.
    """
    if len(x) < 2:
        return Interval(np.nan, np.nan, np.nan, len(x))
    means = np.stack([values[:, rows].mean(axis=1) for rows in groups], axis=1)  # (trainings, n)
    each = np.array([spearman(x, row)[0] for row in means])
    mean = spearman(x, means.mean(axis=0))[0]
    middle = values.mean(axis=0)
    drawn = np.stack(
        [resample(len(rows), _RESAMPLES, seed) @ middle[rows] for seed, rows in enumerate(groups)], axis=1
    )  # (resamples, n)
    correlations = _rank_correlations(x, drawn)
    if len(each) > 1:
        spread = each.std(ddof=1) / np.sqrt(len(each))
        correlations = correlations + spread * np.random.default_rng(0).standard_t(len(each) - 1, size=_RESAMPLES)
    low, high = np.clip(np.quantile(correlations, [0.025, 0.975]), -1, 1)
    return Interval(float(mean), float(low), float(high), len(x))


def _rank_correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rank correlations of x (n,) with every row of y (R, n), without ties: a vectorised `spearman`."""
    orders = [np.argsort(np.argsort(values)).astype(float) for values in (x[None], y)]
    single, many = (order - order.mean(axis=1, keepdims=True) for order in orders)
    correlations: np.ndarray = many @ single[0] / (np.linalg.norm(single) * np.linalg.norm(many, axis=1))
    return correlations
