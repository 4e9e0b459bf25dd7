"""Coverage: L_law, which says how far a law lies outside the laws of a dataset's training episodes.

With several laws, the basis is built from all of them. A law that varies neither in training nor in the points is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from sgjepa import laws
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.provenance import provenance
from sgjepa.data.store import Dataset, training_samplers
from sgjepa.theory import coverage as theory

# in units of L_law's mean over the training laws: 1.7 and 4.4 standard deviations for the affine basis of one law
HOME, FAR = 2.0, 10.0


def coverage_curve(
    training: np.ndarray, points: np.ndarray, basis: str = "affine", names: Sequence[str] = ("gravity",)
) -> np.ndarray:
    """L_law of each point, (k,); `stats.spearman` gives its rank correlation with an error.

    training: (n, L), or (n,) for one law   points: (k, L) or (k,)   names: of the L laws
    """
    if basis not in theory.BASES:
        raise unknown("basis", basis, theory.BASES)
    training, points = (np.asarray(x, float).reshape(len(x), -1) for x in (training, points))
    middle, spread = training.mean(axis=0), training.std(axis=0)
    still = ~(spread > 1e-9 * np.maximum(1.0, np.abs(middle)))
    for i in np.flatnonzero(still & (points != training[0]).any(axis=0)).tolist():
        law = laws.get_law(names[i])
        raise InputError(
            f"the training {law.plural_label} do not vary (all {training[0, i]:g} {law.unit}): "
            f"coverage of any other {law.name} is not defined"
        )
    training, points, middle, spread = training[:, ~still], points[:, ~still], middle[~still], spread[~still]
    psi = theory.Monomials(training.shape[1], theory.BASES[basis].m - 1)
    # laws enter as (g - mean)/spread: the same L_law in exact arithmetic, and no digits lost in g²
    design = psi((training - middle) / spread)
    if theory.covered_directions(design) < psi.m:
        count, name = len(np.unique(training, axis=0)), laws.get_law(names[0]).plural_label if len(names) == 1 else "laws"
        formula = theory.BASES[basis] if len(names) == 1 else f"of {psi.m} terms"
        raise InputError(f"{count} different training {name} cannot cover the {basis} basis {formula}; take --basis affine")
    return len(training) * theory.leverage(psi((points - middle) / spread), design)


def coverage_of(dataset: Dataset) -> dict[str, list[Any]] | None:
    """L_law of every law vector among the test episodes, for JSON; None without laws or where L_law is not defined."""
    points = np.unique(dataset.test.law.astype(np.float64), axis=0)
    try:
        curve = coverage_curve(dataset.train.law, points, names=dataset.test.laws) if dataset.test.laws else None
    except InputError:
        return None
    return None if curve is None else {"laws": points.tolist(), "L_law": curve.tolist()}


def examine(dataset: Dataset, values: Mapping[str, Sequence[float]] | None = None, basis: str = "affine") -> dict[str, Any]:
    """Coverage of all combinations of law values (default: the dataset's test laws), for text and JSON.

    A law without values stays at its training mean.
    """
    names, training = dataset.train.laws, dataset.train.law.astype(float)
    if not names:
        raise InputError(f"{dataset.path} has no laws: coverage is not defined")
    for name in values or {}:
        if name not in names:
            raise InputError(f"{dataset.path} has no law '{name}'; its laws are {', '.join(names)}")
    points = _points(dataset, values)
    curve = coverage_curve(training, points, basis, names)
    exact = _of_distribution(dataset, points, basis)
    mean, std, low, high = training.mean(0), training.std(0), training.min(0), training.max(0)
    size = _size(training, basis)
    rows = []
    for i, point in enumerate(points):
        deviations = (point - mean) / np.where(std > 0, std, 1.0)
        beyond = np.maximum(np.maximum(low - point, point - high), 0.0)
        rows.append(
            {
                **dict(zip(names, point.tolist(), strict=True)),
                "L_law": float(curve[i]),
                "L_law_of_distribution": None if exact is None else float(exact[i]),
                "error_factor": float(np.sqrt(curve[i])),
                "deviations": dict(zip(names, deviations.tolist(), strict=True)),
                "beyond": dict(zip(names, beyond.tolist(), strict=True)),
                "verdict": _verdict(float(curve[i]) / size, float(beyond.max())),
            }
        )
    spread = {
        name: {"mean": float(mean[i]), "std": float(std[i]), "min": float(low[i]), "max": float(high[i])}
        for i, name in enumerate(names)
    }
    return {
        "dataset": str(dataset.path),
        "basis": basis,
        "mean_L_law_of_training": size,
        "training": {"episodes": len(training), **spread},
        "laws": rows,
        "provenance": provenance(),
    }


def _points(dataset: Dataset, values: Mapping[str, Sequence[float]] | None) -> np.ndarray:
    """The law vectors to examine, (k, L)."""
    if values is None:
        return np.unique(dataset.test.law.astype(float), axis=0)
    checked = {name: [laws.check({name: value})[name] for value in entries] for name, entries in values.items()}
    means = dict(zip(dataset.train.laws, dataset.train.law.astype(float).mean(axis=0).tolist(), strict=True))
    return np.array(list(product(*(checked.get(name, [mean]) for name, mean in means.items()))))


def _size(training: np.ndarray, basis: str) -> int:
    """The number of terms of the basis, which is L_law's mean over the training laws."""
    return theory.Monomials(int((training.std(axis=0) > 0).sum()), theory.BASES[basis].m - 1).m


def _of_distribution(dataset: Dataset, points: np.ndarray, basis: str) -> np.ndarray | None:
    """L_law with the exact moments of the distribution that one law was drawn from, if they are known."""
    samplers = list(training_samplers(dataset).values())
    psi = theory.BASES[basis]
    moments = samplers[0].moments(2 * psi.m - 2) if len(samplers) == 1 else None
    if moments is None:
        return None
    # in standard units, for numerical precision
    return theory.L_law(psi((points[:, 0] - samplers[0].mean) / samplers[0].std), theory.M_psi_of_moments(moments))


def _verdict(times_home: float, beyond: float) -> str:
    if beyond > 0:
        return "far outside" if times_home > FAR else "outside"
    return "well covered" if times_home <= HOME else "thinly covered"


def in_words(entry: dict[str, Any]) -> str:
    """An entry of the report as text; with several laws, a part for each."""
    parts = []
    for name, away in entry["deviations"].items():
        side = f"{abs(away):.1f} standard deviations {'above' if away > 0 else 'below'} the mean"
        words = side if abs(away) >= 0.05 else "at the mean"
        law, beyond = laws.get_law(name), entry["beyond"][name]
        if beyond > 0:
            words += f", {beyond:.2f} {law.unit} beyond the last training {law.name}"
        else:
            words += f", among the training {law.plural_label}"
        parts.append(words if len(entry["deviations"]) == 1 else f"{name} {words}")
    return f"{entry['verdict']}: {'; '.join(parts)}"


def as_text(report: dict[str, Any]) -> str:
    """The report as text; every number in it is in the JSON too."""
    training, basis, home = report["training"], report["basis"], report["mean_L_law_of_training"]
    names = [name for name in training if name != "episodes"]
    lines = []
    for name in names:
        law, stats = laws.get_law(name), training[name]
        spread = f"mean {stats['mean']:.3f}, std {stats['std']:.3f}, {stats['min']:.2f} to {stats['max']:.2f} {law.unit}"
        lines.append(f"{report['dataset']}: {training['episodes']} training {law.plural_label}, {spread}")
    formula = f" {theory.BASES[basis]}" if len(names) == 1 else ""
    several = laws.get_law(names[0]).plural_label if len(names) == 1 else "laws"
    lines += [
        f"L_law in the {basis} basis{formula}; its mean over the training {several} is {home}",
        "  ".join([*(f"{name:>9s}" for name in names), f"{'L_law':>9s}", f"{'(exact)':>9s}", f"{'error':>8s}"]),
    ]
    for entry in report["laws"]:
        exact = entry["L_law_of_distribution"]
        exact = "-" if exact is None else f"{exact:.4g}"
        factor = f"×{entry['error_factor']:.3g}"
        values = [*(f"{entry[name]:9g}" for name in names), f"{entry['L_law']:9.4g}", f"{exact:>9s}", f"{factor:>8s}"]
        lines.append("  ".join([*values, in_words(entry)]))
    lines += [
        f"(exact): with the moments of the distribution the {several} were drawn from",
        "error: how many times its training average the one-step map's error can be, if truth and model follow this basis",
    ]
    return "\n".join(lines)
