"""Training curves of evaluated runs, and what their training took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core import run_folder
from sgjepa.results.evaluations import Evaluation
from sgjepa.results.table import Results

TERMS = {  # what the curves are called; the first two are the prediction term of the two objectives
    "rollout": "prediction term: rollout",
    "one_step": "prediction term: one step",
    "sigreg": "SIGReg statistic",
    "rank": "effective rank of the latents",
}
LEAST = 3  # points of a curve; fewer are no curve


@dataclass(frozen=True)
class Cost:
    """What a run took: updates, and seconds of training over all its processes; and its settings and provenance."""

    folder: Path
    steps: int
    seconds: float
    settings: dict[str, Any]
    provenance: dict[str, Any]


def curve(one: Evaluation, term: str, split: str = "validation") -> np.ndarray:
    """One term of a run's training, (n, 2): step and value."""
    records = (r for r in run_folder.read(one.run) if r.get("stage") == "train" and r.get("split") == split)
    return np.array([(r["step"], r[term]) for r in records if term in r], dtype=float).reshape(-1, 2)


def curves(runs: Sequence[Evaluation], term: str, least: int = LEAST) -> list[np.ndarray]:
    """A curve for each run that has the term: of validation where there is any, else of what training noted."""
    each = [values if len(values := curve(one, term)) else curve(one, term, "train") for one in runs]
    return [values for values in each if len(values) >= least and np.any(values[:, 1] != 0)]


def too_short(results: Results) -> list[str]:
    """What was measured, but too seldom to be drawn as a curve: "SIGReg statistic of LeWM"."""
    return [
        f"{name} of {arm}"
        for term, name in TERMS.items()
        for arm in results.arms
        if len(curves(results.evaluations(arm), term, least=1)) > len(curves(results.evaluations(arm), term))
    ]


def cost(one: Evaluation) -> Cost:
    """What the training of a run took; its rows count the seconds of all processes that went on with it."""
    about = run_folder.about(one.run)
    records = [record for record in run_folder.read(one.run) if record.get("stage") == "train"]
    steps, seconds = (max((record[name] for record in records), default=0) for name in ("step", "seconds"))
    return Cost(one.run, steps, seconds, about.config, about.provenance)


def peak_memory(one: Evaluation) -> float:
    """The most GiB that an experiment's process took to train a run; not a number where none was noted."""
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
