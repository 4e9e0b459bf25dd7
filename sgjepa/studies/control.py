"""Does a representation carry the dynamics? Diffusion policies on frozen features, in closed loop, in the three arm worlds.

All policies are equal in everything but what they look at: data, windows, network, updates, sampler, executed steps, test
episodes. References: the demonstrator above, holding still and random controls below, and the policy that sees the true
state, which says what a representation costs. One policy is not told the law: is the difference in the features, or there?

A seed is a whole pipeline: the world model with that seed, and the policy on it with the same. Features of a foreign encoder
are the same whatever its world model has learned: that one is trained once, and policies of all seeds look through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgjepa.core import machine
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS
from sgjepa.recipes.policies import policy
from sgjepa.recipes.training import recipe
from sgjepa.report.control import write_control
from sgjepa.report.overview import overview
from sgjepa.results.control import gather_trials
from sgjepa.results.verdicts import LEAST, write_claims
from sgjepa.studies.asked import Asked, Question
from sgjepa.studies.cells import Cell, chosen
from sgjepa.studies.chains import Chain, run_chains
from sgjepa.studies.control_findings import summary
from sgjepa.studies.school import Pupil, teach
from sgjepa.studies.study import Study, planned

METHODS = ("gru", "lewm", "dino")  # whose features are compared
STATE = "state"
REFERENCES = ("expert", "still", "random")
TRIES = {"mini": 2, "paper": 5}  # sampling seeds of a policy


class ControlStudy(Question):
    """As `Study`, for policies."""

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
        eyes = eyes_of(chains)
        trained = dict.fromkeys(eyes.values())
        run_chains([replace(chain, evaluated=False) for chain in trained], datasets, asked.workers)
        by_world: dict[str, list[Pupil]] = {}
        for chain, eye in eyes.items():
            world = chain.run.data[0].rpartition("-")[0]  # a dataset's usual name is WORLD-SIZE
            by_world.setdefault(world, []).extend(pupils(chain, eye.folder, asked))
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


def worlds(size: str) -> list[str]:
    """Those with a task under laws that have the size."""
    declared = {name: env.world for name, env in ENVS.items() if env.world.succeeds and env.world.nominal_law}
    return [name for name, world in declared.items() if world.usual and size in world.usual.sizes]


def models(size: str) -> list[Cell]:
    """The world models whose features are compared."""
    return [Cell(_without_decoder(f"{world}_{method}", size)) for world in worlds(size) for method in METHODS]


def _without_decoder(name: str, size: str) -> Any:
    run = recipe(name, size)
    return replace(run, train=replace(run.train, decoder=False))


def eyes_of(chains: Sequence[Chain]) -> dict[Chain, Chain]:
    """For each training that is asked for the one whose features its policies see: with a foreign encoder, the first."""
    first = {chain.name: chain for chain in reversed(chains)}
    return {chain: chain if chain.run.model.foreign_encoder is None else first[chain.name] for chain in chains}


def pupils(chain: Chain, eye: Path, asked: Asked) -> list[Pupil]:
    """The policies that see through a world model; with SG-JEPA's come the one that is not told the law and the state's.

    eye: the run whose features they see.
    """
    name, data, seed = chain.name, asked.datasets / chain.run.data[0], chain.run.seed
    settings = replace(policy(asked.size), seed=seed)
    settings = settings if asked.updates is None else replace(settings, updates=asked.updates)
    eyes: list[tuple[Path | None, bool, str]] = [(eye, True, name)]
    if name.endswith("_gru"):
        eyes += [(eye, False, f"{name}_nolaw"), (None, True, f"{name.removesuffix('_gru')}_{STATE}")]
    made, tries = asked.out / "policies", TRIES.get(asked.size, 1)
    return [
        Pupil(run, replace(settings, law=law), made / f"{named}-{asked.size}-seed{seed}", data, tries)
        for run, law, named in eyes
    ]


def _references(data: Path, out: Path) -> list[Path]:
    from sgjepa.control.trial import trial, untrained

    dataset = open_dataset(data)
    subjects = [untrained(name, dataset, out) for name in REFERENCES]
    return [
        trial(subject, dataset, sampling, processes=machine.cores())
        for subject in subjects
        for sampling in range(2 if subject.policy.by_chance else 1)
    ]


STUDY = ControlStudy(
    "control",
    "Does a representation carry the dynamics that a policy needs?",
    "On SG-JEPA's features a policy succeeds more often than on DINO-WM's and LeWM's, and across gravities.",
)
