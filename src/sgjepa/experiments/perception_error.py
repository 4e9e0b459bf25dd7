"""How accurate must observations be? Policies on the ball's position with an error, instead of features.

The arms lie between the true state and proprioception only: first the ball's velocities are left out, because a single
picture has none, then its position gets errors of 5 to 80 mm along each axis; proprioception is always exact. This gives a
scale for policies on features. Errors are independent between frames, so that a history averages them; an encoder's need not
be.
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
    """In every world the policy on the true state, those on positions with an error, and the one on proprioception only."""
    compared = []
    for world in worlds(size):
        blind, full = without_pictures(world, size)
        compared += [full, *(replace(full, name=f"{world}_place_{1000 * e:g}mm", position_error=e) for e in ERRORS), blind]
    return compared


def summary(evidence: Evidence) -> Answer:
    """Success by world and observation, and the largest error with significantly more success than proprioception only."""
    scale = {FULL: "state", **{position_within(error): f"{1000 * error:g}" for error in ERRORS}, BLIND: "blind"}
    tried = {arm for results in evidence.by_world.values() for arm in results.arms}
    positions = {arm: float(x) for x, arm in enumerate(arm for arm in scale if arm in tried)}
    records: list[dict[str, Any]] = []
    rows: list[tuple[Cell, ...]] = []
    words: list[str] = []
    curves: dict[str, list[tuple[float, Interval]]] = {}
    for world, results in evidence.by_world.items():
        records += [{"world": world, **record} for record in measure_records(results)]
        for arm in (arm for arm in positions if arm in results.arms):
            rows.append((*row_of(results, arm), fixed(held_out_loss(results, arm), 4)))
            curves.setdefault(world.replace("_", " "), []).append((positions[arm], success_of(results, arm).percent()))
        words += _sentences(results)
    caption = (
        "Success on the test episodes, over episodes and, where there are several, trainings. Positions of the ball have "
        "normal errors of that standard deviation along each axis; only the true state has its velocity. "
        "The loss is that of the noise in controls, on windows of held-out episodes."
    )
    names = {x: scale[arm] for arm, x in positions.items()}
    what = ("perception_error", "On all test episodes", "error of the ball's position (mm)", "success (%)", curves)
    figure = against_setting(*what, names=names)
    table = main_table(("world", "sees", *ROW, "loss, held out"), rows, caption)
    return Answer("Success by what is seen", words, [figure, table, Data("perception_error", records)])


def _sentences(results: Results) -> list[str]:
    """Sentences on the value of velocities, and on the largest error with an advantage over proprioception only."""
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
    # up to the first that is not significant: a later one may be ahead by chance
    sure = next((i for i, interval in enumerate(gaps) if interval.low <= 0), len(gaps))
    for i, ahead in ((sure - 1, "ahead"), (sure, "not significantly ahead")):
        if 0 <= i < len(gaps):
            words.append(f"{world}, {seeing[i]}: {ahead} of a blind arm ({in_points(results, gaps[i], seeing[i], BLIND)}).")
    return words


EXPERIMENT = Experiment(
    name="perception_error",
    question="How accurate must a policy's observations be?",
    claim="None of the paper's: it measures the accuracy that a representation needs.",
    arms=arms,
    analyse=summary,
    worlds=True,
)
