"""How much should later steps of the rollout count? Five discounts.

The paper asks it of Arm Catcher Ball, and takes 0.95. At mini and small size it is asked of Approach Ball, the world that
these sizes can decide; the discounts are the same, since five steps are fed back at every size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sgjepa.data.probe_targets import METRICS
from sgjepa.experiments import sweep
from sgjepa.experiments.engine import Done, Experiment
from sgjepa.experiments.sweep import Column, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.panels import axis_name
from sgjepa.report.sweep_figures import against_setting
from sgjepa.results.gather import MAIN, unit

WORLDS = {"mini": "approach_ball", "small": "approach_ball", "paper": "arm_catcher_ball"}
DISCOUNTS = (0.90, 0.95, 0.98, 1.00, 1.05)
TABLE = "tables/discount.csv"


def points(size: str) -> list[Setting]:
    """The GRU's recipe with each discount."""
    base = recipe(f"{WORLDS[size]}_gru", size)
    loss: Any = base.loss
    return [
        Setting(
            replace(base, name=f"{base.name}_discount{discount:g}", loss=replace(loss, discount=discount)),
            label=f"discount {discount:g}",
            values=(f"{discount:g}",),
            x=discount,
        )
        for discount in DISCOUNTS
    ]


def analyse(done: Done) -> Finding:
    """The report's section: which discount errs least at the last horizon, in the whole state and in its parts?"""
    found = list(sweep.there(done, points, list(WORLDS)).values())
    methods, last = [method for _, method in found], done.results.last
    metrics = [metric for metric in ("nmse", MAIN, "velocity_l2") if metric in done.results.metrics]
    columns = [Column(_head(metric, last), sweep.error(metric, last)) for metric in metrics]
    head, rows, text = sweep.table("discount", ("discount",), columns, found)
    pictures = [
        picture
        for metric in metrics
        for picture in against_setting(
            f"discount_{metric}",
            f"{METRICS[metric]} at h = {last}",
            "discount",
            axis_name(metric),
            {METRICS[metric]: [(point.x, method.at(metric, [last])[last]) for point, method in found]},
        )
    ]
    words = (*(sweep.least(methods, metric, last) for metric in metrics), *sweep.once(done))
    title, about = "Which discount?", sweep.caption("discount", f"Rollouts on the test episodes at h = {last}.")
    shown = "Error at the last horizon against the discount; whiskers are 95 % intervals."
    return Finding(title, words, about, head, rows, {TABLE: text}, tuple(pictures), shown)


def _head(metric: str, horizon: int) -> str:
    name = "NMSE" if metric == "nmse" else METRICS[metric]
    return f"{name} at h = {horizon}" + (f" ({unit(metric)})" if unit(metric) else "")


EXPERIMENT = Experiment(
    name="discount",
    question="How much should later steps of the rollout count?",
    claim="A discount of 0.95 errs least in the whole state at the last horizon.",
    arms=points,
    analyse=analyse,
    seeds=dict.fromkeys(WORLDS, 1),
)
