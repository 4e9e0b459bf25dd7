"""Small statistics that every stage shares. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ZScore:
    """(x - mean) / std for each channel; fitted on training episodes and kept with whatever was trained on them."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return ((x - np.asarray(self.mean)) / np.asarray(self.std)).astype(np.float32)

    def undo(self, x: np.ndarray) -> np.ndarray:
        return (x * np.asarray(self.std) + np.asarray(self.mean)).astype(np.float32)


def spearman(x: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Rank correlation of two lists and how many pairs it rests on; ties share their mean rank. x, y: (n,)

    A list that never changes has no order: the correlation is then not a number.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    ranks = [_ranks(values) for values in (x, y)]
    centred = [rank - rank.mean() for rank in ranks]
    spread = np.sqrt(np.prod([rank @ rank for rank in centred]))
    return (float(centred[0] @ centred[1] / spread) if spread > 0 else float("nan")), len(x)


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]


def fit_zscore(x: np.ndarray, floor: float = 1e-6) -> ZScore:
    """x: (N, C). A channel that never varies gets `floor` as its spread, so that it maps to zero."""
    x = np.asarray(x, dtype=np.float64)
    std = np.maximum(x.std(axis=0), floor)
    return ZScore(tuple(x.mean(axis=0).tolist()), tuple(std.tolist()))
