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

from sgjepa.evaluation.metrics import MAIN
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.experiments.sweep import probe_nmse
from sgjepa.experiments.sweep import rank as effective_rank
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Cell, Data
from sgjepa.report.words import fixed
from sgjepa.results.selection import MEAN
from sgjepa.results.training import cost
from sgjepa.training.config import Run

METHODS = {"gru": "SG-JEPA (GRU)", "lewm": "LeWM", "dino": "DINO-WM"}
WEIGHTS = (0.005, 0.01, 0.02, 0.045, 0.09, 0.18, 0.36)  # of one test over all frames of an update


@dataclass(frozen=True)
class Choice:
    """One point of the grid."""

    method: str
    weight: float  # 0 for DINO-WM, whose encoder is not trained
    residual: bool
    dropout: float

    def name(self, world: str) -> str:
        """The name of its run."""
        return f"{world}_{self.method}_w{self.weight:g}_{'residual' if self.residual else 'plain'}_d{self.dropout:g}"

    @property
    def label(self) -> str:
        how = "residual" if self.residual else "plain"
        return f"{METHODS[self.method]}, weight {self.weight:g}, {how}, dropout {self.dropout:g}"

    def run(self, size: str, world: str = "") -> Run:
        """The method's recipe with these settings; world: default the size's."""
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


def choose(evidence: Evidence) -> Answer:
    """The whole grid, and each method's best."""
    results = evidence.results
    tried = {choice: results.arm(name) for choice in GRID if evidence.has(name := choice.name(results.world))}
    errors = {choice: float(results.values(arm, MAIN).mean()) for choice, arm in tried.items()}
    rows, words = list[tuple[Cell, ...]](), list[str]()
    for method, label in METHODS.items():
        own = [choice for choice in tried if choice.method == method]
        if not own:  # not requested
            continue
        best = min(own, key=errors.__getitem__)
        for choice in own:
            curve = results.curve(tried[choice], MAIN)
            by_horizon = " / ".join(fixed(curve[h - 1].mean, 3) for h in results.steps)
            setting = (f"{choice.weight:g}", "yes" if choice.residual else "no", f"{choice.dropout:g}")
            floor, rank = probe_nmse(evidence, tried[choice]).mean(), effective_rank(evidence, tried[choice]).mean()
            numbers = (fixed(errors[choice], 3), by_horizon, fixed(floor, 4), fixed(rank, 1))
            rows.append((label, *setting, *numbers, "chosen" if choice is best else ""))
        how = f"weight {best.weight:g}, {'a' if best.residual else 'no'} residual step, dropout {best.dropout:g}"
        words.append(
            f"{label} does best with {how}: {fixed(errors[best], 3)} m over all horizons on "
            f"{results.count('all')} validation episodes, {len(own)} settings tried."
        )
    horizons = " / ".join(map(str, results.steps))
    heads = ("method", "weight", "residual", "dropout", "mean error (m)", f"at h = {horizons}", "probe NMSE", "rank", "")
    records = [_record(evidence, choice, arm) for choice, arm in tried.items()]
    table = main_table(heads, rows, "Every setting, on validation episodes.")
    return Answer("Every setting", words, [table, Data("hyperparameters", records)])


def _record(evidence: Evidence, choice: Choice, arm: str) -> dict[str, Any]:
    """All numbers of a setting."""
    results = evidence.results
    errors = results.mean(arm, MAIN, results.columns)
    velocity, stay, simulator = (
        results.mean(arm, metric, [MEAN], source)[MEAN].mean
        for metric, source in (("velocity_l2", "predicted"), (MAIN, "stay"), (MAIN, "simulator"))
    )
    return {
        "method": METHODS[choice.method],
        "weight": choice.weight,
        "residual": choice.residual,
        "dropout": choice.dropout,
        "updates": max(cost(run).steps for run in results.evaluations(arm)),
        "trainings": len(results.seeds(arm)),
        "episodes": results.count("all"),
        **{f"position_{h if h == MEAN else f'h{h}'}": round(error.mean, 4) for h, error in errors.items()},
        "velocity_mean": round(velocity, 4),
        "stay_mean": round(stay, 4),
        "simulator_mean": round(simulator, 4),
        "probe_nmse": round(float(probe_nmse(evidence, arm).mean()), 4),
        "effective_rank": round(float(effective_rank(evidence, arm).mean()), 2),
    }


EXPERIMENT = Experiment(
    name="hyperparameters",
    question="Which weight of SIGReg, residual step and dropout does each method want? (validation episodes)",
    claim="None of the paper's: it fixes what the other studies compare, with one grid for all methods.",
    arms=lambda size: [Training(choice.run(size), label=choice.label) for choice in GRID],
    analyse=choose,
    seeds=dict.fromkeys(WORLDS, 1),
    split="validation",
)
