"""Training curves from a run's rows, and what the training cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core import run_folder
from sgjepa.results.compare import Method
from sgjepa.results.evaluations import Evaluation

TERMS = {  # what the curves are called; the first two are the prediction term of the two objectives
    "rollout": "prediction term: rollout",
    "one_step": "prediction term: one step",
    "sigreg": "SIGReg statistic",
    "rank": "effective rank of the latents",
}


LEAST = 3  # points of a curve; fewer are no curve


@dataclass(frozen=True)
class Cost:
    """One run: updates, seconds of training (over all its processes), and its own record of where it came from."""

    folder: Path
    steps: int
    seconds: float
    settings: dict[str, Any]
    provenance: dict[str, Any]


def curve(one: Evaluation, term: str, split: str = "validation") -> np.ndarray:
    """(n, 2): step and value."""
    records = (r for r in run_folder.read(one.run) if r.get("stage") == "train" and r.get("split") == split)
    found = [(r["step"], r[term]) for r in records if term in r]
    return np.array(found, dtype=float).reshape(-1, 2)


def curves(method: Method, term: str, least: int = LEAST) -> list[np.ndarray]:
    """One per seed; validation where there is any, else what training noted. A method without the term has none."""
    found = []
    for one in method.seeds:
        values = curve(one, term)
        found.append(values if len(values) else curve(one, term, "train"))
    return [values for values in found if len(values) >= least and np.any(values[:, 1] != 0)]


def too_short(methods: Sequence[Method]) -> list[str]:
    """What was measured, but too seldom to be drawn as a curve: "SIGReg statistic of LeWM"."""
    return [
        f"{name} of {method.label}"
        for term, name in TERMS.items()
        for method in methods
        if len(curves(method, term, least=1)) > len(curves(method, term))
    ]


def cost(one: Evaluation) -> Cost:
    """Rows count the seconds of all processes that went on with the run."""
    about = run_folder.about(one.run)
    records = [record for record in run_folder.read(one.run) if record.get("stage") == "train"]
    steps, seconds = (max((record[name] for record in records), default=0) for name in ("step", "seconds"))
    return Cost(one.run, steps, seconds, about.config, about.provenance)


def peak_memory(one: Evaluation) -> float:
    """The most GiB that a study's process took to train it; not a number where none was noted."""
    noted = (record.get("peak_memory") for record in run_folder.read(one.run) if record.get("stage") == "process")
    return max((float(value) for value in noted if value is not None), default=math.nan)


def budget_words(costs: Sequence[Cost]) -> str:
    """Whether the trainings had equal budgets."""
    steps = sorted({one.steps for one in costs})
    seconds = sorted(one.seconds for one in costs)
    scale, unit, form = (1.0, "seconds", ".0f") if seconds[-1] < 90 else (60.0, "minutes", ".1f")
    first, last = (format(value / scale, form) for value in (seconds[0], seconds[-1]))
    span = f"{last} {unit}" if first == last else f"{first} to {last} {unit}"
    if len(steps) == 1:
        return f"{'All runs were' if len(costs) > 1 else 'The run was'} trained for {steps[0]:,} updates, in {span}."
    return f"The runs were not trained equally long: {steps[0]:,} to {steps[-1]:,} updates, in {span}."
