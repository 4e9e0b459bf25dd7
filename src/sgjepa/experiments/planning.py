"""Does the predictor matter where no law changes? Conventional benchmarks, planned by CEM on the latent (the paper's table).

Models that differ in the predictor alone, the same cases and the same search for all. References: random controls below, and
above them the search in the true simulator, which knows state and dynamics. Beside success stand the errors of the latents
on held-out clips, as a share of their variance too, and what a plan takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sgjepa.core import threads
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS
from sgjepa.evaluation.latent_errors import LatentErrors
from sgjepa.experiments.acting import ActingStudy, model, world_of
from sgjepa.experiments.asked import Asked
from sgjepa.experiments.cells import Cell
from sgjepa.experiments.chains import run_chains
from sgjepa.experiments.planning_findings import summary
from sgjepa.experiments.school import side_by_side
from sgjepa.policies.goal_tasks import Cases
from sgjepa.report.control import write_control
from sgjepa.results.control import gather_trials

if TYPE_CHECKING:  # a process says first how many threads torch may have
    from sgjepa.planning.receding_horizon import PlannerConfig

METHODS = ("transformer", "gru", "ssm")
REFERENCES = ("random", "simulator")


@dataclass(frozen=True)
class Job:
    """A run that plans, or one of the references by its name. out: where references go."""

    data: Path
    out: Path
    cases: Cases
    cfg: PlannerConfig | None
    run: Path | None = None
    reference: str = ""
    sampling: int = 0  # the random numbers of its search


@dataclass(frozen=True)
class Tried:
    """What became of it. latents: of a run with these weights."""

    place: Path
    weights: str
    latents: LatentErrors | None


@dataclass(frozen=True)
class PlanningStudy(ActingStudy):
    """As `Study`, for runs that plan. cfg: of the planner; as is usual in a world if None."""

    cases: Cases = field(default_factory=Cases)
    cfg: PlannerConfig | None = None

    def run(self, asked: Asked) -> Path:
        """Train the models, let all plan the same cases, and write a page for each world and one over all.

        updates: of the models. only: patterns of the runs' names.
        """
        chains = self.models(models(asked.size), asked, f"each plans {self.cases.count} cases in closed loop then")
        run_chains(chains, asked.datasets, asked.workers)
        jobs: dict[str, list[Job]] = {}
        for chain in chains:
            world, data = world_of(chain), asked.datasets / chain.run.data[0]
            how = (data, asked.out / f"report-{world}", self.cases, self.cfg)
            jobs.setdefault(world, [Job(*how, reference=name) for name in REFERENCES])
            jobs[world].append(Job(*how, chain.folder, sampling=chain.run.seed))
        tried = side_by_side(_try, [job for some in jobs.values() for job in some], asked.workers, "planning", "trials")
        pages, played, latents, done = {}, {}, dict[str, LatentErrors](), iter(tried)
        for world, some in jobs.items():
            here = [next(done) for _ in some]
            latents |= {one.weights: one.latents for one in here if one.latents is not None}
            played[world] = gather_trials([one.place for one in here])
            pages[world] = write_control(played[world], some[0].out, self.command, ("references",), latents)
        return self.page(summary(played, latents), pages, asked)


def models(size: str) -> list[Cell]:
    """Of every world with a goal, one for each predictor."""
    worlds = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.goal and env.env_spec.defaults}
    there = [name for name, world in worlds.items() if world.defaults and size in world.defaults.sizes]
    return [model(f"{name}_{method}", size) for name in there for method in METHODS]


def _try(job: Job) -> Tried:
    """In a process of its own."""
    threads.prepare()
    import torch

    from sgjepa.evaluation.latent_errors import latent_errors
    from sgjepa.planning.load import planned, simulated, usual
    from sgjepa.policies.evaluate import beginnings, trial, untrained

    torch.set_num_threads(1)
    dataset = open_dataset(job.data)
    if job.run is not None:
        subject = planned(job.run, dataset, job.cfg, job.cases)
    elif job.reference == "simulator":
        subject = simulated(dataset, job.out, job.cfg or usual(dataset.env_spec))
    else:
        subject = untrained(job.reference, dataset, job.out)
    place = trial(subject, dataset, job.sampling, beginnings(dataset, cases=job.cases))
    return Tried(place, subject.driver.weights, None if job.run is None else latent_errors(job.run, dataset))


STUDY = PlanningStudy(
    "planning",
    "Does the predictor matter where no law changes? (Reacher and Cube, planned)",
    "On conventional tasks a GRU or an SSM plans as well as the Transformer, and the GRU's plans take the shortest.",
)
