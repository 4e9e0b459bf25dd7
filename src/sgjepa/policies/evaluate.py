"""Trials: closed-loop evaluations of policies and planners on a dataset's episodes, saved as artefacts.

A `Subject` is what is evaluated: a learned policy (`trained`), a scripted one (`untrained`), or a planner
(planning/load.py). `beginnings` selects the episodes; `trial` runs a subject on them in batches, and continues after an
interruption.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.core.provenance import provenance
from sgjepa.core.run_folder import Continued
from sgjepa.core.tables import read_table, write_table
from sgjepa.data.config import SPLIT_SEED, begin_episode, make_env, with_mesh_digest
from sgjepa.data.store import Dataset, training_samplers, unseen
from sgjepa.envs.robots import MENAGERIE
from sgjepa.evaluation.records import LawRecord
from sgjepa.policies.base import Policy
from sgjepa.policies.closed_loop import WAVE, Driven, drive, together
from sgjepa.policies.files import CONTROLS, ROWS, SPLIT, TRIALS, TRIED_BY, WEIGHTS, ControlRecord, Driver, TrialSettings
from sgjepa.policies.goal_tasks import Cases, Start, cases_of, starts
from sgjepa.policies.learned import LearnedPolicy, load_policy
from sgjepa.policies.scripted import simple
from sgjepa.policies.tasks import task_of
from sgjepa.policies.vector_env import Fleet
from sgjepa.training.checkpoint import read_config
from sgjepa.training.config import Run

MADE_BY = TRIED_BY
_WAVES = ".waves"  # finished batches of an unfinished trial
HELD_OUT = "held-out"
REFERENCES = "references"  # trials of scripted policies, below the folder of the page
_FEW = 10  # episodes per batch of a planner: a plan takes seconds, and only finished batches are saved
_MEANING = 1  # raise it when the meaning of the rows changes: older trials are then refused
_SECONDS = "seconds.json"  # of a wave
# settings in which trainings of one group may differ, or that do not change the policy
_INCIDENTAL = ("seed", "type", "validation", "log_every", "validate_every", "save_every")


@dataclass(frozen=True)
class Subject:
    """A policy to evaluate. folder: for its trials. how: its settings, for the record."""

    driver: Driver
    policy: Policy
    folder: Path
    how: dict[str, Any]
    differs: str = ""  # settings in `how` that are not the default, for the folder's name


@dataclass(frozen=True)
class Beginnings:
    """Starts of episodes. cases: planning cases; None: whole episodes. split: its name. whole: whether it is complete."""

    starts: tuple[Start, ...]
    cases: Cases | None = None
    split: str = SPLIT
    whole: bool = True


def trained(folder: Path, dataset: Dataset, execute: int | None = None, *, held_out: bool = False) -> Subject:
    """The finished policy in a folder; its trials go there. execute: E, the task's default if None.

    held_out: it is evaluated on training episodes that it did not learn from.
    """
    policy = load_policy(folder, execute)
    policy.check(dataset)
    if held_out:
        _check_held_out(folder, policy, dataset)
    default = task_of(dataset.settings.world).execute
    return Subject(
        driver=driver_of(folder, policy),
        policy=policy,
        folder=folder / TRIALS,
        how=policy.how,
        differs="" if policy.execute == default else f"execute{policy.execute}",
    )


def untrained(name: str, dataset: Dataset, out: Path) -> Subject:
    """A policy without training (policies/scripted.py); its trials go below `out`."""
    task_of(dataset.settings.world)
    policy = simple(name, dataset.env_spec)
    return Subject(Driver(name, name), policy, out / REFERENCES / name, how={})


def _check_held_out(folder: Path, policy: LearnedPolicy, dataset: Dataset) -> None:
    """Raise an InputError if the policy, or the run of its features, may have learned from the held-out episodes."""
    settings, source = policy.record.settings, policy.record.settings.source
    _check_data("the policy", settings.data, source.split_seed, dataset)
    if source.run:
        check_run(folder / source.run, source.split_seed, dataset)


def driver_of(folder: Path, policy: LearnedPolicy) -> Driver:
    """The policy's identity in the records of its trials."""
    settings = policy.record.settings
    shared = {key: value for key, value in settings.config.items() if key not in _INCIDENTAL}
    source = folder / settings.source.run if settings.source.run else None
    run, continued = (None, ()) if source is None else (read_config(source), run_folder.about(source).continued)
    shared |= {**family(settings.source.name, run, continued), "data": dict(settings.data)}
    shared |= {"encoder": policy.encoder} if policy.encoder else {}
    shared |= {"pose": True} if settings.source.pose else {}
    shared |= {} if settings.source.blur is None else {"blur": settings.source.blur}
    return Driver(
        folder.resolve().name, settings.source.name, int(settings.config["seed"]), shared, policy.record.files[WEIGHTS]
    )


def family(name: str, run: Run | None = None, continued: Sequence[Continued] = ()) -> dict[str, Any]:
    """Settings shared by trainings that differ in the seed: the folder's name without seed, and the training length.

    run: None if there is no run. continued: shorter lengths that the training was finished with before.
    """
    length: dict[str, Any] = {} if run is None else {"trained": {"epochs": run.train.epochs, "updates": run.train.updates}}
    length |= {"continued": [leg.step for leg in continued]} if continued else {}
    return {"source": re.sub(r"-seed\d+$", "", name), **length}


def check_run(folder: Path, split_seed: int, dataset: Dataset) -> None:
    """Raise an InputError if a run may have learned from the held-out episodes of a dataset of its world."""
    about, world = run_folder.about(folder), dataset.settings.world
    if world in (about.worlds or (world,)):
        _check_data(folder.resolve().name, about.data, split_seed, dataset)


def _check_data(who: str, data: Mapping[str, str], split_seed: int, dataset: Dataset) -> None:
    """Raise an InputError if `who` may have learned from the held-out episodes. data: digests of its datasets, by name."""
    if dataset.manifest.digest not in data.values() or split_seed != SPLIT_SEED:
        raise InputError(
            f"the training episodes of {dataset.path.resolve().name} that were held out from {who} are not known: it was "
            f"trained on {', '.join(data)}; give that dataset, or evaluate on test episodes, without --held-out"
        )


# --- the trial -------------------------------------------------------------------------------------------------------


def beginnings(
    dataset: Dataset, episodes: int | None = None, cases: Cases | None = None, held_out: bool = False
) -> Beginnings:
    """The starts of planning cases, or of the first `episodes` test episodes (None: all).

    held_out: use the training episodes that no model and no policy learned from, to select settings.
    """
    _check_world(dataset)
    part, numbers = unseen(dataset, held_out)
    if cases is not None:
        return Beginnings(tuple(cases_of(dataset, cases, held_out)), cases, part.name)
    count = len(numbers) if episodes is None else episodes
    if not 1 <= count <= len(numbers):
        kind = "held-out" if held_out else "test"
        raise InputError(f"{dataset.path} has {len(numbers)} {kind} episodes, not {count} (--episodes)")
    return Beginnings(tuple(starts(dataset.settings, part.name, numbers[:count])), None, part.name, count == len(numbers))


def _check_world(dataset: Dataset) -> None:
    """Raise an InputError if the world has changed since the dataset was made: its episodes would start differently."""
    env, part = make_env(dataset.settings), dataset.test
    begin_episode(dataset.settings, env, SPLIT, 0)
    now, recorded = env.state().astype(np.float64), part.state[0, 0].astype(np.float64)
    env.close()
    if not np.allclose(now, recorded, rtol=1e-4, atol=5e-4):
        far = float(np.abs(now - recorded).max())
        raise InputError(
            f"{dataset.path} was made with another simulator: its first test episode starts {far:.2g} away from "
            f"the current simulator's; make it again with `sgjepa data {dataset.settings.world}`"
        )


def trial(
    subject: Subject,
    dataset: Dataset,
    sampling: int,
    begun: Beginnings | None = None,
    processes: int = 1,
) -> Path:
    """Evaluate a subject on episodes with these starts (None: the whole test split); returns the trial's folder."""
    task_of(dataset.settings.world)
    begun = begun or beginnings(dataset)
    if with_mesh_digest(dataset.settings) != dataset.settings:  # the opposite case raises an InputError in this call
        raise InputError(f"{dataset.path} was drawn without Menagerie's meshes; unset {MENAGERIE}")
    count, cases, part = len(begun.starts), begun.cases, dataset.test if begun.split == SPLIT else dataset.train
    settings = TrialSettings(subject.driver, subject.how, part.digest, begun.split, count, sampling, _MEANING, cases)
    which = ("" if begun.split == SPLIT else HELD_OUT, "" if begun.whole else f"first{count}")
    differs = "-".join(part for part in (subject.differs, *which, _case_settings(cases)) if part)
    name = "-".join(part for part in (dataset.path.resolve().name, f"seed{sampling}", differs) if part)
    folder = subject.folder / name
    key = {"settings": config.to_dict(settings)}
    with artifact.artifact(folder, key, MADE_BY, resumable=True, inside=subject.folder) as new:
        if not new.finished:
            waves = new.path / _WAVES
            waves.mkdir(exist_ok=True)
            done = together(list(_waves(subject, dataset, settings, waves, processes, begun.starts)))
            write_table(new.path / ROWS, done.rows)
            write_table(new.path / CONTROLS, done.controls)
            seconds = round(sum(files.read_json(path) for path in waves.glob(f"*-{_SECONDS}")), 2)
            new.about = config.to_dict(_record(dataset, settings, done, seconds, differs))
    return folder


def _record(dataset: Dataset, settings: TrialSettings, done: Driven, seconds: float, differs: str) -> ControlRecord:
    measures = dataset.env_spec.measures
    return ControlRecord(
        dataset=dataset.path.resolve().name,
        played=dataset.settings,
        laws={
            name: LawRecord(dataset.test.about["laws"][name], sampler)
            for name, sampler in training_samplers(dataset).items()
        },
        measures=measures,
        settings=settings,
        scores={measure.name: _mean(done.rows[measure.name]) for measure in measures},
        seconds=seconds,
        provenance=provenance(),
        differs=differs,
    )


def _case_settings(cases: Cases | None) -> str:
    """The number of cases and their settings that are not the default, for a folder's name."""
    if cases is None:
        return ""
    default = Cases(cases.count)
    changed = [f"{name}{value}" for name, value in vars(cases).items() if value != getattr(default, name)]
    return "-".join([f"cases{cases.count}", *changed])


def _mean(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _waves(
    subject: Subject,
    dataset: Dataset,
    settings: TrialSettings,
    partial: Path,
    processes: int,
    begun: Sequence[Start],
) -> Iterator[Driven]:
    """The outcomes of every batch; finished ones are read from files. Processes start with the first unfinished batch."""
    spec, steps = dataset.env_spec, settings.cases.budget if settings.cases else None
    wave = _FEW if hasattr(subject.policy, "seconds") else WAVE
    parts = [begun[first : first + wave] for first in range(0, len(begun), wave)]
    finished = [_finished(partial, i, part) for i, part in enumerate(parts)]
    count = sum(len(part) for part, driven in zip(parts, finished, strict=True) if driven)
    label = f"{subject.driver.name}, seed {settings.sampling}"
    with ExitStack() as stack, progress(settings.episodes, count, label, "episodes") as bar:
        fleet: Fleet | None = None
        for i, (part, driven) in enumerate(zip(parts, finished, strict=True)):
            if driven is None:
                began = time.perf_counter()
                fleet = fleet or stack.enter_context(Fleet(dataset.settings, subject.policy.observes, processes))
                driven = drive(subject.policy, fleet, spec, settings.split, part, settings.sampling, steps)
                write_table(partial / f"{i:05d}-{CONTROLS}", driven.controls)
                files.write_json(partial / f"{i:05d}-{_SECONDS}", time.perf_counter() - began)
                write_table(partial / f"{i:05d}-{ROWS}", driven.rows)  # last: this file marks the batch as finished
                bar.update(len(part))
            yield driven


def _finished(partial: Path, wave: int, begun: Sequence[Start]) -> Driven | None:
    rows, controls = (partial / f"{wave:05d}-{name}" for name in (ROWS, CONTROLS))
    if not rows.is_file():
        return None
    try:
        driven = Driven(read_table(rows), read_table(controls))
    except InputError:  # damaged: run it again
        return None
    numbers = [start.number for start in begun]
    whole = driven.rows["episode"].tolist() == numbers and len(driven.controls["step"]) == driven.rows["steps"].sum()
    return driven if whole else None
