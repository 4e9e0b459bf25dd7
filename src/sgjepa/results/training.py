"""Training curves and training costs of evaluated runs."""

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

TERMS = {  # names of the curves; the first two are the prediction terms of the two objectives
    "rollout": "prediction term: rollout",
    "one_step": "prediction term: one step",
    "sigreg": "SIGReg statistic",
    "rank": "effective rank of the latents",
}
MIN_POINTS = 3  # points needed for a curve


@dataclass(frozen=True)
class Cost:
    """The cost of a training: updates, and seconds over all its processes; with its settings and provenance."""

    folder: Path
    steps: int
    seconds: float
    settings: dict[str, Any]
    provenance: dict[str, Any]


def curve(evaluation: Evaluation, term: str, split: str = "validation") -> np.ndarray:
    """The training curve (n, 2) of a term of a run: step and value."""
    records = (r for r in run_folder.read(evaluation.run) if r.get("stage") == "train" and r.get("split") == split)
    return np.array([(r["step"], r[term]) for r in records if term in r], dtype=float).reshape(-1, 2)


def curves(runs: Sequence[Evaluation], term: str, shortest: int = MIN_POINTS) -> list[np.ndarray]:
    """The curves of a term, for each run that has it: on validation data if measured, else on training data."""
    each = [values if len(values := curve(evaluation, term)) else curve(evaluation, term, "train") for evaluation in runs]
    return [values for values in each if len(values) >= shortest and np.any(values[:, 1] != 0)]


def too_short(results: Results) -> list[str]:
    """The terms with too few points for a curve, such as "SIGReg statistic of LeWM"."""
    return [
        f"{name} of {arm}"
        for term, name in TERMS.items()
        for arm in results.arms
        if len(curves(results.evaluations(arm), term, shortest=1)) > len(curves(results.evaluations(arm), term))
    ]


def cost(evaluation: Evaluation) -> Cost:
    """The cost of a run's training, over all processes that continued it."""
    about = run_folder.about(evaluation.run)
    records = [record for record in run_folder.read(evaluation.run) if record.get("stage") == "train"]
    steps, seconds = (max((record[name] for record in records), default=0) for name in ("step", "seconds"))
    return Cost(evaluation.run, steps, seconds, about.config, about.provenance)


def peak_memory(evaluation: Evaluation) -> float:
    """The peak memory in GiB of the process that trained a run; not-a-number if unknown."""
    noted = (record.get("peak_memory") for record in run_folder.read(evaluation.run) if record.get("stage") == "process")
    return max((float(value) for value in noted if value is not None), default=math.nan)


def budget_words(costs: Sequence[Cost]) -> str:
    """A sentence on the training budgets and whether they were equal."""
    steps = sorted({cost.steps for cost in costs})
    seconds = sorted(cost.seconds for cost in costs)
    scale, unit, form = (1.0, "seconds", ".0f") if seconds[-1] < 90 else (60.0, "minutes", ".1f")
    first, last = (format(value / scale, form) for value in (seconds[0], seconds[-1]))
    span = f"{last} {unit}" if first == last else f"{first} to {last} {unit}"
    if len(steps) == 1:
        return f"{'All runs were' if len(costs) > 1 else 'The run was'} trained for {steps[0]:,} updates, in {span}."
    return f"The runs were not trained equally long: {steps[0]:,} to {steps[-1]:,} updates, in {span}."
