"""Which weight of SIGReg, residual prediction and dropout does each method want at a size? Decided on validation episodes.

One grid for all methods, so that no baseline is left weak. At mini size it is asked of Approach Ball, the world in which
that size can decide: 1 m lies there between standing still and the simulator from the probed state at h = 44. The small size
is for the square, where a body's angle has to stay in the latents. Each method's choice is the lowest position error of the
rollout, averaged over all horizons; the probe's own error stands beside it, since a weight that is too small drops what is
hard to foretell from the latents. The probe is the evaluation's own: a linear one cannot read the square's angle, which the
latents hold in curved ways.

Reacher has a grid of its own: what a ball wants spreads its latents over far more directions than an arm of two links has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from sgjepa.core.tables import to_csv
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.words import fixed
from sgjepa.results.compare import MEAN, Method
from sgjepa.results.gather import MAIN
from sgjepa.training.config import Run

METHODS = {"gru": "SG-JEPA (GRU)", "lewm": "LeWM", "dino": "DINO-WM"}
WEIGHTS = (0.005, 0.01, 0.02, 0.045, 0.09, 0.18, 0.36)  # of one test over all frames of an update
TABLE = "tables/hyperparameters.csv"


@dataclass(frozen=True)
class Choice:
    """One point of the grid."""

    method: str
    weight: float  # 0 for DINO-WM, whose encoder is not trained
    residual: bool
    dropout: float

    def name(self, world: str) -> str:
        """Of its run."""
        return f"{world}_{self.method}_w{self.weight:g}_{'residual' if self.residual else 'plain'}_d{self.dropout:g}"

    @property
    def label(self) -> str:
        how = "residual" if self.residual else "plain"
        return f"{METHODS[self.method]}, weight {self.weight:g}, {how}, dropout {self.dropout:g}"

    def run(self, size: str, world: str = "") -> Run:
        """The method's recipe with these settings; in the size's own world if not told."""
        world = world or WORLDS[size]
        run = recipe(f"{world}_{self.method}", size)
        model: Any = replace(run.model, residual=self.residual)
        if self.method == "dino":
            model = replace(model, dropout=self.dropout)
        else:
            model = replace(model, predictor=replace(model.predictor, dropout=self.dropout))
        return replace(run, name=self.name(world), model=model, loss=replace(run.loss, sigreg=self.weight))


# the two usual corners first: a search that is stopped early has seen every weight
_CORNERS = ((False, 0.1), (True, 0.0), (True, 0.1), (False, 0.0))
GRID = [Choice(m, weight, *corner) for corner, weight, m in product(_CORNERS, WEIGHTS, ("gru", "lewm"))]
GRID += [Choice("dino", 0.0, *corner) for corner in _CORNERS]


def choose(done: Done) -> Finding:
    """The report's section: the whole grid, and each method's best."""
    by_name = {method.name: method for method in done.results.methods}
    names = {choice: choice.name(done.results.world) for choice in GRID}
    found = {choice: by_name[name] for choice, name in names.items() if name in by_name}
    rows, words = [], []
    for name, label in METHODS.items():
        tried = [choice for choice in GRID if choice.method == name and choice in found]
        if not tried:  # it was not asked for
            continue
        best = min(tried, key=lambda choice: error(found[choice]))
        for choice in tried:
            method = found[choice]
            by_horizon = " / ".join(fixed(method.by_horizon(MAIN)[h - 1].mean, 3) for h in done.results.horizons)
            floor, rank = (_mean(method, key) for key in ("nmse", "rank"))
            mark = "chosen" if choice is best else ""
            setting = (f"{choice.weight:g}", "yes" if choice.residual else "no", f"{choice.dropout:g}")
            rows.append((label, *setting, fixed(error(method), 3), by_horizon, fixed(floor, 4), fixed(rank, 1), mark))
        how = f"weight {best.weight:g}, {'a' if best.residual else 'no'} residual step, dropout {best.dropout:g}"
        words.append(
            f"{label} does best with {how}: {fixed(error(found[best]), 3)} m over all horizons on "
            f"{done.results.episodes('all')} validation episodes, {len(tried)} settings tried."
        )
    horizons = " / ".join(map(str, done.results.horizons))
    head = ("method", "weight", "residual", "dropout", "mean error (m)", f"at h = {horizons}", "probe NMSE", "rank", "")
    more = {TABLE: to_csv([_record(choice, method, done) for choice, method in found.items()])}
    return Finding("Which settings?", tuple(words), "Every setting, on validation episodes.", head, tuple(rows), more)


def _record(choice: Choice, method: Method, done: Done) -> dict[str, Any]:
    """All numbers of a setting."""
    runs = [job.updates for job in done.jobs if job.folder in {one.run for one in method.seeds}]
    errors = method.at(MAIN, done.results.columns)
    velocity, stay, simulator = (
        method.at(metric, [MEAN], source)[MEAN].mean
        for metric, source in (("velocity_l2", "predicted"), (MAIN, "stay"), (MAIN, "simulator"))
    )
    return {
        "method": METHODS[choice.method],
        "weight": choice.weight,
        "residual": choice.residual,
        "dropout": choice.dropout,
        "updates": max(runs, default=0),
        "trainings": len(method.seeds),
        "episodes": done.results.episodes("all"),
        **{f"position_{h if h == MEAN else f'h{h}'}": round(one.mean, 4) for h, one in errors.items()},
        "velocity_mean": round(velocity, 4),
        "stay_mean": round(stay, 4),
        "simulator_mean": round(simulator, 4),
        "probe_nmse": round(_mean(method, "nmse"), 4),
        "effective_rank": round(_mean(method, "rank"), 2),
    }


def error(method: Method) -> float:
    """Position error of the rollout, over all episodes and horizons."""
    return float(method.stack(MAIN).mean())


def _mean(method: Method, key: str) -> float:
    scores = [one.about.scores for one in method.seeds]
    values = {"nmse": [s.probe["validation_nmse"] for s in scores], "rank": [s.effective_rank for s in scores]}
    return float(np.mean(values[key]))


EXPERIMENT = Experiment(
    name="hyperparameters",
    question="Which weight of SIGReg, residual step and dropout does each method want? (validation episodes)",
    claim="None of the paper's: it fixes what the other studies compare, with one grid for all methods.",
    arms=lambda size: [Training(choice.run(size), label=choice.label) for choice in GRID],
    analyse=choose,
    seeds=dict.fromkeys(WORLDS, 1),
    split="validation",
)
