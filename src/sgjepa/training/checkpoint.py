"""Checkpoints: safetensors and JSON, so that nothing is executed when one is loaded.

    checkpoints/step-0000200/
      learner.safetensors     weights, buffers, normalisers of all trained modules; the finished run has the model only
      optimiser.safetensors   momenta and step counts
      artifact.json           step, seconds trained, best validation loss, epochs without improvement; digests of both;
                              config, datasets, and the versions and threads of the process that wrote this checkpoint

A checkpoint appears under its name when it is complete, and its files are checked before they are used. Random numbers and
the data's order are functions of seed and step, so nothing else is saved: a resumed run is bitwise identical to one that
never stopped (on a CPU).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError, one_line
from sgjepa.core.files import Digests
from sgjepa.core.run_folder import RunRecord
from sgjepa.models.base import WorldModel
from sgjepa.models.weights import load_metadata, load_tensors, load_weights, save_tensors, save_weights
from sgjepa.training.config import Run
from sgjepa.training.optim import Hybrid

KEPT = 2  # checkpoints; the newest may be the one before a fault
CHECKPOINTS, LEARNER, OPTIMISER = "checkpoints", "learner.safetensors", "optimiser.safetensors"
MADE_BY = "sgjepa train"


@dataclass(frozen=True)
class State:
    """The progress of a training. best: the lowest validation loss. waited: epochs without a lower one."""

    step: int = 0
    best: float | None = None
    waited: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        config.check_bounds(self, step=(0, 1e12), waited=(0, 1e9), seconds=(0, 1e10))


@dataclass(frozen=True)
class _Saved(State):
    """The record of a checkpoint. trained: the run's record as of the process that wrote it."""

    made_by: ClassVar[str] = MADE_BY
    trained: dict[str, Any] = field(default_factory=dict)


def save(folder: Path, modules: nn.Module, optimiser: dict[str, Any], state: State, about: Any) -> Path:
    """Write the checkpoint of `state.step` and drop old ones. about: the run's record as of this process."""
    target = folder / CHECKPOINTS / f"step-{state.step:07d}"
    tensors, plan = _flatten(optimiser)
    with artifact.artifact(target, {"step": state.step}, MADE_BY, replace=True, inside=folder) as new:
        save_weights(new.path / LEARNER, modules)
        save_tensors(new.path / OPTIMISER, tensors, {"plan": json.dumps(plan)})
        new.about = {**config.to_dict(state), "trained": config.to_dict(about)}
    for old in _all(folder)[:-KEPT]:
        shutil.rmtree(old)
    return target


def remove_leftovers(folder: Path) -> None:
    """Delete incomplete files of a killed process of this run; the caller holds its lock."""
    for path in (folder, folder / run_folder.LATENTS):
        files.sweep(path, mine=True)
    for path in (folder / CHECKPOINTS).glob("step-*"):
        if not _is_saved(path) and MADE_BY in (artifact.made_by(path), artifact.made_by(path / artifact.PARTIAL)):
            shutil.rmtree(path)


def newest(folder: Path) -> Path | None:
    """The last complete checkpoint of a run."""
    checkpoints = _all(folder)
    return checkpoints[-1] if checkpoints else None


def step_of(checkpoint: Path) -> int:
    """The step of a checkpoint, from its folder's name."""
    return int(checkpoint.name.removeprefix("step-"))


def load(checkpoint: Path, modules: nn.Module, optimisers: Mapping[str, Hybrid]) -> State:
    """Load the modules and the optimisers; returns the progress of the training."""
    try:
        saved = artifact.read_record(_Saved, checkpoint)
        if checkpoint.name != f"step-{saved.step:07d}":
            raise InputError(f"{checkpoint / artifact.RECORD} was edited: it says step {saved.step}")
        load_weights(artifact.checked(checkpoint, LEARNER), modules)
        path = artifact.checked(checkpoint, OPTIMISER)
        tensors = load_tensors(path)
        try:
            state = _unflatten(json.loads(load_metadata(path)["plan"]), tensors)
            for name, optimiser in optimisers.items():
                optimiser.load_state_dict(state[name])
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
            raise InputError(f"{path} holds another optimiser ({one_line(repr(error), 120)})") from error
    except InputError as error:
        raise InputError(f"{str(error).partition('; delete ')[0]}; delete {checkpoint} to use the one before") from error
    return State(saved.step, saved.best, saved.waited, saved.seconds)


def finish(folder: Path, about: RunRecord, modules: Mapping[str, nn.Module]) -> None:
    """Write the finished modules by file name. The last one makes the run a finished one.

    about: the record passed to `run_folder.create`; its existing fields stay.
    """

    def note(digests: Digests) -> None:
        record = run_folder.about(folder) if (folder / run_folder.CONFIG).is_file() else about
        artifact.write_record(folder, replace(record, files=digests))

    publish(folder, modules, note)


def publish(folder: Path, modules: Mapping[str, nn.Module], note: Callable[[Digests], None]) -> None:
    """Write weights by file name, in order. note: writes their digests to the record before."""
    waiting = {name: files.temporary(folder / name) for name in modules}
    try:
        for name, module in modules.items():
            save_weights(waiting[name], module)
        note({name: files.file_digest(path) for name, path in waiting.items()})
        for name, path in waiting.items():
            path.replace(folder / name)
    finally:
        for path in waiting.values():
            path.unlink(missing_ok=True)


def load_run(folder: Path) -> tuple[Run, WorldModel]:
    """Load a finished run: its config and its model, in eval mode."""
    run = read_config(folder)
    if not (folder / run_folder.MODEL).is_file():
        raise InputError(f"{folder} has no finished model; run its `sgjepa train` command again first")
    path = artifact.checked(folder, run_folder.MODEL)
    model = run.model.build()
    load_weights(path, model)
    return run, model.eval()


def read_config(folder: Path) -> Run:
    """The configuration of a run."""
    record = run_folder.about(folder)
    try:
        return config.from_dict(Run, record.config)
    except InputError as error:
        raise InputError(f"{folder / run_folder.CONFIG} was edited, or written by other code: {error}") from error


def _all(folder: Path) -> list[Path]:
    checkpoints = [p for p in (folder / CHECKPOINTS).glob("step-*") if p.name[5:].isdecimal() and _is_saved(p)]
    return sorted(checkpoints, key=step_of)  # by number: from ten million on, names are longer


def _is_saved(checkpoint: Path) -> bool:
    try:
        return (checkpoint / artifact.RECORD).is_file() and artifact.is_whole(checkpoint)
    except InputError:  # damaged: loading it reports that
        return True


def _flatten(value: Any) -> tuple[dict[str, Tensor], Any]:
    """Nested state to named tensors, and the same nesting with the names in their place."""
    tensors: dict[str, Tensor] = {}

    def walk(node: Any, path: str) -> Any:
        if isinstance(node, Tensor):
            tensors[path] = node
            return {"tensor": path}
        if isinstance(node, dict):
            return {"dict": [[key, walk(item, f"{path}.{key}")] for key, item in node.items()]}
        if isinstance(node, (list, tuple)):
            return {"list": [walk(item, f"{path}.{i}") for i, item in enumerate(node)]}
        return {"value": node}

    return tensors, walk(value, "state")


def _unflatten(plan: Any, tensors: dict[str, Tensor]) -> Any:
    if "tensor" in plan:
        return tensors[plan["tensor"]]
    if "dict" in plan:
        return {key: _unflatten(item, tensors) for key, item in plan["dict"]}
    if "list" in plan:
        return [_unflatten(item, tensors) for item in plan["list"]]
    return plan["value"]
