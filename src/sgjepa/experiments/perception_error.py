"""How well must a policy see? Policies that are shown the place of the ball, with an error, instead of features.

What lies between the true state and an arm that sees nothing: first the ball's speeds are left out, as a single picture
shows none, then its place gets errors of 5 to 80 mm in each direction; the robot's own pose is always known. So a policy on
features can be put on a scale. Errors here are new in every frame, so that a long look averages them; an encoder's may last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sgjepa.core.stats import Interval
from sgjepa.core.tables import to_csv
from sgjepa.experiments.arms import Policy
from sgjepa.experiments.control import ROW, in_points, row_of, without_pictures, worlds
from sgjepa.experiments.engine import Experiment
from sgjepa.experiments.hyperparameters_policy import held_out_loss
from sgjepa.policies.files import POSE, STATE
from sgjepa.report.content import Finding
from sgjepa.report.control_tables import measures
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import fixed
from sgjepa.results.control import SUCCESS, WITHOUT_PICTURES, Played, Player, place_within

BLURS = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08)  # m
TABLE = "tables/perception_error.csv"
_FULL, _BLIND = WITHOUT_PICTURES[STATE], WITHOUT_PICTURES[POSE]


def arms(size: str) -> list[Policy]:
    """In every world the policy on the true state, those on positions with an error, and the one that sees nothing."""
    found = []
    for world in worlds(size):
        blind, full = without_pictures(world, size)
        found += [full, *(replace(full, name=f"{world}_place_{1000 * e:g}mm", position_error=e) for e in BLURS), blind]
    return found


def summary(played: Mapping[str, Played]) -> Finding:
    """Success by world and by what is seen, and up to which error it is more than that of an arm that sees nothing."""
    scale = {_FULL: "state", **{place_within(blur): f"{1000 * blur:g}" for blur in BLURS}, _BLIND: "blind"}
    there = {player.label for one in played.values() for player in one.players}
    places = {label: float(place) for place, label in enumerate(label for label in scale if label in there)}
    records: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    words: list[str] = []
    curves: dict[str, list[tuple[float, Interval]]] = {}
    for world, one in played.items():
        records += [{"world": world, **record} for record in measures(one)]
        players = {player.label: player for player in one.players}
        for label, place in places.items():
            if label in players:
                cells, everywhere = row_of(one, players[label])
                rows.append((*cells, fixed(held_out_loss(players[label]), 4)))
                curves.setdefault(cells[0], []).append((place, everywhere))
        words += _said(world.replace("_", " ").capitalize(), one, players)
    head = ("world", "sees", *ROW, "loss, held out")
    caption = (
        "Success on the test episodes with 95 % intervals over episodes and, where there are several, trainings. Places are "
        "those of the ball, with normal errors of that standard deviation in each direction; all but the true state are "
        "told no speed of it. The loss is that of the noise in controls, on windows of held-out episodes."
    )
    what = ("perception_error", "On all test episodes", "error of the ball's place (mm)", "success (%)")
    drawn = tuple(against_setting(*what, curves, names={place: scale[label] for label, place in places.items()}))
    more = {TABLE: to_csv(records)}
    return Finding("Success by what is seen", tuple(words), caption, head, tuple(rows), more, drawn, "With 95 % intervals.")


def _said(world: str, one: Played, players: Mapping[str, Player]) -> list[str]:
    """What speeds are worth, and how far an error may go before an arm that sees nothing does as well."""

    def gap(player: Player, other: Player) -> Interval:
        return one.difference(player, other, SUCCESS, one.region("all"))

    said: list[str] = []
    exact, blind = players.get(place_within(0.0)), players.get(_BLIND)
    if exact is not None and (full := players.get(_FULL)) is not None:
        adds = in_points(gap(full, exact), full, exact)
        said.append(f"{world}: with the ball's speeds besides its exact place a policy succeeds more often by {adds}.")
    seeing = [players[label] for blur in BLURS if (label := place_within(blur)) in players]
    if blind is None or not seeing:
        return said
    gaps = [gap(player, blind) for player in seeing]
    # up to the first that is not certain: one behind it may be ahead by chance
    sure = next((i for i, found in enumerate(gaps) if found.low <= 0), len(gaps))
    if sure:
        adds = in_points(gaps[sure - 1], seeing[sure - 1], blind)
        said.append(f"{world}, {seeing[sure - 1].label}: ahead of a blind arm ({adds}).")
    if sure < len(gaps):
        adds = in_points(gaps[sure], seeing[sure], blind)
        said.append(f"{world}, {seeing[sure].label}: not certainly ahead of a blind arm ({adds}).")
    return said


EXPERIMENT = Experiment(
    name="perception_error",
    question="How well must a policy see what it acts on?",
    claim="None of the paper's: it says what a representation would have to show.",
    arms=arms,
    analyse=lambda done: summary(done.played),
    worlds=True,
)
