"""What an experiment compares: world models, policies and planners as configurations, and references that learn nothing.

An arm with a seed is a job: its folder, and the work that fills it, in a worker process. A training's folder is named by a
digest of everything that decides the training, so that experiments share it. The digest is of the settings that are not the
usual ones, the datasets, and what the training starts from; not of the names that experiments give it, nor of the picture
decoder, which changes nothing in the model. A setting that is added later with a default leaves the digests as they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sgjepa.core import run_folder, threads
from sgjepa.data.store import open_dataset
from sgjepa.experiments.runner import Task
from sgjepa.policies import files as policy_files
from sgjepa.policies.goal_tasks import Cases
from sgjepa.recipes.training import recipe, recipes
from sgjepa.training.checkpoint import read_config
from sgjepa.training.config import Run
from sgjepa.training.data import dataset_digests

if TYPE_CHECKING:
    from sgjepa.data.store import Dataset
    from sgjepa.evaluation.evaluate import ForecastConfig
    from sgjepa.evaluation.latent_errors import LatentErrors
    from sgjepa.planning.receding_horizon import PlannerConfig
    from sgjepa.policies.learned import PolicyConfig

_DIGITS = 10  # of the digest, in a folder's name


@dataclass(frozen=True)
class Training:
    """A world model, called as its run is. start: the name of the arm whose weights of the same seed it starts from.

    evaluated_on: a dataset; the first that it is trained on if None. label: what pages call it, if not as its method.
    """

    run: Run
    start: str | None = None
    evaluated_on: str | None = None
    label: str = ""

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def data(self) -> str:
        """The dataset on which it is evaluated."""
        return self.evaluated_on or self.run.data[0]

    @property
    def shared(self) -> bool:
        """Whether the features of all its seeds are the same, as a foreign encoder's are, whatever is trained on them."""
        return self.run.model.foreign_encoder is not None


@dataclass(frozen=True)
class Policy:
    """A policy, and what it sees. model: the world model whose features it sees; None for the true state.

    robot: it also sees the robot's own state, and without a model nothing else. position_error: without a model it sees
    positions alone, with such an error in m. tries: sampling seeds, others for each training. held_out: it is tried on
    training episodes that it did not learn from, not on test episodes. share: of a number of updates that is asked for.
    """

    name: str
    config: PolicyConfig
    data: str
    model: Training | None = None
    robot: bool = False
    position_error: float | None = None
    tries: int = 1
    held_out: bool = False
    share: float = 1.0


@dataclass(frozen=True)
class Planner:
    """A world model that plans, called as the model is. config: as is usual in its world if None."""

    model: Training
    cases: Cases
    config: PlannerConfig | None = None

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def data(self) -> str:
        return self.model.data


@dataclass(frozen=True)
class Reference:
    """What learns nothing: "expert", "still", "random", or a planner in the true simulator. It has no seed.

    tries: sampling seeds, for what acts by chance. cases, config: of what plans.
    """

    kind: str
    data: str
    tries: int = 1
    cases: Cases | None = None
    config: PlannerConfig | None = None

    @property
    def name(self) -> str:
        return f"{world_of(self.data)}_{self.kind}"


Actor: TypeAlias = Policy | Planner | Reference
Arm: TypeAlias = Training | Actor


def world_of(data: str) -> str:
    """The world of a dataset by its usual name, WORLD-SIZE."""
    return data.rpartition("-")[0]


@dataclass(frozen=True)
class Evaluation:
    """How world models are evaluated on a dataset. context: true frames that are given; None for the usual number."""

    data: str
    split: str = "test"
    probe: Literal["mlp", "linear"] = "mlp"
    context: int | None = None
    counterfactual: bool = False

    def name(self, datasets: Path) -> str:
        """The name of its folder in a run: a run that several experiments share may have others too."""
        from sgjepa.evaluation.evaluate import evaluation_name

        dataset = open_dataset(datasets / self.data, verify=False)
        return evaluation_name(dataset, self.forecast(dataset), self.split)

    def forecast(self, dataset: Dataset) -> ForecastConfig:
        """How rollouts are made and read."""
        from sgjepa.evaluation.evaluate import default_forecast

        usual = default_forecast(dataset.settings, self.probe)
        return usual if self.context is None else replace(usual, context=self.context)


@dataclass(frozen=True)
class Job:
    """One training of a world model: `updates` in `folder`. arm, label: its own. evaluation: None if it serves policies.

    digest: of everything that decides it but the seed; empty where trainings are not shared.
    """

    run: Run
    folder: Path
    updates: int
    arm: str = ""
    label: str = ""
    evaluation: Evaluation | None = None
    digest: str = ""

    @property
    def name(self) -> str:
        return self.arm or self.run.name

    @property
    def finished(self) -> bool:
        return (self.folder / run_folder.MODEL).is_file()

    def updates_done(self) -> int:
        """Updates so far; all of them also where a training stopped early."""
        return self.updates if self.finished else min(self.updates, _last_step(self.folder / run_folder.ROWS))

    def task(self, datasets: Path, others: Mapping[str, str]) -> Task:
        """For the runner. others: names of the tasks that may have to be over first, by the folder that they fill."""
        after = (others[self.run.init],) if self.run.init and self.run.init in others else ()
        more = self.evaluation is not None
        return Task(
            self.folder.name, train, (self, datasets), after, log_of(self.folder), self.updates, self.updates_done, more
        )


@dataclass(frozen=True)
class ActorJob:
    """An actor with a seed. folder: of its training, or in which the trials of what is not trained go.

    model: the finished world model's folder.
    """

    arm: Actor
    seed: int
    folder: Path
    model: Path | None = None

    @property
    def name(self) -> str:
        if isinstance(self.arm, Policy):
            return self.folder.name
        return self.model.name if self.model else self.arm.name

    @property
    def config(self) -> PolicyConfig:
        """A policy's own, with its seed."""
        assert isinstance(self.arm, Policy)
        return replace(self.arm.config, seed=self.seed)

    def updates_done(self) -> int:
        """Updates of a policy so far."""
        if (self.folder / policy_files.WEIGHTS).is_file():
            return self.config.updates
        return min(self.config.updates, _last_step(self.folder / run_folder.ROWS))

    def task(self, datasets: Path, first: ActorJob) -> Task:
        """For the runner. first: the job that encodes the pictures that this one sees too; together both would do it."""
        if not isinstance(self.arm, Policy):
            return Task(self.name, try_planner, (self, datasets))
        after = () if first is self else (first.name,)
        done = (self.config.updates, self.updates_done, True)
        return Task(self.name, try_policy, (self, datasets), after, log_of(self.folder), *done)


@dataclass(frozen=True)
class Tried:
    """The folders of an actor's trials. latents: of a model that plans, its errors, by the digest of its weights."""

    trials: tuple[Path, ...]
    latents: Mapping[str, LatentErrors]


def train(job: Job, datasets: Path) -> None:
    """Train, probe and evaluate a world model; every stage is kept."""
    from sgjepa.evaluation.counterfactual import CounterfactualConfig, counterfactual, varying
    from sgjepa.evaluation.evaluate import evaluate
    from sgjepa.training import world_model

    finished = job.finished
    threads.forget_peak_memory()
    world_model.train(job.run, job.folder, datasets)
    if not finished:
        note = {"stage": "process", "step": job.updates, "peak_memory": threads.peak_memory()}
        run_folder.append(job.folder, [note])
    if job.evaluation is None:
        return
    dataset = open_dataset(datasets / job.evaluation.data)
    forecast = job.evaluation.forecast(dataset)
    evaluate(job.folder, dataset, forecast, job.evaluation.split)
    if job.evaluation.counterfactual and varying(dataset.test):
        counterfactual(job.folder, dataset, CounterfactualConfig(forecast=forecast))


def try_policy(job: ActorJob, datasets: Path) -> Tried:
    """Train a policy and try it in closed loop."""
    import torch

    from sgjepa.policies.evaluate import beginnings, trained, trial
    from sgjepa.policies.features import open_features
    from sgjepa.policies.learned import train_policy

    arm = job.arm
    assert isinstance(arm, Policy)
    torch.set_num_threads(1)
    dataset = open_dataset(datasets / arm.data)
    features = open_features(job.model, dataset.env_spec, arm.robot, arm.position_error)
    train_policy(job.config, features, dataset, job.folder)
    subject = trained(job.folder, dataset, held_out=arm.held_out)
    starts = beginnings(dataset, held_out=arm.held_out)
    first = job.seed * arm.tries
    return Tried(tuple(trial(subject, dataset, first + k, starts) for k in range(arm.tries)), {})


def try_planner(job: ActorJob, datasets: Path) -> Tried:
    """Try what plans, or what learns nothing, in closed loop."""
    import torch

    from sgjepa.evaluation.latent_errors import latent_errors
    from sgjepa.planning.load import default_planner_config, planned, simulated
    from sgjepa.policies.evaluate import beginnings, trial, untrained

    arm = job.arm
    assert not isinstance(arm, Policy)
    torch.set_num_threads(1)
    dataset = open_dataset(datasets / arm.data)
    starts = beginnings(dataset, cases=arm.cases)
    if isinstance(arm, Planner):
        assert job.model is not None
        subject = planned(job.model, dataset, arm.config, arm.cases)
        latents = {subject.driver.weights: latent_errors(job.model, dataset)}
        return Tried((trial(subject, dataset, job.seed, starts),), latents)
    if arm.kind == policy_files.SIMULATOR:
        subject = simulated(dataset, job.folder, arm.config or default_planner_config(dataset.env_spec))
    else:
        subject = untrained(arm.kind, dataset, job.folder)
    tries = arm.tries if subject.policy.by_chance else 1
    return Tried(tuple(trial(subject, dataset, sampling, starts) for sampling in range(tries)), {})


def log_of(folder: Path) -> Path:
    """What the processes of a training have printed."""
    return folder.with_name(f"{folder.name}.log")


def locate(job: Job, runs: Path, datasets: Path, leader: Job | None = None) -> Job:
    """The job in the folder of `runs` that holds this training, or will. leader: what it starts from.

    A training that is there keeps the name, the decoder and the path of its leader that it was made with.
    """
    run, digest = job.run, digest_of(job.run, datasets, leader)
    end = f"{digest}-seed{run.seed}"
    begun = sorted(path for path in runs.glob(f"*-{end}") if run_folder.is_run(path))
    if begun:
        made = read_config(begun[0])
        run = replace(run, name=made.name, init=made.init, train=replace(run.train, decoder=made.train.decoder))
        return replace(job, run=run, folder=begun[0], digest=digest)
    run = replace(run, name=_recipe_name(run) or run.name, init=run.init if leader is None else str(leader.folder))
    return replace(job, run=run, folder=runs / f"{run.name}-{end}", digest=digest)


def digest_of(run: Run, datasets: Path, leader: Job | None = None) -> str:
    """Of everything that decides a training but its seed."""
    start = run.init if leader is None else leader.digest
    decides = {"run": _changed(_plain(run)), "data": dataset_digests(run, datasets), "start": start}
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _plain(run: Run) -> Run:
    """Without what an experiment, a seed and a decoder add."""
    return replace(run, name="", seed=0, init=None, train=replace(run.train, decoder=False))


def _recipe_name(run: Run) -> str:
    """The recipe that this is; empty if it is a variant of one."""
    for name, (worlds, _) in recipes().items():
        size = run.data[0].rpartition("-")[2]
        if run.data == tuple(f"{world}-{size}" for world in worlds) and _plain(recipe(name, size)) == _plain(run):
            return name
    return ""


def _changed(value: Any) -> Any:
    """A config as JSON values, without the fields that have their defaults."""
    if is_dataclass(value):
        changed = {f.name: getattr(value, f.name) for f in fields(value) if getattr(value, f.name) != _default(f)}
        return {"type": type(value).__name__, **{name: _changed(item) for name, item in changed.items()}}
    if isinstance(value, Mapping):
        return {str(key): _changed(item) for key, item in value.items()}
    return [_changed(item) for item in value] if isinstance(value, (list, tuple)) else value


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _last_step(path: Path) -> int:
    """The step of the last whole row of a training's log; 0 if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().split(b"\n")
    except OSError:
        return 0
    for line in reversed(lines[:-1]):  # the last is empty or torn
        with contextlib.suppress(ValueError):
            return int(json.loads(line).get("step", 0))
    return 0
