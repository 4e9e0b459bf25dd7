"""How much should later steps of the rollout count? Five discounts.

The paper asks it of Arm Catcher Ball, and takes 0.95. At mini and small size it is asked of Approach Ball, the world that
these sizes can decide; the discounts are the same, since five steps are fed back at every size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sgjepa.evaluation.metrics import METRICS
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.sweep import Column, Panel, Setting, error, sweep
from sgjepa.recipes.training import recipe
from sgjepa.report.words import measured, unit

DISCOUNTS = (0.90, 0.95, 0.98, 1.00, 1.05)


def settings(size: str) -> list[Setting]:
    """The GRU's recipe with each discount."""
    base = recipe(f"{'arm_catcher_ball' if size == 'paper' else 'approach_ball'}_gru", size)
    loss: Any = base.loss
    runs = {x: replace(base, name=f"{base.name}_discount{x:g}", loss=replace(loss, discount=x)) for x in DISCOUNTS}
    return [Setting(run, label=f"discount {x:g}", values=(f"{x:g}",), x=x) for x, run in runs.items()]


def columns(evidence: Evidence) -> list[Column]:
    """Errors at the last horizon."""
    last = evidence.results.horizons
    measured_columns = []
    for metric in ("nmse", "position_l2", "velocity_l2"):
        label = "NMSE" if metric == "nmse" else METRICS[metric].label
        head = f"{label} at h = {last}{f' ({unit(metric)})' if unit(metric) else ''}"
        panel = Panel(f"discount_{metric}", f"At h = {last}", measured(metric), "discount")
        measured_columns.append(Column(head, error(metric, last), panel=panel, judged=True))
    return measured_columns


EXPERIMENT = sweep(
    name="discount",
    question="How much should later steps of the rollout count?",
    claim="A discount of 0.95 errs least in the whole state at the last horizon.",
    settings=settings,
    heads=("discount",),
    columns=columns,
    caption="Rollouts on the test episodes.",
)
