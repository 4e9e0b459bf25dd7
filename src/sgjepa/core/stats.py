"""Small statistics that every stage shares. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class ZScore:
    """(x - mean) / std for each channel; fitted on training episodes and saved with the model trained on them."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return ((x - np.asarray(self.mean)) / np.asarray(self.std)).astype(np.float32)

    def undo(self, x: np.ndarray) -> np.ndarray:
        return (x * np.asarray(self.std) + np.asarray(self.mean)).astype(np.float32)


@dataclass(frozen=True)
class MinMax:
    """Each channel from its [low, high] to [-1, 1]; values outside are clipped, in both directions."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        low, high = np.asarray(self.low), np.asarray(self.high)
        return np.clip(2 * (x - low) / np.maximum(high - low, 1e-6) - 1, -1, 1).astype(np.float32)

    def undo(self, x: np.ndarray) -> np.ndarray:
        low, high = np.asarray(self.low), np.asarray(self.high)
        return (low + (np.clip(x, -1, 1) + 1) / 2 * (high - low)).astype(np.float32)


def spearman(x: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Spearman's rank correlation of x and y (n,), and n; ties share their mean rank.

    The correlation of a constant or empty list is NaN.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(x) == 0:
        return float("nan"), 0
    ranks = [_ranks(values) for values in (x, y)]
    centred = [rank - rank.mean() for rank in ranks]
    spread = np.sqrt(np.prod([rank @ rank for rank in centred]))
    return (float(centred[0] @ centred[1] / spread) if spread > 0 else float("nan")), len(x)


def _ranks(values: np.ndarray) -> np.ndarray:
    _, index, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[index]


UNVARIED = 1.0  # the spread that `fit_zscore` gives a channel that never varies; no real one is exactly that


def fit_zscore(x: np.ndarray, min_std: float = 1e-6) -> ZScore:
    """Fit a ZScore to x (N, C). A channel with a standard deviation below min_std gets a unit standard deviation."""
    x = np.asarray(x, dtype=np.float64)
    std = x.std(axis=0)
    std = np.where(std < min_std, UNVARIED, std)
    return ZScore(tuple(x.mean(axis=0).tolist()), tuple(std.tolist()))


def fit_minmax(x: np.ndarray) -> MinMax:
    """Fit a MinMax to x (N, C)."""
    x = np.asarray(x, dtype=np.float64)
    return MinMax(tuple(x.min(axis=0).tolist()), tuple(x.max(axis=0).tolist()))


@dataclass(frozen=True)
class Interval:
    """A mean with the bounds of its confidence interval, and its number of episodes."""

    mean: float
    low: float
    high: float
    count: int  # episodes

    def percent(self) -> Interval:
        """The interval of a share in per cent."""
        return Interval(100 * self.mean, 100 * self.low, 100 * self.high, self.count)

    @property
    def numbers(self) -> dict[str, float]:
        """Mean, low and high as columns of a table."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


@lru_cache(maxsize=8)
def resample(count: int, resamples: int, seed: int) -> np.ndarray:
    """Share of each of `count` episodes in each bootstrap resample: (resamples, count), rows sum to 1. Cached, read only."""
    rng = np.random.default_rng(seed)
    shares = rng.multinomial(count, np.full(count, 1.0 / count), size=resamples) / count
    shares.flags.writeable = False
    return shares


def bootstrap(values: np.ndarray, resamples: int = 2000, seed: int = 0, level: float = 0.95) -> list[Interval]:
    """Percentile intervals of the mean, for every column of values (episodes, columns) or (seeds, episodes, columns).

    Episodes are drawn, not their rows: the horizons of one episode belong together. With several seeds on the same
    episodes the interval includes the spread over trainings: the mean over seeds is moved by its standard error times a
    draw of Student's t. (Drawing three seeds with replacement would cover about 75 % instead of 95.)
    """
    values = _with_seeds(values)
    return _intervals(values.mean(axis=(0, 1)), _means(values, resamples, seed), values.shape[1], level)


def bootstrap_difference(
    a: np.ndarray, b: np.ndarray, resamples: int = 2000, seed: int = 0, level: float = 0.95, paired: bool = True
) -> list[Interval]:
    """Percentile intervals of mean(a) - mean(b) for every column; both share the same resamples of episodes.

    Equally many seeds are paired unless `paired` is false; otherwise each side draws its own.
    """
    a, b = _with_seeds(a), _with_seeds(b)
    if paired and len(a) == len(b):
        return bootstrap(a - b, resamples, seed, level)
    gaps = _means(a, resamples, seed) - _means(b, resamples, seed, side=1)
    return _intervals(a.mean(axis=(0, 1)) - b.mean(axis=(0, 1)), gaps, a.shape[1], level)


def bootstrap_ratio(
    a: np.ndarray, b: np.ndarray, resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> list[Interval]:
    """Percentile intervals of mean(a) / mean(b) for every column; both share the same resamples of episodes.

    Equally many seeds are paired: a few trainings drawn independently on each side could divide by next to nothing.
    """
    a, b = _with_seeds(a), _with_seeds(b)
    if len(a) == len(b):
        return bootstrap_share(a, b, resamples, seed, level)
    ratios = _means(a, resamples, seed) / _means(b, resamples, seed, side=1)
    return _intervals(a.mean(axis=(0, 1)) / b.mean(axis=(0, 1)), ratios, a.shape[1], level)


def bootstrap_share(
    a: np.ndarray, b: np.ndarray, resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> list[Interval]:
    """Percentile intervals of mean(a) / mean(b) of the same trainings; the spread over trainings is that of their ratios.

    Trainings in which the denominator is zero throughout do not enter that spread.
    """
    a, b = _with_seeds(a), _with_seeds(b)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = a.mean(axis=1) / b.mean(axis=1)  # (seeds, columns)
        shares = resample(a.shape[1], resamples, seed)
        drawn = (shares @ a.mean(axis=0)) / (shares @ b.mean(axis=0))
    drawn = drawn + _spread(each[np.isfinite(each).all(axis=1)], resamples, seed)
    return _intervals(a.mean(axis=(0, 1)) / b.mean(axis=(0, 1)), drawn, a.shape[1], level)


def bootstrap_known(values: np.ndarray, resamples: int = 2000, seed: int = 0, level: float = 0.95) -> Interval:
    """The interval of the mean of values (seeds, episodes) with missing ones (NaN): over the episodes that have a value in
    any training, each with the mean of its trainings; the spread over trainings is that of their own means."""
    count = np.isfinite(values).sum(axis=0)
    known = np.nansum(values, axis=0)[count > 0] / count[count > 0]  # (E,)
    if len(known) < 2:  # one value has no interval
        return Interval(float(known[0]) if len(known) else math.nan, math.nan, math.nan, len(known))
    each = np.array([row[np.isfinite(row)].mean() for row in values if np.isfinite(row).any()])
    drawn = resample(len(known), resamples, seed) @ known[:, None] + _spread(each[:, None], resamples, seed)
    return _intervals(known[:, None].mean(axis=0), drawn, len(known), level)[0]


def bootstrap_of(
    statistic: Callable[..., np.ndarray],
    *values: np.ndarray,
    resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
    mirrored: bool = False,
) -> list[Interval]:
    """Bootstrap intervals of any function of means: statistic((..., columns), ...) -> (..., answers), one for each answer.

    The statistic is computed for every training and averaged over trainings; all values must have equally many, and share
    the resamples of episodes. mirrored: reflect the interval at the estimate (basic bootstrap), for statistics that noise
    biases to one side, such as means of ratios of few episodes each: resamples carry that bias twice.
    """
    stacks = [_with_seeds(stack) for stack in values]
    if len({stack.shape[:2] for stack in stacks}) > 1:
        raise ValueError(f"trainings and episodes must be the same, got {[stack.shape[:2] for stack in stacks]}")
    seeds, episodes = stacks[0].shape[:2]
    shares = resample(episodes, resamples, seed)
    each = np.stack([statistic(*(stack[s].mean(axis=0) for stack in stacks)) for s in range(seeds)])  # (seeds, answers)
    drawn = np.mean([statistic(*(shares @ stack[s] for stack in stacks)) for s in range(seeds)], axis=0)
    center, drawn = each.mean(axis=0), drawn + _spread(each, resamples, seed)
    return _intervals(center, 2 * center - drawn if mirrored else drawn, episodes, level)


def simultaneous(values: np.ndarray, resamples: int = 2000, seed: int = 0, level: float = 0.95) -> list[Interval]:
    """Simultaneous intervals: in 95 of 100 repetitions all columns contain their means, for statements about a curve.

    The max-t bootstrap: every column's interval is its own standard error times one factor, wide enough for the column
    that strays most. Pointwise intervals of 44 horizons miss somewhere far more often than in 5 of 100 repetitions. Several
    trainings are taken to stray along the whole curve: over trainings that stray here and there it holds at each column.
    """
    values = _with_seeds(values)
    center, means = values.mean(axis=(0, 1)), _means(values, resamples, seed)
    variance = values.mean(axis=0).var(axis=0, ddof=1) / values.shape[1]
    if len(values) > 1:
        variance = variance + values.mean(axis=1).var(axis=0, ddof=1) / len(values)
    error = np.sqrt(variance)
    strays = np.abs(means - center) / np.where(error > 0, error, np.inf)
    half = np.quantile(strays.max(axis=1), level) * error
    result = zip(center.tolist(), (center - half).tolist(), (center + half).tolist(), strict=True)
    return [Interval(mean, low, high, values.shape[1]) for mean, low, high in result]


def _with_seeds(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, np.float64)
    return values[None] if values.ndim == 2 else values


def _means(values: np.ndarray, resamples: int, seed: int, side: int = 0) -> np.ndarray:
    """(seeds, episodes, columns) -> the mean in each resample, (resamples, columns). side: the stream of draws of seeds."""
    means: np.ndarray = resample(values.shape[1], resamples, seed) @ values.mean(axis=0)
    return means + _spread(values.mean(axis=1), resamples, seed, side)


def _spread(each: np.ndarray, resamples: int, seed: int, side: int = 0) -> np.ndarray | float:
    """Random deviations of the mean over trainings: each (seeds, columns) -> (resamples, columns); 0 for one seed."""
    if len(each) < 2:
        return 0.0
    error = each.std(axis=0, ddof=1) / np.sqrt(len(each))  # (columns,)
    order = np.random.default_rng([seed, side]).permutation(resamples)
    spread: np.ndarray = student(len(each) - 1, resamples)[order, None] * error
    return spread


@lru_cache(maxsize=8)
def student(freedom: int, count: int) -> np.ndarray:
    """Quantiles of Student's t in the middle of `count` equal shares: (count,). Random draws would miss its far ends.

    With t = sqrt(freedom) tan(angle) the density of the angle is cos(angle) ** (freedom - 1).
    """
    angle = np.linspace(-np.pi / 2, np.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    result: np.ndarray = np.sqrt(freedom) * np.tan(np.interp((np.arange(count) + 0.5) / count, below / below[-1], angle))
    result.flags.writeable = False
    return result


def wilson(successes: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, valid also at 0 and 1."""
    share, spread = successes / n, z * z / n
    middle, half = share + spread / 2, z * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def newcombe(a: float, b: float, n: int, correlation: float = 0.0) -> tuple[float, float]:
    """The 95 % interval of the difference a - b of two shares of n trials each, from both Wilson intervals (Newcombe).

    correlation: between the two outcomes of the same trials; 0 for independent ones.
    """
    (low, high), (bottom, top) = (wilson(share * n, n) for share in (a, b))
    gap, r = a - b, correlation

    def half(half_a: float, half_b: float) -> float:
        return math.sqrt(max(half_a**2 - 2 * r * half_a * half_b + half_b**2, 0.0))

    return gap - half(a - low, top - b), gap + half(high - a, b - bottom)


def _intervals(center: np.ndarray, drawn: np.ndarray, episodes: int, level: float) -> list[Interval]:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    result = zip(center.tolist(), low.tolist(), high.tolist(), strict=True)
    return [Interval(mean, bottom, top, episodes) for mean, bottom, top in result]
