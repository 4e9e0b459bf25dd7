"""The engine of experiments: from a question and its arms to a page and claims.

It chooses the arms that are asked for, makes datasets that are missing, says what the work will cost, trains, evaluates and
tries what is not there yet, gathers the results, and writes what the analysis says of them. Every stage is kept:
interrupted, the same call goes on where it was.
"""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sgjepa.core import artifact, config, files
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.processes import Executor
from sgjepa.core.provenance import provenance
from sgjepa.core.threads import counted
from sgjepa.data.collect import collect
from sgjepa.data.config import DatasetConfig
from sgjepa.envs import get_env
from sgjepa.evaluation.probes import Kind
from sgjepa.experiments import runner
from sgjepa.experiments.answer import Answer, Evidence
from sgjepa.experiments.arms import (
    Actor,
    ActorJob,
    Arm,
    Evaluation,
    Job,
    Planner,
    Policy,
    Reference,
    Training,
    Tried,
    locate,
    world_of,
)
from sgjepa.experiments.cost import cost
from sgjepa.recipes.datasets import datasets_named
from sgjepa.report.closed_loop import closed_loop_page
from sgjepa.report.films import films_of
from sgjepa.report.forecast import forecast_page
from sgjepa.report.page import ANSWER, PAGE, overview_page, write_page
from sgjepa.results.claims import MIN_TRAININGS, write_claims
from sgjepa.results.table import Results
from sgjepa.training.config import Run
from sgjepa.training.data import total_updates, with_updates

RECORD = "study.json"
# the world that a question is put to: at mini size the one that can answer it, else the one the paper asks
WORLDS = {"mini": "approach_ball", "small": "square", "paper": "square"}


@dataclass(frozen=True)
class Request:
    """How large, where to, how often, which part of an experiment. The report goes to `out/<page>`.

    seeds, updates: instead of the experiment's and the recipes' own numbers. only: patterns of arms' names, such as "*_gru";
    all without. runs: a folder of trainings that experiments share; without one they go to `out/runs` under the arms' own
    names. note: for the page's reader. settings: of every world model that is trained, by dotted places of its run's config.
    """

    size: str
    out: Path
    datasets: Path
    seeds: int | None = None
    updates: int | None = None
    workers: int | None = None
    only: Sequence[str] = ()
    runs: Path | None = None
    page: str = "report"
    note: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("seeds", "updates", "workers"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"--{name} must be at least 1, got {value}")

    def command(self, experiment: str, seeds: int) -> str:
        """What makes the same result again."""
        more = ["--updates", str(self.updates)] if self.updates is not None else []
        only = ["--only", *self.only] if self.only else []
        changed = [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]
        return shlex.join(
            ["sgjepa", "study", experiment, "--size", self.size, "--seeds", str(seeds), *more, *changed, *only]
        )

    @property
    def notes(self) -> str:
        """What a reader of the page must know about the trainings."""
        changed = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
        changes = f"Every world model was trained with {changed} instead of the study's own settings." if changed else ""
        return " ".join(part for part in (self.note, changes) if part)


@dataclass(frozen=True)
class Experiment:
    """A question, the arms that are compared, and the analysis that answers it.

    claim: what the paper says; the analysis says whether it holds here. arms: by size. needs: by size, sets of arms' names,
    of which the analysis takes at least one whole. seeds: trainings of each arm, by size. datasets: by size, those that it
    brings itself, by name; others are known by theirs, WORLD-SIZE. worlds: each has a page of its own, and one is over all.
    counterfactual: also tell models wrong laws. split: the episodes it is judged on; what chooses settings must take
    "validation". probe: the kind that reads latents. context: true frames that an evaluation is given, by size, where it is
    not the usual number. analyse: None leaves it to the report.
    """

    name: str
    question: str
    claim: str
    arms: Callable[[str], Sequence[Arm]]
    analyse: Callable[[Evidence], Answer] | None = None
    needs: Callable[[str], Sequence[Sequence[str]]] = lambda _: ()
    seeds: Mapping[str, int] = field(default_factory=lambda: {"mini": MIN_TRAININGS, "small": MIN_TRAININGS, "paper": 1})
    datasets: Callable[[str], Mapping[str, DatasetConfig]] = lambda _: {}
    worlds: bool = False
    counterfactual: bool = False
    split: str = "test"
    probe: Kind = "mlp"
    context: Mapping[str, int] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """What makes its report's folder."""
        return f"sgjepa study {self.name}"

    def run(self, request: Request, executor: Executor | None = None) -> Path:
        """Answer the question; returns the page. executor: where the work is done, processes of this machine if None."""
        return run(self, request, executor)


@dataclass(frozen=True)
class Record:
    """study.json: what was asked and answered. seeds: trainings of each arm. updates: None for the recipes' own.

    arms: the run of each world model, by name. trained: the runs of each, by seed.
    """

    study: str
    question: str
    claim: str
    size: str
    seeds: int
    updates: int | None
    arms: dict[str, Run]
    runs: tuple[str, ...]
    answer: tuple[str, ...]
    provenance: dict[str, Any]
    trained: dict[str, tuple[str, ...]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


def run(experiment: Experiment, request: Request, executor: Executor | None = None) -> Path:
    """Answer the question; returns the page. executor: where the work is done, processes of this machine if None."""
    seeds = experiment.seeds.get(request.size, 1) if request.seeds is None else request.seeds
    arms = selected(experiment, request)
    missing = missing_arms(experiment, arms, request.size)
    if missing:
        print(f"{experiment.name}: its answer needs {', '.join(missing)} too; without that only a comparison is written")
    page = request.out / request.page
    artifact.require_free(page, experiment.command)  # hours before it is written
    for arm in trainings_of(arms):
        with_settings(arm.run, request)
    make_datasets(dataset_names(arms), request.datasets, request.workers, experiment.datasets(request.size))
    jobs = jobs_of(experiment, arms, request, seeds)
    actors = actors_of(arms, jobs, request, seeds)
    _announce(experiment, jobs, actors, request, page)

    train_all(jobs, request.datasets, request.workers, executor)
    first = {actor.model: actor for actor in reversed(actors)}
    tasks = [actor.task(request.datasets, first[actor.model] if actor.model else actor) for actor in actors]
    tried = runner.run(tasks, "trials", request.workers, executor)

    evidence = _gathered(arms, jobs, actors, tried, request)
    answer, written = _report(replace(experiment, analyse=None) if missing else experiment, evidence, page, request)
    record = Record(
        study=experiment.name,
        question=experiment.question,
        claim=experiment.claim,
        size=request.size,
        seeds=seeds,
        updates=request.updates,
        arms={arm.name: with_settings(arm.run, request) for arm in trainings_of(arms)},
        runs=tuple(job.folder.name for job in jobs),
        answer=tuple((page / ANSWER).read_text(encoding="utf-8").splitlines()),
        provenance=provenance(),
        trained={arm.name: tuple(j.folder.name for j in jobs if j.name == arm.name) for arm in trainings_of(arms)},
        settings=dict(request.settings),
    )
    artifact.add(page, RECORD, files.to_json(config.to_dict(record)).encode())
    command = request.command(experiment.name, seeds)
    write_claims(
        page, experiment.name, request.size, request.updates, command, answer.claims if answer else (), request.settings
    )
    return written


# --- before the work -----------------------------------------------------------------------------------------------


def selected(experiment: Experiment, request: Request) -> list[Arm]:
    """The arms that are asked for, in their own order, with the references of their worlds.

    What other arms start from has to be among them.
    """
    arms = list(experiment.arms(request.size))
    if not arms:
        raise InputError(f"study {experiment.name} has nothing to train at size {request.size}; choose another --size")
    learned = {arm.name: arm for arm in arms if not isinstance(arm, Reference)}
    if request.settings and not trainings_of(arms):
        raise InputError(f"study {experiment.name} trains no world models, of which --set gives settings; leave --set out")
    for pattern in request.only:
        if not fnmatch.filter(learned, pattern):
            raise unknown("arm", pattern, learned)
    chosen = [name for name in learned if not request.only or any(fnmatch.fnmatch(name, one) for one in request.only)]
    for name in chosen:
        start = getattr(learned[name], "start", None)
        if start is not None and start not in chosen:
            raise InputError(f"{name} starts from {start}; add it to --only")
    worlds = {learned[name].data for name in chosen}
    return [arm for arm in arms if (arm.data in worlds if isinstance(arm, Reference) else arm.name in chosen)]


def missing_arms(experiment: Experiment, arms: Sequence[Arm], size: str) -> list[str]:
    """The arms that the analysis lacks: the shortest list of them, where several sets would do."""
    chosen = {arm.name for arm in arms}
    lacks = [[name for name in names if name not in chosen] for names in experiment.needs(size)]
    return min(lacks, key=len, default=[])


def trainings_of(arms: Sequence[Arm]) -> list[Training]:
    """World models, and those that policies and planners use."""
    models = [arm if isinstance(arm, Training) else getattr(arm, "model", None) for arm in arms]
    return list({model.name: model for model in models if model is not None}.values())


def dataset_names(arms: Sequence[Arm]) -> list[str]:
    """All that arms are trained, evaluated and tried on."""
    names = [name for arm in arms for name in ((*arm.run.data, arm.data) if isinstance(arm, Training) else (arm.data,))]
    return list(dict.fromkeys(names))


def make_datasets(
    names: Sequence[str], datasets: Path, workers: int | None, own: Mapping[str, DatasetConfig] | None = None
) -> None:
    """Make those datasets that are missing and have a recipe. own: recipes besides the usual ones, by name."""
    for name in names:
        settings = (own or {}).get(name) or next(iter(datasets_named([name]) or ()), None)
        if settings is not None and not (datasets / name).exists():
            print(f"making {datasets / name}", flush=True)
            collect(settings, datasets / name, workers)


def jobs_of(experiment: Experiment, arms: Sequence[Arm], request: Request, seeds: int) -> list[Job]:
    """Every training with every seed, those of one seed together. Pictures of the first seed's models are enough.

    Where trainings are shared, a folder is named after all that decides its training.
    """
    datasets, runs = request.datasets, request.runs or request.out / "runs"
    trainings = trainings_of(arms)
    jobs: list[Job] = []
    for seed in range(seeds):
        of_seed: dict[str, Job] = {}
        for arm in _leaders_first(trainings):
            evaluated = arm in arms
            if seed and arm.shared and not evaluated and not any(isinstance(one, Planner) for one in arms):
                continue
            run, leader = _with_seed(arm.run, seed, request), of_seed[arm.start] if arm.start is not None else None
            judged = Evaluation(
                arm.data,
                experiment.split,
                experiment.probe,
                experiment.context.get(request.size),
                experiment.counterfactual,
            )
            updates = total_updates(run, datasets)
            folder = runs / f"{arm.name}-{request.size}-seed{seed}"
            job = Job(run, folder, updates, arm.name, arm.label, judged if evaluated else None)
            if request.runs is not None:
                job = locate(job, runs, datasets, leader)
                if same := [name for name, other in of_seed.items() if other.digest == job.digest]:
                    raise InputError(f"{experiment.name}: {arm.name} is the very training that {same[0]} is; leave one out")
            elif leader is not None:
                job = replace(job, run=replace(run, init=str(leader.folder)))
            of_seed[arm.name] = job
        jobs += [of_seed[arm.name] for arm in trainings if arm.name in of_seed]
    return jobs


def _leaders_first(trainings: Sequence[Training]) -> list[Training]:
    """In an order in which each comes after the one that it starts from."""
    by_name, ordered = {arm.name: arm for arm in trainings}, dict[str, Training]()

    def add(arm: Training) -> None:
        if arm.start is not None and arm.start not in ordered:
            add(by_name[arm.start])
        ordered.setdefault(arm.name, arm)

    for arm in trainings:
        add(arm)
    return list(ordered.values())


def train_all(jobs: Sequence[Job], datasets: Path, workers: int | None = None, executor: Executor | None = None) -> None:
    """Train and evaluate world models side by side; what each process prints goes to a log beside its run."""
    names = {str(job.folder): job.folder.name for job in jobs}
    runner.run([job.task(datasets, names) for job in jobs], "runs", workers, executor)


def _with_seed(run: Run, seed: int, request: Request) -> Run:
    train = replace(run.train, decoder=run.train.decoder and seed == 0)
    run = with_settings(replace(run, seed=seed, train=train), request)
    return run if request.updates is None else with_updates(run, request.updates, request.datasets)


def with_settings(run: Run, request: Request) -> Run:
    """An arm's run with the settings that are asked for instead of its own."""
    try:
        return config.override(run, request.settings)
    except InputError as error:
        raise InputError(f"{run.name}: {error}") from error


def actors_of(arms: Sequence[Arm], jobs: Sequence[Job], request: Request, seeds: int) -> list[ActorJob]:
    """Policies, planners and references, with every seed that they have."""
    models = {(job.name, job.run.seed): job.folder for job in jobs}
    actors: list[ActorJob] = []
    for arm in arms:
        if isinstance(arm, Reference):
            out = request.out / f"{request.page}-{world_of(arm.data)}"
            actors.append(ActorJob(replace(arm, tries=arm.tries * seeds), 0, out))
        elif not isinstance(arm, Training):
            for seed in range(seeds):
                model = models.get((arm.model.name, seed), models.get((arm.model.name, 0))) if arm.model else None
                folder = request.out / "policies" / f"{arm.name}-{request.size}-seed{seed}"
                actors.append(ActorJob(_with_length(arm, request.updates), seed, folder, model))
    return actors


def _with_length(arm: Actor, updates: int | None) -> Actor:
    """A policy with its share of so many updates."""
    if updates is None or not isinstance(arm, Policy):
        return arm
    return replace(arm, config=replace(arm.config, updates=max(1, int(arm.share * updates))))


def _announce(experiment: Experiment, jobs: Sequence[Job], actors: Sequence[ActorJob], request: Request, page: Path) -> None:
    """Say what it will cost and where it goes; a caller without shared trainings says so itself."""
    if request.runs is None and jobs:
        return
    where = f"  report     {page / PAGE}"
    if jobs:
        print(f"{cost(jobs, request.workers).words(experiment.name)}\n  trainings  {request.runs}\n{where}", flush=True)
    policies = [actor for actor in actors if isinstance(actor.arm, Policy)]
    planners = [actor for actor in actors if isinstance(actor.arm, Planner)]
    if policies:
        many = "one policy" if len(policies) == 1 else f"{len(policies)} policies"
        follow = f"{many} to train and to try in closed loop"
        print(f"  then {follow}; that time is not counted" if jobs else f"{experiment.name}: {follow}\n{where}", flush=True)
    if planners:
        print(f"  then {counted(len(planners), 'model')} to plan in closed loop; that time is not counted", flush=True)


# --- after the work ------------------------------------------------------------------------------------------------


def _gathered(
    arms: Sequence[Arm], jobs: Sequence[Job], actors: Sequence[ActorJob], tried: Mapping[str, Tried], request: Request
) -> Evidence:
    """Everything that was measured, by world."""
    by_data: dict[str, list[Job]] = {}
    for job in jobs:
        if job.evaluation is not None:
            by_data.setdefault(job.evaluation.data, []).append(job)
    results = [_forecasts(some, request.datasets) for some in by_data.values()]
    trials: dict[str, list[Path]] = {}
    for actor in actors:
        trials.setdefault(actor.arm.data, []).extend(tried[actor.name].trials)
    results += [Results.of_trials(folders) for folders in trials.values()]
    latents = {weights: errors for one in tried.values() for weights, errors in one.latents.items()}
    return Evidence(arms, {one.world: one for one in results}, request.datasets, latents)


def _forecasts(jobs: Sequence[Job], datasets: Path) -> Results:
    """What was measured of these trainings on one dataset, under the names of their arms."""
    assert jobs[0].evaluation is not None
    names = {job.folder: job.name for job in jobs}
    labels = {job.name: job.label for job in jobs if job.label}
    return Results.of_runs(list(names), data=jobs[0].evaluation.name(datasets), labels=labels, names=names)


def _report(experiment: Experiment, evidence: Evidence, page: Path, request: Request) -> tuple[Answer | None, Path]:
    """Write the page; where there may be several worlds, a page for each lies beside it."""
    answer = experiment.analyse(evidence) if experiment.analyse else None
    question, words, lead = (experiment.question, answer.words, [answer.section]) if answer else ("", (), [])
    if not experiment.worlds:
        return answer, write_page(
            forecast_page(evidence.results, request.notes, question, words, lead), page, experiment.command
        )
    pages, forecasts = {}, all(isinstance(arm, Training) for arm in evidence.arms)
    for world, results in evidence.by_world.items():
        beside = page.with_name(f"{page.name}-{world}")
        if forecasts:
            content = forecast_page(results, request.notes)
        else:
            content = closed_loop_page(results, get_env(world).env_spec, films_of(results), evidence.latents)
        pages[world] = write_page(content, beside, experiment.command)
    over_all = overview_page(experiment.question, experiment.claim, words, lead, pages, page)
    return answer, write_page(over_all, page, experiment.command)
