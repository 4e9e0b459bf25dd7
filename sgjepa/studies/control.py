"""Does a representation carry the dynamics? Diffusion policies on frozen features, in closed loop, in the three arm worlds.

All policies are equal in everything but what they look at: data, windows, network, updates, sampler, executed steps, test
episodes. References: the demonstrator above, holding still and random controls below, and the policy that sees the true
state, which says what a representation costs. One policy is not told the law: is the difference in the features, or there?

A seed is a whole pipeline: the world model with that seed, and the policy on it with the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sgjepa.core import machine
from sgjepa.core.progress import progress
from sgjepa.core.stats import Interval
from sgjepa.core.tables import to_csv
from sgjepa.core.workers import pool, submit
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS
from sgjepa.recipes.policies import policy
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.control import write_control
from sgjepa.report.control_tables import measures
from sgjepa.report.overview import overview
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import join
from sgjepa.results.compare import verdict
from sgjepa.results.control import SUCCESS, Played, Player, gather_trials
from sgjepa.results.published import ablation
from sgjepa.results.verdicts import Claims, measure, write_claims
from sgjepa.studies.asked import Asked
from sgjepa.studies.cells import Cell, chosen
from sgjepa.studies.chains import Chain, run_chains
from sgjepa.studies.study import Study, planned

METHODS = ("gru", "lewm", "dino")  # whose features are compared
OURS = "SG-JEPA (GRU)"
STATE = "state"
REFERENCES = ("expert", "still", "random")
TRIES = {"mini": 2, "paper": 5}  # sampling seeds of a policy
TABLE = "tables/control.csv"


@dataclass(frozen=True)
class Pupil:
    """One policy to be trained and tried. run: the world model it sees through; None for the true state."""

    run: Path | None
    law: bool
    seed: int
    folder: Path
    size: str
    updates: int | None
    tries: int
    data: Path


@dataclass(frozen=True)
class ControlStudy:
    """As `Study`, for policies."""

    name: str = "control"
    question: str = "Does a representation carry the dynamics that a policy needs?"
    claim: str = "On SG-JEPA's features a policy succeeds more often than on DINO-WM's and LeWM's, and across gravities."

    @property
    def command(self) -> str:
        return f"sgjepa study {self.name}"

    def run(self, asked: Asked) -> Path:
        """Train the world models, then the policies, try all, and write a page for each world and one over all.

        updates: of world models and policies. only: patterns of the runs' names.
        """
        size, out, datasets = asked.size, asked.out, asked.datasets
        seeds = {"mini": 2}.get(size, 1) if asked.seeds is None else asked.seeds
        cells = chosen(models(size), asked.only)
        chains = planned(Study(self.name, self.question, self.claim, lambda _: cells), cells, asked, seeds)
        if asked.runs is not None:
            print("  policies follow, each trained and tried in closed loop; their time is not counted", flush=True)
        run_chains([replace(chain, evaluated=False) for chain in chains], datasets, asked.workers)
        by_world: dict[str, list[Pupil]] = {}
        for chain in chains:
            world = chain.run.data[0].rpartition("-")[0]  # a dataset's usual name is WORLD-SIZE
            by_world.setdefault(world, []).extend(pupils(chain, asked))
        places = teach([pupil for some in by_world.values() for pupil in some], asked.workers)
        pages, played = {}, {}
        for world, taught in by_world.items():
            place_ = out / f"report-{world}"
            tried = [*_references(taught[0].data, place_), *(place for pupil in taught for place in places[pupil.folder])]
            played[world] = gather_trials(tried)
            pages[world] = write_control(played[world], place_, self.command, ("references",))
        found = summary(played)
        page = overview(found, self.question, self.claim, pages, out / "report", self.command)
        write_claims(page.parent, self.name, size, asked.updates, asked.command(self.name, seeds), found.claims)
        return page


def models(size: str) -> list[Cell]:
    """The world models whose features are compared, in every world with a task under laws."""
    declared = {name: env.world for name, env in ENVS.items() if env.world.succeeds and env.world.nominal_law}
    worlds = [name for name, world in declared.items() if world.usual and size in world.usual.sizes]
    return [Cell(_without_decoder(f"{world}_{method}", size)) for world in worlds for method in METHODS]


def _without_decoder(name: str, size: str) -> Any:
    run = recipe(name, size)
    return replace(run, train=replace(run.train, decoder=False))


def pupils(chain: Chain, asked: Asked) -> list[Pupil]:
    """The policies that see through a world model; with SG-JEPA's come the one that is not told the law and the state's."""
    name, data, size, updates = chain.name, asked.datasets / chain.run.data[0], asked.size, asked.updates
    eyes: list[tuple[Path | None, bool, str]] = [(chain.folder, True, name)]
    if name.endswith("_gru"):
        eyes += [(chain.folder, False, f"{name}_nolaw"), (None, True, f"{name.removesuffix('_gru')}_{STATE}")]
    made = asked.out / "policies"
    return [
        Pupil(
            run, law, chain.run.seed, made / f"{name}-{size}-seed{chain.run.seed}", size, updates, TRIES.get(size, 1), data
        )
        for run, law, name in eyes
    ]


def teach(pupils: Sequence[Pupil], processes: int | None) -> dict[Path, list[Path]]:
    """Train and try policies, one process per core; returns the trials of each."""
    found: dict[Path, list[Path]] = {}
    with pool(min(len(pupils), processes or machine.cores())) as school:
        calls = submit(school, _teach, *((pupil,) for pupil in pupils))
        with progress(len(pupils), 0, "policies trained and tried", "policies") as bar:
            for call in as_completed(calls):
                folder, places = call.result()
                found[folder] = places
                bar.update(1)
    return found


def _teach(pupil: Pupil) -> tuple[Path, list[Path]]:
    """In a process of its own."""
    machine.prepare()
    import torch

    from sgjepa.control.features import open_features
    from sgjepa.control.learn import train_policy
    from sgjepa.control.trained import trained
    from sgjepa.control.trial import trial
    from sgjepa.envs import find

    torch.set_num_threads(1)
    dataset = open_dataset(pupil.data)
    cfg = replace(policy(pupil.size), seed=pupil.seed, law=pupil.law)
    cfg = cfg if pupil.updates is None else replace(cfg, updates=pupil.updates)
    features = open_features(pupil.run, find(dataset.settings.world).world)
    train_policy(cfg, features, dataset, pupil.folder)
    subject = trained(pupil.folder, dataset)
    return pupil.folder, [trial(subject, dataset, sampling) for sampling in range(pupil.tries)]


def _references(data: Path, out: Path) -> list[Path]:
    from sgjepa.control.simple import BY_CHANCE
    from sgjepa.control.trial import trial, untrained

    dataset = open_dataset(data)
    tries = {name: 2 if name in BY_CHANCE else 1 for name in REFERENCES}
    subjects = {name: untrained(name, dataset, out) for name in REFERENCES}
    return [
        trial(subjects[name], dataset, sampling, processes=machine.cores())
        for name, count in tries.items()
        for sampling in range(count)
    ]


def summary(played: Mapping[str, Played]) -> Finding:
    """Success by world and policy, in and out of distribution, and what the differences on the same episodes say."""
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
            shown = (player.estimate(one.about.measures[0], one.region(region)).interval for region in one.regions)
            cells = {region: _percent(interval) for region, interval in zip(one.regions, shown, strict=True)}
            trainings = "" if player.reference else str(len(player.trainings))
            regions = (cells.get(region, "") for region in ("all", "in", "out"))
            said = paper.get(f"{world} {player.label.partition(',')[0]}") if "not told" not in player.label else None
            rows.append((world.replace("_", " "), player.label, trainings, *regions, "" if said is None else str(said)))
            success = player.estimate(one.about.measures[0], one.region("all")).interval
            curves.setdefault(player.label, []).append((place, _points(success)))
        words += _said(world, one)
        claims += _claims(world, one)
    head = ("world", "policy", "trainings", "all (%)", "in distribution (%)", "out of distribution (%)", "paper, all (%)")
    caption = "Success on the test episodes with 95 % intervals over episodes and, where there are several, trainings."
    drawn = tuple(against_setting("control_success", "On all test episodes", "", "success (%)", curves, names=names))
    title, about, more = "Success in closed loop", "Success with 95 % intervals.", {TABLE: to_csv(records)}
    return Finding(title, tuple(words), caption, head, tuple(rows), more, drawn, about, claims)


def _said(world: str, played: Played) -> list[str]:
    """SG-JEPA's policy against the others, over all episodes."""
    players = {player.label: player for player in played.players}
    ours = players.get(OURS)
    if ours is None:
        return []
    parts = []
    for label, other in players.items():
        if label != ours.label and not other.reference:
            parts.append(f"{_compared(played, ours, other)} the policy on {label}")
    return (
        [f"{world.replace('_', ' ').capitalize()}: on SG-JEPA's features a policy succeeds {join(parts)}."] if parts else []
    )


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
        points = _points(gap)
        says = [paper.get(f"{world} {name}") for name in (OURS, label)]
        said = f"{says[0] - says[1]:+.1f} points" if says[0] is not None and says[1] is not None else ""
        trainings = min(len(ours.trainings), len(other.trainings))
        what = f"success on SG-JEPA's features minus on {label}'s"
        where = world.replace("_", " ")
        claims += measure("control", where, what, points, "above", trainings, unit="points", paper=said)
    return claims


def _compared(played: Played, ours: Player, other: Player) -> str:
    gap = played.difference(ours, other, SUCCESS, played.region("all"))
    low, high = 100 * gap.low, 100 * gap.high
    # a larger share is better, a larger error worse
    said = {"better": "less often than", "worse": "more often than", "undecided": "as often, as far as one can tell, as"}
    return f"{said[verdict(gap)]} ({100 * gap.mean:+.1f} points, {low:+.1f} to {high:+.1f})"


def _points(one: Interval) -> Interval:
    """In per cent."""
    return Interval(100 * one.mean, 100 * one.low, 100 * one.high, one.count)


def _percent(one: Interval) -> str:
    return f"{100 * one.mean:.1f} ({100 * one.low:.1f} to {100 * one.high:.1f})"


STUDY = ControlStudy()
