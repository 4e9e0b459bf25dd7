"""Policies trained and tried side by side, and other work of studies, one process per core."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sgjepa.core import threads
from sgjepa.core.processes import end, pool, submit
from sgjepa.core.progress import progress
from sgjepa.data.store import open_dataset
from sgjepa.policies.diffusion_model import PolicyConfig

Job = TypeVar("Job")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Pupil:
    """One policy to be trained and tried. run: the world model it sees through; None for the true state.

    tries: sampling seeds, others for each training's seed. held_out: it drives training episodes that it did not learn from,
    not test episodes. pose: it is told the robot's own, and without a run nothing else. blur: without a run, it sees places
    alone, with such an error in m.
    """

    run: Path | None
    settings: PolicyConfig
    folder: Path
    data: Path
    tries: int
    held_out: bool = False
    pose: bool = False
    blur: float | None = None


def teach(pupils: Sequence[Pupil], processes: int | None) -> dict[Path, list[Path]]:
    """Train and try policies; returns the trials of each by its folder."""
    return dict(side_by_side(_teach, pupils, processes, "policies", "trainings"))


def side_by_side(
    work: Callable[[Job], Found], jobs: Sequence[Job], processes: int | None, label: str, unit: str
) -> list[Found]:
    """work(job) for each, in processes of their own; what they return, in the order of the jobs."""
    with pool(min(len(jobs), processes or threads.cores())) as school:
        calls = submit(school, work, *((job,) for job in jobs))
        try:
            with progress(len(jobs), 0, label, unit) as bar:
                for call in as_completed(calls):
                    call.result()
                    bar.update(1)
        except BaseException:
            end(school)
            raise
        return [call.result() for call in calls]


def _teach(pupil: Pupil) -> tuple[Path, list[Path]]:
    """In a process of its own."""
    threads.prepare()
    import torch

    from sgjepa.policies.evaluate import beginnings, trained, trial
    from sgjepa.policies.features import open_features
    from sgjepa.policies.train_diffusion import train_policy

    torch.set_num_threads(1)
    dataset = open_dataset(pupil.data)
    features = open_features(pupil.run, dataset.env_spec, pupil.pose, pupil.blur)
    try:
        train_policy(pupil.settings, features, dataset, pupil.folder)
    except KeyboardInterrupt:
        os._exit(1)  # the last update is saved; a pool's process would take up the next policy
    subject = trained(pupil.folder, dataset, held_out=pupil.held_out)
    begun = beginnings(dataset, held_out=pupil.held_out)
    first = pupil.settings.seed * pupil.tries
    return pupil.folder, [trial(subject, dataset, first + k, begun) for k in range(pupil.tries)]
