"""Policies trained and tried side by side, one process per core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path

from sgjepa.control.config import PolicyConfig
from sgjepa.core import machine
from sgjepa.core.progress import progress
from sgjepa.core.workers import end, pool, submit
from sgjepa.data.store import open_dataset


@dataclass(frozen=True)
class Pupil:
    """One policy to be trained and tried. run: the world model it sees through; None for the true state.

    tries: sampling seeds. held_out: it drives training episodes that it did not learn from, not test episodes.
    """

    run: Path | None
    settings: PolicyConfig
    folder: Path
    data: Path
    tries: int
    held_out: bool = False


def teach(pupils: Sequence[Pupil], processes: int | None) -> dict[Path, list[Path]]:
    """Train and try policies; returns the trials of each by its folder."""
    found: dict[Path, list[Path]] = {}
    with pool(min(len(pupils), processes or machine.cores())) as school:
        calls = submit(school, _teach, *((pupil,) for pupil in pupils))
        try:
            with progress(len(pupils), 0, "policies", "trainings and trials") as bar:
                for call in as_completed(calls):
                    folder, places = call.result()
                    found[folder] = places
                    bar.update(1)
        except BaseException:
            end(school)
            raise
    return found


def _teach(pupil: Pupil) -> tuple[Path, list[Path]]:
    """In a process of its own."""
    machine.prepare()
    import torch

    from sgjepa.control.features import open_features
    from sgjepa.control.learn import train_policy
    from sgjepa.control.trained import trained
    from sgjepa.control.trial import beginnings, trial
    from sgjepa.envs import find

    torch.set_num_threads(1)
    dataset = open_dataset(pupil.data)
    features = open_features(pupil.run, find(dataset.settings.world).world)
    try:
        train_policy(pupil.settings, features, dataset, pupil.folder)
    except KeyboardInterrupt:
        os._exit(1)  # the last update is saved; a pool's process would take up the next policy
    subject, begun = trained(pupil.folder, dataset), beginnings(dataset, held_out=pupil.held_out)
    return pupil.folder, [trial(subject, dataset, sampling, begun) for sampling in range(pupil.tries)]
