"""Does a representation carry the dynamics that a policy needs? Diffusion policies on frozen features, in closed loop.

All policies are equal in everything but what they see: data, windows, network, updates, sampler, executed steps, test
episodes. References: the demonstrator above, holding still and random controls below; the policy that sees the true state,
which says what a representation costs; and the one that knows the robot's own state alone, which says what is reached
blindly. One policy is not told the law: is the difference in the features, or there?

A seed is a whole pipeline: the world model with that seed, and the policy on it with the same. Features of a foreign encoder
are the same whatever its world model has learned: one of a single update serves the policies of all seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sgjepa.core import threads
from sgjepa.core.stats import Interval
from sgjepa.core.tables import to_csv
from sgjepa.envs import ENVS
from sgjepa.experiments.arms import Arm, Policy, Reference, Training
from sgjepa.experiments.engine import Experiment
from sgjepa.policies.files import POSE, STATE
from sgjepa.recipes.policies import policy
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.control_tables import measures, points, verdict
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import difference_of, join, with_interval, with_sign
from sgjepa.results.claims import LEAST, Claims, measure
from sgjepa.results.control import SUCCESS, Played, Player
from sgjepa.results.paper_numbers import ablation

METHODS = ("gru", "lewm", "dino")  # whose features are compared
MORE = {"paper": ("ssm",)}  # which the paper has too
REFERENCES = ("expert", "still", "random")
TRIES = {"paper": 5}  # sampling seeds of each training; where there are several trainings, one of its own is enough
OURS = "SG-JEPA (GRU)"
TABLE = "tables/control.csv"
ROW = ("trainings", "all (%)", "in distribution (%)", "out of distribution (%)")


def worlds(size: str) -> list[str]:
    """Those with a task under laws that have the size."""
    declared = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.has_task and env.env_spec.nominal_law}
    return [name for name, spec in declared.items() if spec.defaults and size in spec.defaults.sizes]


def policy_arm(world: str, size: str, sees: str, **how: Any) -> Policy:
    """The size's policy in a world. sees: the end of its name. how: other fields of the arm."""
    return Policy(f"{world}_{sees}", policy(size, world), f"{world}-{size}", tries=TRIES.get(size, 1), **how)


def without_pictures(world: str, size: str) -> list[Policy]:
    """The policies on the robot's own state alone, and on the true state."""
    return [policy_arm(world, size, POSE, robot=True), policy_arm(world, size, STATE)]


def model(world: str, method: str, size: str) -> Training:
    """The world model whose features are compared; on a foreign encoder nothing is learned that a policy would see."""
    run = recipe(f"{world}_{method}", size)
    train = replace(run.train, decoder=False)
    return Training(replace(run, train=replace(train, epochs=1, updates=1) if run.model.foreign_encoder else train))


def arms(size: str) -> list[Arm]:
    """In every world the references and a policy on each method's features; with SG-JEPA's those that stand for all.

    Whether the law or the features make the difference is asked of SG-JEPA's.
    """
    found: list[Arm] = []
    for world in worlds(size):
        found += references(world, size)
        for method in (*METHODS, *MORE.get(size, ())):
            own = policy_arm(world, size, method, model=model(world, method, size))
            found.append(own)
            if method == "gru":
                blind = replace(own, name=f"{own.name}_nolaw", config=replace(own.config, law=False))
                found += [blind, *without_pictures(world, size)]
    return found


def references(world: str, size: str) -> list[Reference]:
    """What learns nothing."""
    return [Reference(kind, f"{world}-{size}", TRIES.get(size, 1)) for kind in REFERENCES]


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


EXPERIMENT = Experiment(
    name="control",
    question="Does a representation carry the dynamics that a policy needs?",
    claim="On SG-JEPA's features a policy succeeds more often than on DINO-WM's and LeWM's, and across gravities.",
    arms=arms,
    analyse=lambda done: summary(done.played),
    worlds=True,
)
