"""Does the predictor matter where no law changes? Conventional benchmarks, planned by CEM on the latent (the paper's table).

Models that differ in the predictor alone, the same cases and the same search for all. References: random controls below, and
above them the search in the true simulator, which knows state and dynamics. Beside success stand the errors of the latents
on held-out clips, as a share of their variance too, and what a plan takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap
from sgjepa.core.tables import to_csv
from sgjepa.envs import ENVS
from sgjepa.experiments.arms import Arm, Planner, Reference, Training
from sgjepa.experiments.engine import Experiment
from sgjepa.policies.goal_tasks import Cases
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.control_tables import measures
from sgjepa.report.paper_plans import Latents, known_of
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import difference_of, fixed, with_interval, with_sign
from sgjepa.results.claims import LEAST, Claims, measure
from sgjepa.results.control import SUCCESS, Played, Player
from sgjepa.results.paper_numbers import published_plans

METHODS = ("transformer", "gru", "ssm")
REFERENCES = ("random", "simulator")
OLD, NEW = "SG-JEPA (Transformer)", ("SG-JEPA (GRU)", "SG-JEPA (SSM)")
LOST = -10.0  # points of success: what would be a material loss
TABLE = "tables/planning.csv"


def arms(size: str) -> list[Arm]:
    """In every world with a goal the references, and a model with each predictor."""
    declared = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.goal}
    worlds = [name for name, spec in declared.items() if spec.defaults and size in spec.defaults.sizes]
    found: list[Arm] = []
    for world in worlds:
        found += [Reference(kind, f"{world}-{size}", cases=Cases()) for kind in REFERENCES]
        for run in (recipe(f"{world}_{method}", size) for method in METHODS):
            found.append(Planner(Training(replace(run, train=replace(run.train, decoder=False))), Cases()))
    return found


def summary(played: Mapping[str, Played], latents: Latents) -> Finding:
    """latents: by the digest of a run's weights."""
    rows: list[tuple[str, ...]] = []
    records: list[dict[str, Any]] = []
    words: list[str] = []
    claims: Claims = ()
    curves: dict[str, list[tuple[float, Interval]]] = {}
    names = {float(place): world for place, world in enumerate(played)}
    for place, (world, one) in zip(names, played.items(), strict=True):
        records += [{"world": world, **record} for record in measures(one)]
        paper = published_plans(world)
        for player in one.players:
            method = player.method
            success = player.estimate(one.about.measures[0], one.region("all")).interval.percent()
            said = "" if method not in paper or player.reference else f"{paper[method].success:g}"
            trainings = "" if player.reference else str(len(player.trainings))
            rows.append(
                (world, method, trainings, with_interval(success, 1), *_errors(player, latents), _seconds(player), said)
            )
            curves.setdefault(method, []).append((place, success))
        words += _said(world, one)
        claims += _claims(world, one)
    errors = ("latent error (%)", "nothing changed (%)")
    head = ("world", "predictor", "trainings", "success (%)", *errors, "a plan takes (s)", "paper, success (%)")
    cases = next(iter(played.values())).first.episodes
    caption = (
        f"Success in {len(cases)} cases with 95 % intervals over cases and, where there are several, trainings. Errors of "
        "the latents after five predictions on held-out clips, and if nothing changed, are shares of their variance. The "
        "time of a plan is the median where it was made. The paper's success is of its own size."
    )
    drawn = tuple(against_setting("planning_success", "Cases solved", "", "success (%)", curves, names=names))
    title, about, more = "Success of planning", "Success with 95 % intervals.", {TABLE: to_csv(records)}
    return Finding(title, tuple(words), caption, head, tuple(rows), more, drawn, about, claims)


def _errors(player: Player, latents: Latents) -> tuple[str, str]:
    """After the last prediction, and if nothing changed, in per cent of the variance."""
    known = known_of(player, latents)
    if not known:
        return "", ""
    last, still = (
        np.stack([100 * getattr(one, name)[:, -1:] / one.variance for one in known]) for name in ("errors", "unchanged")
    )
    return with_interval(bootstrap(last)[0], 1), fixed(float(still.mean()), 1)


def _seconds(player: Player) -> str:
    return "" if player.latency is None else fixed(player.latency.median, 2)


def _gap(played: Played, label: str) -> tuple[Interval, int] | None:
    """Success with a predictor minus with the Transformer, in points, and of how many trainings."""
    players = {player.method: player for player in played.players}
    if label not in players or OLD not in players:
        return None
    one, other = players[label], players[OLD]
    gap = played.difference(one, other, SUCCESS, played.region("all")).percent()
    return gap, min(len(one.trainings), len(other.trainings))


def _said(world: str, played: Played) -> list[str]:
    words = []
    for label in NEW:
        if (found := _gap(played, label)) is None:
            continue
        gap, trainings = found
        if trainings < LEAST:
            verdict = f"not decided with {'one training' if trainings == 1 else f'{trainings} trainings'} each"
        elif gap.low > LOST:
            verdict = "no material loss"
        else:
            verdict = "a material loss" if gap.high < LOST else "not decided"
        mean, low, high = difference_of(gap, 1)
        ends = f"{mean} points, {low} to {high}"
        words.append(
            f"{world.capitalize()}: {label} minus {OLD} {ends}; {verdict}. Material would be more than {-LOST:g} points."
        )
    return words


def _claims(world: str, played: Played) -> Claims:
    claims: Claims = ()
    paper = published_plans(world)
    for label in NEW:
        if (found := _gap(played, label)) is None:
            continue
        said = f"{with_sign(paper[label].success - paper[OLD].success, 0)} points" if label in paper and OLD in paper else ""
        what = f"success with {label} minus with {OLD}"
        claims += measure("planning", world, what, found[0], "above", found[1], bound=LOST, unit="points", paper=said)
    return claims


EXPERIMENT = Experiment(
    name="planning",
    question="Does the predictor matter where no law changes? (Reacher and Cube, planned)",
    claim="On conventional tasks a GRU or an SSM plans as well as the Transformer, and the GRU's plans take the shortest.",
    arms=arms,
    analyse=lambda done: summary(done.played, done.latents),
    worlds=True,
)
