"""Does a model use the law that it is told? The same frames with another law: the error should be least at the true one.

GRU and Transformer with SG-JEPA's loss, as in the paper, and LeWM beside them. Test episodes of three true laws, five laws
told to each (g = 2, 4, 6 and 0 to 8 in the paper's planar worlds; at mini size spread over the laws of Approach Ball). The
measure is the area under the NMSE over horizons, minus that with the true law.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sgjepa.core.stats import Interval
from sgjepa.evaluation.metrics import MAIN
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.recipes.training import recipe
from sgjepa.report import figures
from sgjepa.report.blocks import Block, Cell, Data, Text
from sgjepa.report.words import count
from sgjepa.results.claims import BETTER, UNDECIDED, WORSE, Claims, measure, verdict
from sgjepa.results.counterfactual import Counterfactual, counterfactuals, errors_by_given

METHODS = ("gru", "transformer", "lewm")
SAID = {WORSE: "larger", BETTER: "smaller", UNDECIDED: "not significant"}  # than with the true law


def analyse(evidence: Evidence) -> Answer:
    """Is every other law worse, and does the error grow with the distance of what is told from what holds?"""
    results, measured = evidence.results, counterfactuals(evidence.results)
    ours = next((arm for arm in results.arms if results.name(arm).endswith("_gru")), None)
    if not measured or ours is None:
        return answer(evidence, measured, 0.0, {})
    law, true = measured[0].law, measured[0].true[len(measured[0].true) // 2]
    return answer(evidence, measured, true, errors_by_given(results.evaluations(ours), law, true, MAIN))


def answer(
    evidence: Evidence,
    measured: Sequence[Counterfactual],
    middle: float,
    given_errors: Mapping[float, Mapping[int, Interval]],
) -> Answer:
    """given_errors: the GRU's position error by told law and horizon, in episodes whose true law is `middle`."""
    words: list[str] = []
    rows: list[tuple[Cell, ...]] = []
    records: list[dict[str, Any]] = []
    blocks: list[Block | None] = []
    axes = {axis.name: axis for axis in evidence.results.axes}
    for number, one in enumerate(measured, start=1):
        words.append(sentence(one))
        for true in one.true:
            for given in one.fed(true):
                rise, area = one.rise[true, given], one.area[true, given]
                how = "true" if given == true else SAID[verdict(rise)]
                added = "0" if given == true else rise
                rows.append((one.label, str(one.seeds), f"{true:g}", f"{given:g}", area, added, how))
                about = {"method": one.label, "law": one.law, "seeds": one.seeds, "true": true, "told": given}
                numbers = {"area": area.mean, "rise": rise.mean, "low": rise.low, "high": rise.high, "error": how}
                records.append({**about, **numbers, "episodes": rise.count})
        if one.law in axes:
            curves = {true: [(given, one.area[true, given]) for given in one.fed(true)] for true in one.true}
            # numbered apart from the report's own
            blocks.append(figures.counterfactual(f"counterfactual_{number + 100}", one.label, axes[one.law], curves))
    by_given = {f"told {g:g}": [(float(h), one) for h, one in by_h.items()] for g, by_h in given_errors.items()}
    labels = (f"GRU, true law {middle:g}", "horizon h (steps)", "position error (m)")
    figure = figures.against_setting("counterfactual_by_horizon", *labels, by_given)
    blocks.append(figure)
    if not measured:
        words.append("No law differs between the test episodes: there is nothing else that a model could be told.")
    heads = ("method", "trainings", "true law", "told", "NMSE area", "minus that with the true law", "error")
    about_figures = Text(
        "NMSE over horizons against the law that is told, a curve for each true one; a ring marks it.", True
    )
    table = main_table(heads, rows, "NMSE over horizons (trapezoid) with the law that is told.")
    blocks = [about_figures, *blocks, table, Data("counterfactual_rise", records)]
    return Answer("What a wrong law does", words, blocks, least(evidence, measured))


def least(evidence: Evidence, measured: Sequence[Counterfactual]) -> Claims:
    """Of each method the least sure pair of a true law and a told one; one in which the told law certainly wins, if any."""
    claims: Claims = ()
    for one in measured:
        rises = {pair: rise for pair, rise in one.rise.items() if pair[0] != pair[1]}
        if not rises:
            continue
        true, given = min(rises, key=lambda pair: (rises[pair].high >= 0, rises[pair].low))
        what = "NMSE area when told another law than the true one, minus that with the true one, in the least sure case"
        note = f"told {given:g} instead of {true:g}, of {len(rises)} pairs"
        where = f"{evidence.results.world.replace('_', ' ')}, {one.label}"
        claims += measure("true_law", where, what, rises[true, given], "above", one.seeds, note=note)
    return claims


def sentence(one: Counterfactual) -> str:
    """How many wrong laws make the error significantly larger, and how often a farther one errs more than a nearer."""
    rises = [verdict(rise) for (true, given), rise in one.rise.items() if true != given]
    steps: list[bool] = []
    for true in one.true:
        for side in (-1, 1):
            away = sorted((g for g in one.fed(true) if (g - true) * side >= 0), key=lambda g: abs(g - true))
            errors = [one.area[true, g].mean for g in away]
            steps += [after > before for before, after in pairwise(errors)]
    return (
        f"{one.label}: the error is significantly larger with {rises.count(WORSE)} of {count(len(rises), 'wrong law')} than "
        f"with the true one, and grows in {sum(steps)} of {count(len(steps), 'step')} away from it."
    )


EXPERIMENT = Experiment(
    name="counterfactual",
    question="Does a model use the law that it is told?",
    claim="The error is least where the law that is told is the true one, with the GRU as with the Transformer.",
    arms=lambda size: [Training(recipe(f"{WORLDS[size]}_{method}", size)) for method in METHODS],
    analyse=analyse,
    counterfactual=True,
)
