"""Does L_law, known before any training, tell where the error is large? Rank correlations with intervals. NumPy only."""

from __future__ import annotations

import numpy as np

from sgjepa.core.stats import Interval, resample, spearman
from sgjepa.results.compare import Horizon, Method, at
from sgjepa.results.gather import Results

_RESAMPLES = 1000


def rank_with_coverage(results: Results, method: Method, metric: str, horizon: Horizon) -> Interval:
    """The rank correlation over the test laws between L_law and a method's mean error there.

    Episodes are drawn anew within each law, and with several trainings the spread of theirs is added (Student's t). count:
    of the laws. Not a number where L_law is not known.
    """
    law = method.first.law
    points = [point for point in map(tuple, np.unique(law, axis=0).tolist()) if point in results.coverage]
    if len(points) < 2:
        return Interval(np.nan, np.nan, np.nan, len(points))
    far = np.array([results.coverage[point] for point in points])
    rows = [np.flatnonzero((law == point).all(axis=1)) for point in points]
    values = at(method.stack(metric), [horizon])[..., 0]  # (seeds, E)
    by_law = np.stack([values[:, chosen].mean(axis=1) for chosen in rows], axis=1)  # (seeds, laws)
    of_seeds = np.array([spearman(far, errors)[0] for errors in by_law])
    mean = spearman(far, by_law.mean(axis=0))[0]
    middle = values.mean(axis=0)
    drawn = np.stack(
        [resample(len(chosen), _RESAMPLES, seed) @ middle[chosen] for seed, chosen in enumerate(rows)], axis=1
    )  # (resamples, laws)
    found = _correlations(far, drawn)
    if len(of_seeds) > 1:
        spread = of_seeds.std(ddof=1) / np.sqrt(len(of_seeds))
        found = found + spread * np.random.default_rng(0).standard_t(len(of_seeds) - 1, size=_RESAMPLES)
    low, high = np.clip(np.quantile(found, [0.025, 0.975]), -1, 1)
    return Interval(float(mean), float(low), float(high), len(points))


def _correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rank correlations of x (n,) with every row of y (R, n), whose values all differ: `spearman` for many at once."""
    orders = [np.argsort(np.argsort(values)).astype(float) for values in (x[None], y)]
    one, many = (order - order.mean(axis=1, keepdims=True) for order in orders)
    found: np.ndarray = many @ one[0] / (np.linalg.norm(one) * np.linalg.norm(many, axis=1))
    return found
