"""The arms of an experiment: configurations of world models, policies and planners, and references without training.

An arm with a seed is a job: a folder, and the work in a worker process that fills it. A training's folder is named by a
digest of everything that decides the training, so that experiments share it. The digest covers the settings that are not
defaults, the datasets and the initial weights; not the names that experiments use, nor the picture decoder, which does not
change the model. A new setting with a default does not change the digests.
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
    """A world model, named after its run. start: the arm from whose weights of the same seed it starts.

    evaluated_on: a dataset (default: the first training dataset). label: on pages (default: of its method).
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
        """Whether the features of all its seeds are equal, as those of a pretrained encoder."""
        return self.run.model.foreign_encoder is not None


@dataclass(frozen=True)
class Policy:
    """A policy and its observations. model: the world model of its features; None for the true state.

    robot: with proprioception; without a model, proprioception only. position_error: noisy positions with this error in m,
    without a model. tries: sampling seeds per training. held_out: evaluated on training episodes that it did not learn from,
    not on test episodes. share: its factor on a requested number of updates.
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
    """A world model that plans, named after the model. config: the world's default if None."""

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
    """A policy without training: "expert", "still", "random", or a planner in the true simulator. It has no seed.

    tries: sampling seeds, for a stochastic policy. cases, config: for a planner.
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
    """The world in a dataset's name, WORLD-SIZE."""
    return data.rpartition("-")[0]


@dataclass(frozen=True)
class Evaluation:
    """The settings of an evaluation of world models. context: true frames; None for the default number."""

    data: str
    split: str = "test"
    probe: Literal["mlp", "linear"] = "mlp"
    context: int | None = None
    counterfactual: bool = False

    def name(self, datasets: Path) -> str:
        """The name of its folder in a run, which may have other evaluations, too."""
        from sgjepa.evaluation.evaluate import evaluation_name

        dataset = open_dataset(datasets / self.data, verify=False)
        return evaluation_name(dataset, self.forecast(dataset), self.split)

    def forecast(self, dataset: Dataset) -> ForecastConfig:
        """The settings of rollouts and probes."""
        from sgjepa.evaluation.evaluate import default_forecast

        default = default_forecast(dataset.settings, self.probe)
        return default if self.context is None else replace(default, context=self.context)


@dataclass(frozen=True)
class Job:
    """A training of a world model with `updates` in `folder`. arm, label: of its arm. evaluation: None if not needed.

    digest: of everything that decides it except the seed; empty for trainings that are not shared.
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
        """The number of updates so far; all of them if a training stopped early."""
        return self.updates if self.finished else min(self.updates, _last_step(self.folder / run_folder.ROWS))

    def task(self, datasets: Path, others: Mapping[str, str]) -> Task:
        """The task for the runner. others: names of tasks by folder, for those that have to finish first."""
        after = (others[self.run.init],) if self.run.init and self.run.init in others else ()
        more = self.evaluation is not None
        return Task(
            self.folder.name, train, (self, datasets), after, log_of(self.folder), self.updates, self.updates_done, more
        )


@dataclass(frozen=True)
class ActorJob:
    """An actor with a seed. folder: of its training, or of the trials if it is not trained.

    model: the folder of the finished world model.
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
        """The policy's settings with the job's seed."""
        assert isinstance(self.arm, Policy)
        return replace(self.arm.config, seed=self.seed)

    def updates_done(self) -> int:
        """The number of a policy's updates so far."""
        if (self.folder / policy_files.WEIGHTS).is_file():
            return self.config.updates
        return min(self.config.updates, _last_step(self.folder / run_folder.ROWS))

    def task(self, datasets: Path, first: ActorJob) -> Task:
        """The task for the runner. first: the job that encodes the same pictures, and has to finish before."""
        if not isinstance(self.arm, Policy):
            return Task(self.name, try_planner, (self, datasets))
        after = () if first is self else (first.name,)
        done = (self.config.updates, self.updates_done, True)
        return Task(self.name, try_policy, (self, datasets), after, log_of(self.folder), *done)


@dataclass(frozen=True)
class Tried:
    """The trials of an actor. latents: latent errors of a model that plans, by the digest of its weights."""

    trials: tuple[Path, ...]
    latents: Mapping[str, LatentErrors]


def train(job: Job, datasets: Path) -> None:
    """Train, probe and evaluate a world model; finished stages are not repeated."""
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
    """Train a policy and evaluate it in closed loop."""
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
    """Evaluate a planner or a reference policy in closed loop."""
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
    """The log file of a training's processes."""
    return folder.with_name(f"{folder.name}.log")


def locate(job: Job, runs: Path, datasets: Path, leader: Job | None = None) -> Job:
    """The job with its folder in `runs`, existing or new. leader: the training that it starts from.

    An existing training keeps its name, its decoder and the path of its leader.
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
    """A digest of everything that decides a training except its seed."""
    start = run.init if leader is None else leader.digest
    decides = {"run": _changed(_plain(run)), "data": dataset_digests(run, datasets), "start": start}
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _plain(run: Run) -> Run:
    """The run without name, seed, initial weights and decoder."""
    return replace(run, name="", seed=0, init=None, train=replace(run.train, decoder=False))


def _recipe_name(run: Run) -> str:
    """The name of the recipe that equals the run; empty if there is none."""
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
