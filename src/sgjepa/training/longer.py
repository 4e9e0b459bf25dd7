"""A finished training that goes on: more updates than it was asked for at first, all else as it was.

It goes on from its last checkpoint, with the optimiser's momenta, and the learning rates of the new length. What had been
made of the shorter one stays, as a run of its own, in `before/step-N` of the folder. run.json says that it was continued, so
that it is never taken for a training without a break.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgjepa.core import config, files, records, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.records import Continued
from sgjepa.training import checkpoint
from sgjepa.training.budget import updates_there
from sgjepa.training.data import digests_there
from sgjepa.training.run import Run

_STAYS = (run_folder.CONFIG, run_folder.ROWS, "checkpoints", "tensorboard", run_folder.BEFORE)


def shorter(run: Run, folder: Path) -> Run | None:
    """The run in the folder, if it differs from this one in its length alone."""
    if not (folder / run_folder.CONFIG).is_file():
        return None
    try:
        there = checkpoint.read_config(folder)
    except InputError:  # who looks closer says why
        return None
    as_long = replace(run.train, epochs=there.train.epochs, updates=there.train.updates)
    return there if there != run and there == replace(run, train=as_long) else None


def lengthen(run: Run, there: Run, folder: Path, datasets: Path, provenance: dict[str, Any]) -> None:
    """Make the finished training `there` an unfinished one of the run's length. For the holder of the folder's lock.

    Killed at any moment, the same call does the rest.
    """
    run_folder.check(folder, there, digests_there(run, datasets))
    done, asked = updates_there(there, datasets), updates_there(run, datasets)
    if asked <= done:
        raise InputError(
            f"{folder} holds a training of {done} updates, and {asked} are asked for: it goes on to more, never back; "
            "choose another --out"
        )
    newest = checkpoint.newest(folder)
    step = 0 if newest is None else checkpoint.step_of(newest)
    place = folder / run_folder.BEFORE / f"step-{step:07d}"
    if not any((at / run_folder.MODEL).is_file() for at in (folder, place)):
        raise InputError(
            f"{folder} is not finished (step {step} of {done}); finish it with its own command, then ask for more"
        )
    if step < done:
        stopped = f"it stopped by itself at step {step} of {done}" if there.train.patience else "its last checkpoint is gone"
        raise InputError(f"{folder} cannot go on: {stopped}; start from its weights: --init {folder} and another --out")
    _set_aside(folder, place)
    about = run_folder.about(folder)
    legs = (*about.continued, Continued(step, there.train.epochs, there.train.updates))
    lengthened = replace(about, config=config.to_dict(run), continued=legs, files={}, provenance=provenance)
    records.write(folder / run_folder.CONFIG, lengthened)


def _set_aside(folder: Path, place: Path) -> None:
    """Move what was made of the finished model, itself last of all; it stays a run that can be evaluated."""
    place.mkdir(parents=True, exist_ok=True)
    for name in (run_folder.CONFIG, run_folder.ROWS):
        if (folder / name).is_file():
            files.write_bytes(place / name, (folder / name).read_bytes())
    made = [path for path in folder.iterdir() if path.name not in _STAYS and not path.name.startswith(".")]
    for path in sorted(made, key=lambda one: one.name == run_folder.MODEL):
        if (target := place / path.name).is_dir():  # finished and evaluated once more after a kill: the same results
            shutil.rmtree(target)
        path.replace(target)
