"""The page of some folders: runs go to the studio, policies to the track."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.policies import files
from sgjepa.view.pilot import open_pilot
from sgjepa.view.scenes import Page, Room
from sgjepa.view.shown import named, open_run
from sgjepa.view.studio import Studio
from sgjepa.view.track import EXPERT, Track


def open_page(folders: Sequence[Path]) -> Page:
    """For a process that does nothing else."""
    torch.set_num_threads(1)  # one episode at a time: more threads wait for each other longer than they help
    kinds = {folder: _is_policy(folder) for folder in folders}  # before the first is opened, which takes a while
    found = named(folders, (EXPERT,))
    shown = [open_run(folder, name) for folder, name in found if not kinds[folder]]
    pilots = [open_pilot(folder, name) for folder, name in found if kinds[folder]]
    rooms: list[Room] = [Studio(shown)] if shown else []
    return Page([*rooms, Track(pilots)] if pilots else rooms)


def _is_policy(folder: Path) -> bool:
    """Refuse what is neither."""
    if not folder.exists():
        raise InputError(f"{folder} does not exist; give a folder that `sgjepa train` or `sgjepa train-policy` made")
    if files.is_policy(folder):
        return True
    if not run_folder.is_run(folder):
        raise InputError(f"{folder} is neither a run nor a policy")
    return False
