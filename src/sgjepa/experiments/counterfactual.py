"""Does a model use the law that it is given? The same frames with another law: the error should be lowest at the true one.

GRU and Transformer with SG-JEPA's loss, as in the paper, and LeWM. Test episodes of three true laws, each with five laws
given to the model (g = 2, 4, 6 and 0 to 8 in the paper's planar worlds; at mini size spread over the laws of Approach
Ball). The measure is the area under the NMSE over horizons, minus that with the true law.
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
VERDICT_WORDS = {WORSE: "larger", BETTER: "smaller", UNDECIDED: "not significant"}  # than with the true law


def analyse(evidence: Evidence) -> Answer:
    """Whether every wrong law increases the error, and whether it grows with the distance from the true law."""
    results, measured = evidence.results, counterfactuals(evidence.results)
    gru = next((arm for arm in results.arms if results.name(arm).endswith("_gru")), None)
    if not measured or gru is None:
        return answer(evidence, measured, 0.0, {})
    law, true = measured[0].law, measured[0].true[len(measured[0].true) // 2]
    return answer(evidence, measured, true, errors_by_given(results.evaluations(gru), law, true, MAIN))


def answer(
    evidence: Evidence,
    measured: Sequence[Counterfactual],
    middle: float,
    given_errors: Mapping[float, Mapping[int, Interval]],
) -> Answer:
    """The answer. given_errors: the GRU's position error by given law and horizon, if the true law is `middle`."""
    words: list[str] = []
    rows: list[tuple[Cell, ...]] = []
    records: list[dict[str, Any]] = []
    blocks: list[Block | None] = []
    axes = {axis.name: axis for axis in evidence.results.axes}
    for number, entry in enumerate(measured, start=1):
        words.append(sentence(entry))
        for true in entry.true:
            for fed in entry.fed(true):
                rise, area = entry.rise[true, fed], entry.area[true, fed]
                how = "true" if fed == true else VERDICT_WORDS[verdict(rise)]
                added = "0" if fed == true else rise
                rows.append((entry.label, str(entry.seeds), f"{true:g}", f"{fed:g}", area, added, how))
                about = {"method": entry.label, "law": entry.law, "seeds": entry.seeds, "true": true, "told": fed}
                numbers = {"area": area.mean, "rise": rise.mean, "low": rise.low, "high": rise.high, "error": how}
                records.append({**about, **numbers, "episodes": rise.count})
        if entry.law in axes:
            curves = {true: [(fed, entry.area[true, fed]) for fed in entry.fed(true)] for true in entry.true}
            # numbers that the report's own figures do not use
            blocks.append(figures.counterfactual(f"counterfactual_{number + 100}", entry.label, axes[entry.law], curves))
    by_given = {f"told {g:g}": [(float(h), error) for h, error in by_h.items()] for g, by_h in given_errors.items()}
    labels = (f"GRU, true law {middle:g}", "horizon h (steps)", "position error (m)")
    figure = figures.against_setting("counterfactual_by_horizon", *labels, by_given)
    blocks.append(figure)
    if not measured:
        words.append("No law differs between the test episodes, so no other law can be given to a model.")
    heads = ("method", "trainings", "true law", "told", "NMSE area", "minus that with the true law", "error")
    about_figures = Text("NMSE over horizons against the given law, a curve for each true one; a ring marks it.", True)
    table = main_table(heads, rows, "NMSE over horizons (trapezoid) with the given law.")
    blocks = [about_figures, *blocks, table, Data("counterfactual_rise", records)]
    return Answer("What a wrong law does", words, blocks, true_law_claims(evidence, measured))


def true_law_claims(evidence: Evidence, measured: Sequence[Counterfactual]) -> Claims:
    """For each method, the claim in the least certain pair of a true law and a given one."""
    claims: Claims = ()
    for entry in measured:
        rises = {pair: rise for pair, rise in entry.rise.items() if pair[0] != pair[1]}
        if not rises:
            continue
        true, fed = min(rises, key=lambda pair: (rises[pair].high >= 0, rises[pair].low))
        what = "NMSE area when told another law than the true one, minus that with the true one, in the least sure case"
        note = f"told {fed:g} instead of {true:g}, of {len(rises)} pairs"
        where = f"{evidence.results.world.replace('_', ' ')}, {entry.label}"
        claims += measure("true_law", where, what, rises[true, fed], "above", entry.seeds, note=note)
    return claims


def sentence(entry: Counterfactual) -> str:
    """A sentence on the number of wrong laws with a significantly larger error, and on the growth with distance."""
    rises = [verdict(rise) for (true, fed), rise in entry.rise.items() if true != fed]
    steps: list[bool] = []
    for true in entry.true:
        for side in (-1, 1):
            away = sorted((g for g in entry.fed(true) if (g - true) * side >= 0), key=lambda g: abs(g - true))
            errors = [entry.area[true, g].mean for g in away]
            steps += [after > before for before, after in pairwise(errors)]
    return (
        f"{entry.label}: the error is significantly larger with {rises.count(WORSE)} of {count(len(rises), 'wrong law')} "
        f"than with the true one, and grows in {sum(steps)} of {count(len(steps), 'step')} away from it."
    )


EXPERIMENT = Experiment(
    name="counterfactual",
    question="Does a model use the law that it is given?",
    claim="The error is lowest where the given law is the true one, with the GRU as with the Transformer.",
    arms=lambda size: [Training(recipe(f"{WORLDS[size]}_{method}", size)) for method in METHODS],
    analyse=analyse,
    counterfactual=True,
)
