"""Does a representation carry the dynamics? Diffusion policies on frozen features, in closed loop, in the three arm worlds.

All policies are equal in everything but what they look at: data, windows, network, updates, sampler, executed steps, test
episodes. References: the demonstrator above, holding still and random controls below, and the policy that sees the true
state, which says what a representation costs. One policy is not told the law: is the difference in the features, or there?

A seed is a whole pipeline: the world model with that seed, and the policy on it with the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sgjepa.core import machine
from sgjepa.core.progress import progress
from sgjepa.core.workers import pool, submit
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS
from sgjepa.recipes.policies import policy
from sgjepa.recipes.training import recipe
from sgjepa.report.control import write_control
from sgjepa.report.overview import overview
from sgjepa.results.control import gather_trials
from sgjepa.results.verdicts import LEAST, write_claims
from sgjepa.studies.asked import Asked
from sgjepa.studies.cells import Cell, chosen
from sgjepa.studies.chains import Chain, run_chains
from sgjepa.studies.control_findings import summary
from sgjepa.studies.study import Study, planned

METHODS = ("gru", "lewm", "dino")  # whose features are compared
STATE = "state"
REFERENCES = ("expert", "still", "random")
TRIES = {"mini": 2, "paper": 5}  # sampling seeds of a policy


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
        seeds = {"mini": LEAST}.get(size, 1) if asked.seeds is None else asked.seeds
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
    from sgjepa.control.trial import trial, untrained

    dataset = open_dataset(data)
    subjects = [untrained(name, dataset, out) for name in REFERENCES]
    return [
        trial(subject, dataset, sampling, processes=machine.cores())
        for subject in subjects
        for sampling in range(2 if subject.policy.by_chance else 1)
    ]


STUDY = ControlStudy()
