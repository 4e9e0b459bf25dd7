"""Does a model use the law that it is told? The same frames with another law: the error should be least at the true one.

GRU and Transformer with SG-JEPA's loss, as in the paper, and LeWM beside them. Test episodes of three true laws, five laws
told to each (g = 2, 4, 6 and 0 to 8 in the paper's planar worlds; at mini size spread over the laws of Approach Ball). The
measure is the area under the NMSE over horizons, minus that with the true law.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from sgjepa.core.stats import Interval
from sgjepa.core.tables import to_csv
from sgjepa.experiments import sweep
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.law_figures import counterfactual as drawn
from sgjepa.report.panels import Picture
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import count, counterfactual, fixed, join
from sgjepa.results.claims import Claims, measure
from sgjepa.results.compare import verdict
from sgjepa.results.counterfactual import Counterfactual, counterfactuals, told_by_horizon
from sgjepa.results.gather import MAIN

METHODS = ("gru", "transformer", "lewm")
TABLE = "tables/counterfactual_rise.csv"
SAID = {"worse": "larger", "better": "smaller", "undecided": "not certain"}  # than with the true law


def analyse(done: Done) -> Finding:
    """The report's section."""
    found = counterfactuals(done.results)
    ours = next((method for method in done.results.methods if method.name.endswith("_gru")), None)
    told: dict[float, dict[int, Interval]] = {}
    true = math.nan
    if found and ours is not None:
        law, true = found[0].law, found[0].true[len(found[0].true) // 2]
        told = told_by_horizon(ours, law, true, MAIN)
    return finding(done, found, true, told)


def finding(done: Done, found: list[Counterfactual], middle: float, told: Mapping[float, Mapping[int, Interval]]) -> Finding:
    """Is every other law worse, and does the error grow with the distance of what is told from what holds?

    told: the GRU's position error by told law and horizon, in episodes whose true law is `middle`.
    """
    words: list[str] = []
    rows: list[tuple[str, ...]] = []
    records: list[dict[str, Any]] = []
    pictures: list[Picture] = []
    for number, one in enumerate(found, start=1):
        words += [counterfactual(one), farther(one)]
        for true in one.true:
            for given in one.given(true):
                rise, area = one.rise[true, given], one.area[true, given]
                how = "true" if given == true else SAID[verdict(rise)]
                shown = f"{fixed(rise.mean, 3)} ({fixed(rise.low, 3)} to {fixed(rise.high, 3)})" if given != true else "0"
                rows.append((one.label, str(one.seeds), f"{true:g}", f"{given:g}", fixed(area.mean, 3), shown, how))
                numbers = {"area": area.mean, "rise": rise.mean, "low": rise.low, "high": rise.high, "error": how}
                about = {"method": one.label, "law": one.law, "seeds": one.seeds, "true": true, "told": given}
                records.append({**about, **numbers, "episodes": rise.count})
        for axis in done.results.axes:
            pictures += drawn(axis, one, number + 100) if axis.name == one.law else []  # apart from the report's own
    if told:
        words.append(_lowest(middle, told))
        curves = {
            f"told {given:g}": [(float(h), one) for h, one in by_horizon.items()] for given, by_horizon in told.items()
        }
        title, measured = f"GRU, true law {middle:g}", "position error (m)"
        pictures += against_setting("counterfactual_by_horizon", title, "horizon h (steps)", measured, curves)
    if not found:
        words.append("No law differs between the test episodes: there is nothing else that a model could be told.")
    head = ("method", "trainings", "true law", "told", "NMSE area", "minus that with the true law", "error")
    caption = sweep.caption("counterfactual", "NMSE over horizons (trapezoid) with the law that is told.")
    more = {TABLE: to_csv(records)} if records else {}
    shown = "NMSE over horizons against the law that is told, a curve for each true one; a ring marks it."
    title = "Does a model use the law that it is told?"
    return Finding(
        title, (*words, *sweep.once(done)), caption, head, tuple(rows), more, tuple(pictures), shown, least(done, found)
    )


def least(done: Done, found: list[Counterfactual]) -> Claims:
    """Of each method the least sure pair of a true law and a told one; one in which the told law certainly wins, if any."""
    claims: Claims = ()
    for one in found:
        rises = {pair: rise for pair, rise in one.rise.items() if pair[0] != pair[1]}
        if not rises:
            continue
        true, given = min(rises, key=lambda pair: (rises[pair].high >= 0, rises[pair].low))
        what = "NMSE area when told another law than the true one, minus that with the true one, in the least sure case"
        note = f"told {given:g} instead of {true:g}, of {len(rises)} pairs"
        where = f"{done.results.world.replace('_', ' ')}, {one.label}"
        claims += measure("true_law", where, what, rises[true, given], "above", one.seeds, note=note)
    return claims


def _lowest(true: float, told: Mapping[float, Mapping[int, Interval]]) -> str:
    """At how many horizons is the mean position error lowest with the true law?"""
    horizons = list(told[true])
    least = [min(told, key=lambda given: told[given][h].mean) == true for h in horizons]
    shown = join([str(h) for h in horizons])
    return (
        f"SG-JEPA (GRU), true law {true:g}: the mean position error is lowest with the true law at {sum(least)} of "
        f"{count(len(horizons), 'horizon')} (h = {shown})."
    )


def farther(one: Counterfactual) -> str:
    """Of neighbouring told laws on one side of the true one, how often does the farther one err more?"""
    steps: list[bool] = []
    for true in one.true:
        for side in (-1, 1):
            away = sorted((g for g in one.given(true) if (g - true) * side >= 0), key=lambda g: abs(g - true))
            errors = [one.area[true, g].mean for g in away]
            steps += [after > before for before, after in pairwise(errors)]
    grown = sum(steps)
    told = join([f"{value:g}" for value in one.true])
    return (
        f"{one.label}: of {count(len(steps), 'step')} of what is told away from the true law ({told}), "
        f"{grown} {'makes' if grown == 1 else 'make'} the mean error larger."
    )


EXPERIMENT = Experiment(
    name="counterfactual",
    question="Does a model use the law that it is told?",
    claim="The error is least where the law that is told is the true one, with the GRU as with the Transformer.",
    arms=lambda size: [Training(recipe(f"{WORLDS[size]}_{method}", size)) for method in METHODS],
    analyse=analyse,
    counterfactual=True,
)
