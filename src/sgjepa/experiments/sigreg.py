"""How strong should SIGReg be? Five weights: the raw statistic, the effective rank, probes, and the error by law.

The paper takes 0.09 to 1.44 on the square, twice as much each time, and chooses 0.72. Its own size has that grid. The sizes
for a CPU have one test over all frames of an update, whose weight is another one: they take the grid from which their
recipes' weight was chosen (experiments/hyperparameters.py), 0.01 to 0.18, so that the two share trainings. At mini size the
world is Approach Ball.

A low statistic alone says little: it measures agreement with a Gaussian, not how many directions carry something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sgjepa.evaluation.metrics import MAIN, METRICS
from sgjepa.experiments import sweep
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.arms import world_of
from sgjepa.experiments.engine import WORLDS
from sgjepa.experiments.sweep import Column, Measured, Panel, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report import figures
from sgjepa.report.blocks import Block
from sgjepa.report.words import measured as named
from sgjepa.results.claims import Claims, measure
from sgjepa.results.training import curve

WEIGHTS = {"paper": (0.09, 0.18, 0.36, 0.72, 1.44)}
ON_CPU = (0.01, 0.02, 0.045, 0.09, 0.18)  # of one test over all frames of an update, the recipe's among them
HORIZONS = (5, 20, 44)
RANK = "effective rank"


def settings(size: str) -> list[Setting]:
    """The GRU's recipe with each weight."""
    base = recipe(f"{WORLDS[size]}_gru", size)
    arms = []
    for weight in WEIGHTS.get(size, ON_CPU):
        run = replace(base, name=f"{base.name}_w{weight:g}", loss=replace(base.loss, sigreg=weight))
        arms.append(Setting(run, label=f"weight {weight:g}", values=(f"{weight:g}",), x=weight))
    return arms


def statistic(evidence: Evidence, arm: str) -> np.ndarray:
    """SIGReg itself, before weighting, at the last validation."""
    return np.array([curve(run, "sigreg")[-1, 1] for run in evidence.results.evaluations(arm)])


def columns(evidence: Evidence) -> list[Column]:
    """Statistic, rank, probes and rollouts."""
    weight, horizons = "weight of SIGReg", sweep.up_to_last(evidence, HORIZONS)
    probes = Panel("sigreg_probes", "Probes", "NMSE on validation frames", weight, log=True)
    return [
        Column("SIGReg statistic", statistic, 3, Panel("sigreg_statistic", "Statistic", "SIGReg statistic", weight, True)),
        Column(RANK, sweep.rank, 1, Panel("sigreg_rank", "Rank", RANK, weight, True)),
        Column("linear probe NMSE", sweep.linear_nmse, 4, probes, "linear probe", judged=True),
        Column("probe NMSE", sweep.probe_nmse, 4, probes, "MLP probe"),
        *(Column(f"NMSE at h = {h}", sweep.error("nmse", h), judged=h == horizons[-1]) for h in horizons),
        Column(f"position error at h = {horizons[-1]} (m)", sweep.error(MAIN, horizons[-1])),
    ]


def grows(evidence: Evidence, measured: Measured) -> tuple[Sequence[str], Sequence[Block | None], Claims]:
    """What a doubling of the weight adds to the effective rank, up to the recipe's weight; and the errors by law."""
    results, blocks = evidence.results, list[Block | None]()
    for axis in results.axes[:1]:
        for h in sweep.up_to_last(evidence, HORIZONS):
            curves = {arm: list(results.by_law(arm, "nmse", h, [axis.name]).values()) for arm in results.arms}
            title = f"{METRICS['nmse'].label} at h = {h}"
            blocks.append(figures.by_law(f"nmse_by_{axis.name}_h{h}", title, named("nmse"), axis, curves))
    return (), blocks, rank_claim(evidence, measured)


def rank_claim(evidence: Evidence, measured: Measured) -> Claims:
    """Slope of the effective rank over log2 of the weight, for each training seed; none for a single weight."""
    first = next(iter(measured.values()))[0].run.data[0]
    chosen = recipe(f"{world_of(first)}_gru", first.rpartition("-")[2]).loss.sigreg * (1 + 1e-6)
    ranks = {setting.x: values[RANK] for setting, values in measured.values() if setting.x <= chosen}
    if len(ranks) < 2:
        return ()
    slopes = np.array([np.polyfit(np.log2(list(ranks)), row, 1)[0] for row in zip(*ranks.values(), strict=False)])
    what = "what a doubling of the weight adds to the effective rank, up to the recipe's weight"
    where = evidence.results.world.replace("_", " ")
    return measure("rank", where, what, sweep.over_trainings(slopes), "above", len(slopes))


EXPERIMENT = sweep.sweep(
    name="sigreg",
    question="How strong should SIGReg be?",
    claim="The effective rank grows with the weight up to a point, which also has the best linear probe.",
    settings=settings,
    heads=("weight",),
    columns=columns,
    caption="Every weight, last validation and test episodes.",
    more=grows,
    seeds=sweep.THRICE,
)
