"""How far a law lies outside what a model was trained on: in standard deviations, as L_law, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sgjepa import laws
from sgjepa.theory.coverage import affine_L_law

INSIDE = 2.0  # standard deviations: what counts as in distribution (laws.ClippedNormal.bounds)
_NONE = 1e-6  # of the training laws: they do not vary


@dataclass(frozen=True)
class Coverage:
    """sigma: signed distances from the training mean. L_law: in the affine basis of all laws, drawn independently."""

    sigma: dict[str, float]
    L_law: float
    words: str

    @property
    def inside(self) -> bool:
        return all(abs(away) <= INSIDE for away in self.sigma.values())


def coverage(law: Mapping[str, float], mean: Mapping[str, float], std: Mapping[str, float]) -> Coverage:
    """Of a law vector, by the training episodes' mean and spread.

    L_law of independent laws in the affine basis is 1 + Σ ((g - μ) / σ)²: what `affine_L_law` says of each adds up.
    """
    sigma, total = {}, 1.0
    for name, middle in mean.items():
        if std[name] <= _NONE * max(1.0, abs(middle)):
            away = 0.0 if abs(law[name] - middle) <= _NONE * max(1.0, abs(middle)) else float("inf")
            total += away
        else:
            away = (law[name] - middle) / std[name]
            total += float(affine_L_law(np.array(law[name]), middle, std[name])) - 1
        sigma[name] = away
    return Coverage(sigma, total, _words(sigma))


def _words(sigma: Mapping[str, float]) -> str:
    if not sigma:
        return "no law to be told"
    out = {name: away for name, away in sigma.items() if abs(away) > INSIDE}
    if not out:
        return "inside"
    parts = []
    for name, away in out.items():
        what = f"{laws.find(name).label} " if len(sigma) > 1 else ""
        far = "never varied in training" if abs(away) == float("inf") else f"{abs(away):.1f} sigma out".replace(".0 ", " ")
        parts.append(f"{what}{far}")
    return ", ".join(parts)
