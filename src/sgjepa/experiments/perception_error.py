"""How well must a policy see? Policies that are shown the place of the ball, with an error, instead of features.

What lies between the true state and an arm that sees nothing: first the ball's speeds are left out, as a single picture
shows none, then its place gets errors of 5 to 80 mm in each direction; the robot's own pose is always known. So a policy on
features can be put on a scale. Errors here are new in every frame, so that a long look averages them; an encoder's may last.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sgjepa.core.stats import Interval
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Policy
from sgjepa.experiments.control import ROW, in_points, row_of, success_of, without_pictures, worlds
from sgjepa.experiments.engine import Experiment
from sgjepa.experiments.hyperparameters_policy import held_out_loss
from sgjepa.policies.files import POSE, STATE
from sgjepa.report.blocks import Cell, Data
from sgjepa.report.closed_loop import measure_records
from sgjepa.report.figures import against_setting
from sgjepa.report.words import fixed
from sgjepa.results.table import Results
from sgjepa.results.trials import SUCCESS, WITHOUT_PICTURES, position_within

ERRORS = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08)  # m
FULL, BLIND = WITHOUT_PICTURES[STATE], WITHOUT_PICTURES[POSE]


def arms(size: str) -> list[Policy]:
    """In every world the policy on the true state, those on positions with an error, and the one that sees nothing."""
    compared = []
    for world in worlds(size):
        blind, full = without_pictures(world, size)
        compared += [full, *(replace(full, name=f"{world}_place_{1000 * e:g}mm", position_error=e) for e in ERRORS), blind]
    return compared


def summary(evidence: Evidence) -> Answer:
    """Success by world and by what is seen, and up to which error it is more than that of an arm that sees nothing."""
    scale = {FULL: "state", **{position_within(error): f"{1000 * error:g}" for error in ERRORS}, BLIND: "blind"}
    tried = {arm for results in evidence.by_world.values() for arm in results.arms}
    places = {arm: float(place) for place, arm in enumerate(arm for arm in scale if arm in tried)}
    records: list[dict[str, Any]] = []
    rows: list[tuple[Cell, ...]] = []
    words: list[str] = []
    curves: dict[str, list[tuple[float, Interval]]] = {}
    for world, results in evidence.by_world.items():
        records += [{"world": world, **record} for record in measure_records(results)]
        for arm in (arm for arm in places if arm in results.arms):
            rows.append((*row_of(results, arm), fixed(held_out_loss(results, arm), 4)))
            curves.setdefault(world.replace("_", " "), []).append((places[arm], success_of(results, arm).percent()))
        words += _said(results)
    caption = (
        "Success on the test episodes, over episodes and, where there are several, trainings. Places are those of the ball, "
        "with normal errors of that standard deviation in each direction; all but the true state are told no speed of it. "
        "The loss is that of the noise in controls, on windows of held-out episodes."
    )
    names = {place: scale[arm] for arm, place in places.items()}
    what = ("perception_error", "On all test episodes", "error of the ball's place (mm)", "success (%)", curves)
    figure = against_setting(*what, names=names)
    table = main_table(("world", "sees", *ROW, "loss, held out"), rows, caption)
    return Answer("Success by what is seen", words, [figure, table, Data("perception_error", records)])


def _said(results: Results) -> list[str]:
    """What speeds are worth, and how far an error may go before an arm that sees nothing does as well."""
    world = results.world.replace("_", " ").capitalize()

    def gap(arm: str, other: str) -> Interval:
        return results.gap(arm, other, SUCCESS)

    words: list[str] = []
    exact, seeing = position_within(0.0), [arm for error in ERRORS if (arm := position_within(error)) in results.arms]
    if {FULL, exact} <= set(results.arms):
        adds = in_points(results, gap(FULL, exact), FULL, exact)
        words.append(f"{world}: with the ball's speeds besides its exact position a policy succeeds more often by {adds}.")
    if BLIND not in results.arms or not seeing:
        return words
    gaps = [gap(arm, BLIND) for arm in seeing]
    # up to the first that is not significant: one behind it may be ahead by chance
    sure = next((i for i, one in enumerate(gaps) if one.low <= 0), len(gaps))
    for i, ahead in ((sure - 1, "ahead"), (sure, "not significantly ahead")):
        if 0 <= i < len(gaps):
            words.append(f"{world}, {seeing[i]}: {ahead} of a blind arm ({in_points(results, gaps[i], seeing[i], BLIND)}).")
    return words


EXPERIMENT = Experiment(
    name="perception_error",
    question="How well must a policy see what it acts on?",
    claim="None of the paper's: it says what a representation would have to show.",
    arms=arms,
    analyse=summary,
    worlds=True,
)
