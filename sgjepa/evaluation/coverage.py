"""How far outside a dataset's training laws a gravity lies: L_law from the gravities that the training episodes have."""

from __future__ import annotations

from typing import Any

import numpy as np

from sgjepa import laws
from sgjepa.core import files
from sgjepa.core.errors import InputError, unknown
from sgjepa.data.store import Dataset
from sgjepa.theory import coverage as theory

UNIT = laws.LAWS["gravity"].unit

# in units of L_law's mean over the training laws: 1.7 and 4.4 standard deviations for the affine basis
HOME, FAR = 2.0, 10.0


def coverage_curve(training: np.ndarray, gravities: np.ndarray, basis: str = "affine") -> np.ndarray:
    """L_law at each of the gravities; to stand beside an error by gravity (`stats.spearman` gives their rank correlation).

    training: (n,) gravities of the training episodes   gravities: (k,)   returns (k,)
    """
    if basis not in theory.BASES:
        raise unknown("basis", basis, theory.BASES)
    training, gravities = np.asarray(training, float), np.asarray(gravities, float)
    psi = theory.BASES[basis]
    # g enters as (g - mean)/spread: the same L_law in exact arithmetic, and no digits lost in g²
    middle, spread = training.mean(), training.std()
    if not spread > 1e-9 * max(1.0, abs(middle)):
        raise InputError(
            f"the training gravities do not vary (all {training[0]:g} {UNIT}): they say nothing about any other gravity"
        )
    design = psi((training - middle) / spread)
    if theory.covered_directions(design) < design.shape[1]:
        count = len(np.unique(training))
        raise InputError(f"{count} different training gravities cannot cover the {basis} basis {psi}; take --basis affine")
    return len(training) * theory.leverage(psi((gravities - middle) / spread), design)


def examine(dataset: Dataset, gravities: list[float] | None = None, basis: str = "affine") -> dict[str, Any]:
    """Coverage of the gravities (the dataset's own test gravities by default), as one dict for text and JSON."""
    training = _gravities(dataset, "train")
    if gravities is None:
        gravities = np.unique(_gravities(dataset, "test")).tolist()
    gravities = [laws.check({"gravity": gravity})["gravity"] for gravity in gravities]
    curve = coverage_curve(training, np.array(gravities), basis)
    exact = _of_distribution(dataset, np.array(gravities), basis)
    mean, std = float(training.mean()), float(training.std())
    nearest, furthest = float(training.min()), float(training.max())
    size = theory.BASES[basis].m
    found = []
    for i, gravity in enumerate(gravities):
        deviations = (gravity - mean) / std
        beyond = max(nearest - gravity, gravity - furthest, 0.0)
        found.append(
            {
                "gravity": gravity,
                "L_law": float(curve[i]),
                "L_law_of_distribution": None if exact is None else float(exact[i]),
                "error_factor": float(np.sqrt(curve[i])),
                "deviations": deviations,
                "beyond": beyond,
                "verdict": _verdict(float(curve[i]) / size, beyond),
            }
        )
    return {
        "dataset": str(dataset.path),
        "basis": basis,
        "mean_L_law_of_training": size,
        "training": {"episodes": len(training), "mean": mean, "std": std, "min": nearest, "max": furthest},
        "gravities": found,
        "provenance": files.provenance(),
    }


def _gravities(dataset: Dataset, split: str) -> np.ndarray:
    """(N,) as float64"""
    part = dataset.train if split == "train" else dataset.test
    if "gravity" not in part.laws:
        raise InputError(f"{dataset.path} has no law 'gravity'; its laws are {', '.join(part.laws) or 'none'}")
    return part.law[:, part.laws.index("gravity")].astype(float)


def _of_distribution(dataset: Dataset, gravities: np.ndarray, basis: str) -> np.ndarray | None:
    """L_law with the exact moments of the distribution that the training gravities were drawn from, if they are known."""
    sampler = dataset.settings.train.laws["gravity"]
    if not isinstance(sampler, laws.ClippedNormal) or not sampler.std > 0:
        return None
    # in standard units, for the digits
    floor = (sampler.floor - sampler.mean) / sampler.std
    psi = theory.BASES[basis]((gravities - sampler.mean) / sampler.std)
    moments = theory.clipped_normal(0.0, 1.0, floor, order=2 * theory.BASES[basis].m - 2)
    return theory.L_law(psi, theory.M_psi_of_moments(moments.raw))


def _verdict(times_home: float, beyond: float) -> str:
    if beyond > 0:
        return "far outside" if times_home > FAR else "outside"
    return "well covered" if times_home <= HOME else "thinly covered"


def in_words(found: dict[str, Any]) -> str:
    """One gravity's entry as a sentence."""
    away = f"{abs(found['deviations']):.1f} standard deviations {'above' if found['deviations'] > 0 else 'below'} the mean"
    words = f"{found['verdict']}: {away if abs(found['deviations']) >= 0.05 else 'at the mean'}"
    if found["beyond"] > 0:
        return f"{words}, {found['beyond']:.2f} {UNIT} beyond the last training gravity"
    return f"{words}, among the training gravities"


def as_text(found: dict[str, Any]) -> str:
    """What the command prints; every number of it is in the JSON too."""
    training, basis, home = found["training"], found["basis"], found["mean_L_law_of_training"]
    spread = f"mean {training['mean']:.3f}, std {training['std']:.3f}, {training['min']:.2f} to {training['max']:.2f} {UNIT}"
    lines = [
        f"{found['dataset']}: {training['episodes']} training gravities, {spread}",
        f"L_law in the {basis} basis {theory.BASES[basis]}; its mean over the training gravities is {home}",
        f"{'gravity':>9s}  {'L_law':>9s}  {'(exact)':>9s}  {'error':>8s}",
    ]
    for one in found["gravities"]:
        exact = one["L_law_of_distribution"]
        exact = "-" if exact is None else f"{exact:.4g}"
        factor = f"×{one['error_factor']:.3g}"
        lines.append(f"{one['gravity']:9g}  {one['L_law']:9.4g}  {exact:>9s}  {factor:>8s}  {in_words(one)}")
    lines += [
        "(exact): with the moments of the distribution the gravities were drawn from",
        "error: how many times its training average the one-step map's error can be, if truth and model follow this basis",
    ]
    return "\n".join(lines)
