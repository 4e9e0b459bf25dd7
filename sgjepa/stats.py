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


def fit_zscore(x: np.ndarray, floor: float = 1e-6) -> ZScore:
    """x: (N, C). A channel that never varies gets `floor` as its spread, so that it maps to zero."""
    x = np.asarray(x, dtype=np.float64)
    std = np.maximum(x.std(axis=0), floor)
    return ZScore(tuple(x.mean(axis=0).tolist()), tuple(std.tolist()))
