"""A trial: one policy on the test episodes of a dataset with one sampling seed, kept beside the policy.

Work goes wave by wave to a hidden folder; a trial that was killed goes on after its last finished wave. One that is there,
of the same policy, data and settings, is kept.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.control.cases import Cases, cases_of, starts
from sgjepa.control.closed_loop import WAVE, Driven, drive_from, together
from sgjepa.control.fleet import Fleet
from sgjepa.control.policy import Plans, Policy
from sgjepa.control.records import CONTROLS, RECORD, ROWS, SPLIT, ControlRecord, Driver, TrialSettings, cure
from sgjepa.control.simple import simple
from sgjepa.control.start import Start
from sgjepa.control.tasks import task_of
from sgjepa.core import config, files, lock, output, records, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.core.tables import read_table, write_table
from sgjepa.data.config import begin_episode, make_env, with_meshes
from sgjepa.data.store import Dataset, training_samplers, unseen
from sgjepa.envs.robots.robot import MENAGERIE
from sgjepa.evaluation.records import LawRecord

MADE_BY = "sgjepa control"
FILES = (RECORD, ROWS, CONTROLS)
HELD_OUT = "held-out"
REFERENCES = "references"  # trials of policies that learn nothing, below the folder of the page
_FEW = 10  # episodes of a planner at a time: a plan takes seconds, and what is finished is kept
_MEANING = 1  # raise it when the rows come to mean something else: trials made before are then done anew
_SECONDS = "seconds.json"  # of a wave


@dataclass(frozen=True)
class Subject:
    """A policy, what its record says of it, and the folder that its trials go to."""

    driver: Driver
    policy: Policy
    folder: Path
    how: dict[str, Any]
    differs: str = ""  # what about `how` is not usual, for the folder's name


@dataclass(frozen=True)
class Beginnings:
    """The episodes that are driven, found once for all who drive them. cases: what was asked; None: whole episodes.

    split: that they are numbered in. whole: they are all that there are.
    """

    starts: tuple[Start, ...]
    cases: Cases | None = None
    split: str = SPLIT
    whole: bool = True


def untrained(name: str, dataset: Dataset, out: Path) -> Subject:
    """One of control/simple.py; its trials go below `out`."""
    task_of(dataset.settings.world)
    policy = simple(name, dataset.settings.spec)
    return Subject(Driver(name, name), policy, out / REFERENCES / name, how={})


def trial(
    subject: Subject,
    dataset: Dataset,
    sampling: int,
    begun: Beginnings | None = None,
    processes: int = 1,
) -> Path:
    """Let a policy drive the episodes that begin so, all of the test split if None; returns the trial's folder."""
    task_of(dataset.settings.world)
    begun = begun or beginnings(dataset)
    if with_meshes(dataset.settings) != dataset.settings:  # the other way round it is refused there
        raise InputError(f"{dataset.path} was drawn without Menagerie's meshes; unset {MENAGERIE}")
    count, cases, part = len(begun.starts), begun.cases, dataset.test if begun.split == SPLIT else dataset.train
    settings = TrialSettings(subject.driver, subject.how, part.digest, begun.split, count, sampling, _MEANING, cases)
    which = ("" if begun.split == SPLIT else HELD_OUT, "" if begun.whole else f"first{count}")
    differs = "-".join(part for part in (subject.differs, *which, _unusual(cases)) if part)
    name = "-".join(part for part in (dataset.path.resolve().name, f"seed{sampling}", differs) if part)
    place = subject.folder / name
    if _kept(place, settings):
        return place
    with lock.alone(subject.folder):
        if not _kept(place, settings):  # perhaps since we looked
            run_folder.require_free(place / RECORD, config.told(settings), "move it away to try anew")
            output.check(place, MADE_BY, FILES)
            _try(subject, dataset, settings, place, differs, processes, begun.starts)
    return place


def beginnings(
    dataset: Dataset, episodes: int | None = None, cases: Cases | None = None, held_out: bool = False
) -> Beginnings:
    """Of planning cases, or of the first so many test episodes, all if None.

    held_out: of the training episodes that no model and no policy learned from, to choose settings by.
    """
    _check_world(dataset)
    part, numbers = unseen(dataset, held_out)
    if cases is not None:
        return Beginnings(tuple(cases_of(dataset, cases, held_out)), cases, part.name)
    count = len(numbers) if episodes is None else episodes
    if not 1 <= count <= len(numbers):
        kind = "held-out" if held_out else "test"
        raise InputError(f"{dataset.path} has {len(numbers)} {kind} episodes; {count} were asked for (--episodes)")
    return Beginnings(tuple(starts(dataset.settings, part.name, numbers[:count])), None, part.name, count == len(numbers))


def _check_world(dataset: Dataset) -> None:
    """Refuse a dataset whose world has changed since: its test episodes would begin otherwise than it says."""
    env, part = make_env(dataset.settings), dataset.test
    begin_episode(dataset.settings, env, SPLIT, 0)
    here, there = env.state().astype(np.float64), part.state[0, 0].astype(np.float64)
    env.close()
    if not np.allclose(here, there, rtol=1e-4, atol=5e-4):
        far = float(np.abs(here - there).max())
        raise InputError(
            f"{dataset.path} was made with another simulator: its first test episode begins {far:.2g} elsewhere than the "
            f"world does now; make it again with `sgjepa data {dataset.settings.world}`"
        )


def _unusual(cases: Cases | None) -> str:
    """Their number, and what differs from the usual ones."""
    if cases is None:
        return ""
    usual = Cases(cases.count)
    changed = [f"{name}{value}" for name, value in vars(cases).items() if value != getattr(usual, name)]
    return "-".join([f"cases{cases.count}", *changed])


def _kept(place: Path, settings: TrialSettings) -> bool:
    """Done before, with these settings; its files are the ones that were written."""
    asked = config.told(settings)
    there = records.kept(place / RECORD, asked, ControlRecord, cure(place))
    if there is None and settings.cases is None:  # trials made before there were cases do not mention them
        without = {key: value for key, value in asked.items() if key != "cases"}
        there = records.kept(place / RECORD, without, ControlRecord, cure(place))
    if there is None:
        return False
    for name in there.files:
        files.verify(place / name, there.files, cure(place))
    return True


def _try(
    subject: Subject,
    dataset: Dataset,
    settings: TrialSettings,
    place: Path,
    differs: str,
    processes: int,
    begun: Sequence[Start],
) -> None:
    """Drive what is missing, and write all files at once."""
    world = dataset.settings.spec
    digest = hashlib.sha256(files.to_json(config.told(settings)).encode()).hexdigest()[:12]
    partial = place.parent / f".{place.name}-{digest}.partial"
    partial.mkdir(parents=True, exist_ok=True)
    files.sweep(partial, mine=True)
    done = together(list(_waves(subject, dataset, settings, partial, processes, begun)))
    scores = {one.name: _mean(done.rows[one.name]) for one in world.measures}
    about = ControlRecord(
        dataset=dataset.path.resolve().name,
        played=dataset.settings,
        laws={
            name: LawRecord(dataset.test.about["laws"][name], sampler)
            for name, sampler in training_samplers(dataset).items()
        },
        measures=world.measures,
        settings=settings,
        scores=scores,
        seconds=round(sum(files.read_json(path) for path in partial.glob(f"*-{_SECONDS}")), 2),
        provenance=files.provenance(),
        differs=differs,
    )
    with output.output_folder(place, MADE_BY, RECORD, FILES) as staged:
        write_table(staged / ROWS, done.rows)
        write_table(staged / CONTROLS, done.controls)
        digests = {name: files.digest(staged / name) for name in (ROWS, CONTROLS)}
        records.write(staged / RECORD, replace(about, files=digests))
    shutil.rmtree(partial, ignore_errors=True)


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
    """Every wave, those that are finished from their files. Processes are started for the first one that is not."""
    world, steps = dataset.settings.spec, settings.cases.budget if settings.cases else None
    wave = _FEW if isinstance(subject.policy, Plans) else WAVE
    parts = [begun[first : first + wave] for first in range(0, len(begun), wave)]
    there = [_finished(partial, i, part) for i, part in enumerate(parts)]
    kept = sum(len(part) for part, found in zip(parts, there, strict=True) if found)
    label = f"{subject.driver.name}, seed {settings.sampling}"
    with ExitStack() as stack, progress(settings.episodes, kept, label, "episodes") as bar:
        fleet: Fleet | None = None
        for i, (part, found) in enumerate(zip(parts, there, strict=True)):
            if found is None:
                began = time.perf_counter()
                fleet = fleet or stack.enter_context(Fleet(dataset.settings, subject.policy.sees, processes))
                found = drive_from(subject.policy, fleet, world, settings.split, part, settings.sampling, steps)
                write_table(partial / f"{i:05d}-{CONTROLS}", found.controls)
                files.write_json(partial / f"{i:05d}-{_SECONDS}", time.perf_counter() - began)
                write_table(partial / f"{i:05d}-{ROWS}", found.rows)  # last: it says that the wave is whole
                bar.update(len(part))
            yield found


def _finished(partial: Path, wave: int, begun: Sequence[Start]) -> Driven | None:
    rows, controls = (partial / f"{wave:05d}-{name}" for name in (ROWS, CONTROLS))
    if not rows.is_file():
        return None
    try:
        found = Driven(read_table(rows), read_table(controls))
    except InputError:  # damaged: drive it again
        return None
    numbers = [start.number for start in begun]
    whole = found.rows["episode"].tolist() == numbers and len(found.controls["step"]) == found.rows["steps"].sum()
    return found if whole else None
