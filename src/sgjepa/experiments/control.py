"""Does a representation carry the dynamics? Diffusion policies on frozen features, in closed loop, in the three arm worlds.

All policies are equal in everything but what they look at: data, windows, network, updates, sampler, executed steps, test
episodes. References: the demonstrator above, holding still and random controls below; the policy that sees the true state,
which says what a representation costs; and the one that is told its own pose and sees nothing else, which says what is
reached blindly. One policy is not told the law: is the difference in the features, or there?

A seed is a whole pipeline: the world model with that seed, and the policy on it with the same. Features of a foreign encoder
are the same whatever its world model has learned: one of a single update serves the policies of all seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sgjepa.core import threads
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS
from sgjepa.experiments.acting import ActingStudy, model, world_of
from sgjepa.experiments.asked import Asked
from sgjepa.experiments.cells import Cell
from sgjepa.experiments.chains import Chain, run_chains
from sgjepa.experiments.control_findings import OURS, summary
from sgjepa.experiments.school import Pupil, teach
from sgjepa.policies.files import POSE, STATE
from sgjepa.recipes.policies import policy
from sgjepa.report.control import write_control
from sgjepa.results.control import TOLD_POSE, gather_trials
from sgjepa.training.config import Run

METHODS = ("gru", "lewm", "dino")  # whose features are compared
MORE = {"paper": ("ssm",)}  # which the paper has too
REFERENCES = ("expert", "still", "random")
TRIES = {"paper": 5}  # sampling seeds of each training; where there are several trainings, one of its own is enough


@dataclass(frozen=True)
class ControlStudy(ActingStudy):
    """As `Study`, for policies. pose: those on features are told the robot's own beside them."""

    pose: bool = False

    @property
    def ours(self) -> str:
        """The label of the policy that is compared with the others."""
        return f"{OURS}, {TOLD_POSE}" if self.pose else OURS

    def run(self, asked: Asked) -> Path:
        """Train the world models, then the policies, try all, and write a page for each world and one over all.

        updates: of world models and policies. only: patterns of the runs' names.
        """
        follows = "policies follow, each trained and tried in closed loop"
        chains = self.models(models(asked.size), asked, follows, looked_through)
        run_chains(looked_through(chains), asked.datasets, asked.workers)
        by_world: dict[str, list[Pupil]] = {}
        for chain, eye in eyes_of(chains).items():
            by_world.setdefault(world_of(chain), []).extend(self.pupils(chain, eye.folder, asked))
        everyone = [pupil for some in by_world.values() for pupil in some]
        # those not told the law last: begun together with the one that sees the same, both would encode it
        places = teach(sorted(everyone, key=lambda pupil: not pupil.settings.law), asked.workers)
        pages, played = {}, {}
        for world, taught in by_world.items():
            place_ = asked.out / f"report-{world}"
            tried = [
                *_references(taught[0].data, place_, TRIES.get(asked.size, 1) * self.seeds(asked), asked.workers),
                *(place for pupil in taught for place in places[pupil.folder]),
            ]
            played[world] = gather_trials(tried)
            pages[world] = write_control(played[world], place_, self.command, ("references",))
        return self.page(summary(played, self.ours), pages, asked)

    def pupils(self, chain: Chain, eye: Path, asked: Asked) -> list[Pupil]:
        """The policies that come with a world model; with SG-JEPA's those that stand for all. eye: the run they see through.

        Whether the law or the features make the difference is asked of policies on features alone, as the paper has them.
        """
        made = [pupil(chain, asked, eye, pose=self.pose)]
        if chain.name.endswith("_gru"):
            made += [] if self.pose else [pupil(chain, asked, eye, law=False)]
            made += [pupil(chain, asked, None, pose=True), pupil(chain, asked, None)]
        return made


def worlds(size: str) -> list[str]:
    """Those with a task under laws that have the size."""
    declared = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.has_task and env.env_spec.nominal_law}
    return [name for name, world in declared.items() if world.defaults and size in world.defaults.sizes]


def models(size: str) -> list[Cell]:
    """The world models whose features are compared; on a foreign encoder nothing is learned that a policy would see."""
    cells = [model(f"{world}_{method}", size) for world in worlds(size) for method in (*METHODS, *MORE.get(size, ()))]
    return [cell if cell.run.model.foreign_encoder is None else Cell(_shortest(cell.run)) for cell in cells]


def _shortest(run: Run) -> Run:
    return replace(run, train=replace(run.train, epochs=1, updates=1))


def eyes_of(chains: Sequence[Chain]) -> dict[Chain, Chain]:
    """For each training that is asked for the one whose features its policies see: with a foreign encoder, the first."""
    first = {chain.name: chain for chain in reversed(chains)}
    return {chain: chain if chain.run.model.foreign_encoder is None else first[chain.name] for chain in chains}


def looked_through(chains: Sequence[Chain]) -> list[Chain]:
    """Those that are trained."""
    return list(dict.fromkeys(eyes_of(chains).values()))


def pupil(chain: Chain, asked: Asked, eye: Path | None, law: bool = True, pose: bool = False) -> Pupil:
    """A policy with a world model's seed. eye: the run whose features it sees; None for none."""
    seed, tries = chain.run.seed, TRIES.get(asked.size, 1)
    settings = replace(policy(asked.size, world_of(chain), asked.updates), seed=seed, law=law)
    if eye is None:
        named = f"{world_of(chain)}_{POSE if pose else STATE}"
    else:
        named = f"{chain.name}{'_pose' if pose else ''}{'' if law else '_nolaw'}"
    folder = asked.out / "policies" / f"{named}-{asked.size}-seed{seed}"
    return Pupil(eye, settings, folder, asked.datasets / chain.run.data[0], tries, pose=pose)


def _references(data: Path, out: Path, tries: int, workers: int | None) -> list[Path]:
    from sgjepa.policies.evaluate import trial, untrained

    dataset = open_dataset(data)
    subjects = [untrained(name, dataset, out) for name in REFERENCES]
    return [
        trial(subject, dataset, sampling, processes=workers or threads.cores())
        for subject in subjects
        for sampling in range(tries if subject.policy.by_chance else 1)
    ]


STUDY = ControlStudy(
    "control",
    "Does a representation carry the dynamics that a policy needs?",
    "On SG-JEPA's features a policy succeeds more often than on DINO-WM's and LeWM's, and across gravities.",
)
