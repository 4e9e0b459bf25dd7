"""Where a cell's training lies: one folder for all studies that need it, found by everything that decides it.

The digest is of the settings that are not the usual ones, the datasets, and what it starts from; not of the names that
studies give it, nor of the picture decoder, which changes nothing in the model. A setting that is added later with a default
leaves the digests as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from sgjepa.core import run_folder
from sgjepa.recipes.training import recipe, recipes
from sgjepa.training.checkpoint import read_config
from sgjepa.training.config import Run
from sgjepa.training.data import digests_there

_DIGITS = 10  # of the digest, in a folder's name


@dataclass(frozen=True)
class Place:
    """A training and its folder, as far as it is there. digest: of all seeds."""

    run: Run
    folder: Path
    digest: str


def place_of(run: Run, runs: Path, datasets: Path, leader: Place | None = None) -> Place:
    """The folder in `runs` that holds this training, or will. leader: what it starts from.

    One that is there keeps the name, the decoder and the path of its leader that it was made with.
    """
    digest = digest_of(run, datasets, leader)
    end = f"{digest}-seed{run.seed}"
    there = sorted(path for path in runs.glob(f"*-{end}") if run_folder.is_run(path))
    if there:
        made = read_config(there[0])
        train = replace(run.train, decoder=made.train.decoder)
        return Place(replace(run, name=made.name, init=made.init, train=train), there[0], digest)
    init = run.init if leader is None else str(leader.folder)
    run = replace(run, name=_recipe_name(run) or run.name, init=init)
    return Place(run, runs / f"{run.name}-{end}", digest)


def digest_of(run: Run, datasets: Path, leader: Place | None = None) -> str:
    """Of everything that decides a training but its seed."""
    start = run.init if leader is None else leader.digest
    told = {"run": _told(_plain(run)), "data": digests_there(run, datasets), "start": start}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _plain(run: Run) -> Run:
    """Without what a study, a seed and a decoder add."""
    return replace(run, name="", seed=0, init=None, train=replace(run.train, decoder=False))


def _recipe_name(run: Run) -> str:
    """The recipe that this is; empty if it is a variant of one."""
    for name, (worlds, _) in recipes().items():
        size = run.data[0].rpartition("-")[2]
        if run.data == tuple(f"{world}-{size}" for world in worlds) and _plain(recipe(name, size)) == _plain(run):
            return name
    return ""


def _told(value: Any) -> Any:
    """A config as JSON values, without the fields that have their defaults."""
    if is_dataclass(value):
        changed = {f.name: getattr(value, f.name) for f in fields(value) if getattr(value, f.name) != _default(f)}
        return {"type": type(value).__name__, **{name: _told(item) for name, item in changed.items()}}
    if isinstance(value, Mapping):
        return {str(key): _told(item) for key, item in value.items()}
    return [_told(item) for item in value] if isinstance(value, (list, tuple)) else value


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default
