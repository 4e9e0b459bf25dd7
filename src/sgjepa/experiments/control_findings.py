"""What the study of control found: success by world and policy, what differences on the same episodes say, and claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgjepa.core import threads
from sgjepa.core.stats import Interval
from sgjepa.core.tables import to_csv
from sgjepa.report.content import Finding
from sgjepa.report.control_tables import measures, points, verdict
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import difference_of, join, with_interval, with_sign
from sgjepa.results.claims import LEAST, Claims, measure
from sgjepa.results.control import SUCCESS, Played, Player
from sgjepa.results.paper_numbers import ablation

OURS = "SG-JEPA (GRU)"
TABLE = "tables/control.csv"
ROW = ("trainings", "all (%)", "in distribution (%)", "out of distribution (%)")


def summary(played: Mapping[str, Played], ours: str = OURS) -> Finding:
    """Success by world and policy, in and out of distribution, and what the differences on the same episodes say.

    ours: the policy that the others are compared with. The paper has none that is told its pose.
    """
    records: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    words: list[str] = []
    claims: Claims = ()
    paper = ablation("control")["success"]
    curves: dict[str, list[tuple[float, Interval]]] = {}
    names = {float(place): world.replace("_", "\n") for place, world in enumerate(played)}
    for place, (world, one) in zip(names, played.items(), strict=True):
        records += [{"world": world, **record} for record in measures(one)]
        for player in one.players:
            cells, everywhere = row_of(one, player)
            said = paper.get(f"{world} {player.method}") if "told" not in player.label else None
            rows.append((*cells, "" if said is None else str(said)))
            curves.setdefault(player.label, []).append((place, everywhere))
        words += _said(world, one, ours)
        claims += _claims(world, one)
    head = ("world", "policy", *ROW, "paper, all (%)")
    caption = (
        "Success on the test episodes with 95 % intervals over episodes and, where there are several, trainings. The "
        "paper's numbers are there for scale: of its own size, scenes and launches."
    )
    drawn = tuple(against_setting("control_success", "On all test episodes", "", "success (%)", curves, names=names))
    title, about, more = "Success in closed loop", "Success with 95 % intervals.", {TABLE: to_csv(records)}
    return Finding(title, tuple(words), caption, head, tuple(rows), more, drawn, about, claims)


def row_of(played: Played, player: Player) -> tuple[tuple[str, ...], Interval]:
    """World, policy and ROW of a table; and success over all episodes, in per cent."""
    shown = {
        region: player.estimate(played.about.measures[0], played.region(region)).interval.percent()
        for region in played.regions
    }
    cells = (with_interval(shown[region], 1) if region in shown else "" for region in ("all", "in", "out"))
    trainings = "" if player.reference else str(len(player.trainings))
    return (played.world.replace("_", " "), player.label, trainings, *cells), shown["all"]


def _said(world: str, played: Played, name: str) -> list[str]:
    """SG-JEPA's policy against the others, over all episodes: how often it succeeds, and what is counted besides."""
    players = {player.label: player for player in played.players}
    ours = players.get(name)
    others = [player for player in played.players if player.label != name and not player.reference]
    if ours is None or not others:
        return []
    parts = [f"{_compared(played, ours, other)} the policy on {other.label}" for other in others]
    told = f"{more}," if (more := name.removeprefix(OURS)) else ""  # what it is told besides
    said = [f"{world.replace('_', ' ').capitalize()}: on SG-JEPA's features a policy{told} succeeds {join(parts)}."]
    for counted in played.compared[1:]:
        against = []
        for other in others:
            mean, low, high = difference_of(played.difference(ours, other, counted.name, played.region("all")), 2)
            against.append(f"{mean} ({low} to {high}) against the policy on {other.label}")
        said.append(f"Its {counted.name.replace('_', ' ')} per episode: {join(against)}.")
    return said


def _claims(world: str, played: Played) -> Claims:
    """SG-JEPA's policy against those on the features of the others, over all episodes, in points."""
    players = {player.label: player for player in played.players}
    ours, paper = players.get(OURS), ablation("control")["success"]
    claims: Claims = ()
    for label in ("LeWM", "DINO-WM"):
        other = next((player for name, player in players.items() if name.startswith(label)), None)
        if ours is None or other is None:
            continue
        gap = played.difference(ours, other, SUCCESS, played.region("all"))
        points = gap.percent()
        says = [paper.get(f"{world} {name}") for name in (OURS, label)]
        said = f"{with_sign(says[0] - says[1], 1)} points" if says[0] is not None and says[1] is not None else ""
        trainings = min(len(ours.trainings), len(other.trainings))
        what = f"success on SG-JEPA's features minus on {label}'s"
        where = world.replace("_", " ")
        claims += measure("control", where, what, points, "above", trainings, unit="points", paper=said)
    return claims


def _compared(played: Played, ours: Player, other: Player) -> str:
    gap = played.difference(ours, other, SUCCESS, played.region("all"))
    said = {"better": "more often than", "worse": "less often than", "undecided": "as often, as far as one can tell, as"}
    return f"{said[verdict(gap)]} ({in_points(gap, ours, other)})"


def in_points(gap: Interval, one: Player, other: Player) -> str:
    """A difference between two policies, and whether they were trained too seldom to say so."""
    trainings = min(len(one.trainings), len(other.trainings))
    few = f", {threads.counted(trainings, 'training')} each: not decided" if trainings < LEAST else ""
    mean, low, high = points(gap)
    return f"{mean} points, {low} to {high}{few}"
