"""Does L_law, known before any training, tell where the error is large? Rank correlations with intervals. NumPy only."""

from __future__ import annotations

import numpy as np

from sgjepa.core.stats import Interval
from sgjepa.results.compare import Horizon, Method, at
from sgjepa.results.gather import Results
from sgjepa.results.statistics import rank_correlation


def rank_with_coverage(results: Results, method: Method, metric: str, horizon: Horizon) -> Interval:
    """The rank correlation over the test laws between L_law and a method's mean error there.

    Episodes are drawn anew within each law, and with several trainings the spread of theirs is added (Student's t). count:
    of the laws. Not a number where L_law is not known.
    """
    law = method.first.law
    points = [point for point in map(tuple, np.unique(law, axis=0).tolist()) if point in results.coverage]
    far = np.array([results.coverage[point] for point in points])
    rows = [np.flatnonzero((law == point).all(axis=1)) for point in points]
    return rank_correlation(far, at(method.stack(metric), [horizon])[..., 0], rows)
