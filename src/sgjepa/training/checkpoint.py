"""Checkpoints: safetensors and JSON, so that nothing is executed when one is loaded.

    checkpoints/step-0000200/
      learner.safetensors     weights, buffers, normalisers of all that is trained; the finished run has the model alone
      optimiser.safetensors   momenta and step counts
      state.json              step, seconds trained, best validation loss, epochs without a better one; digests of both
      run.json                config, datasets, and the versions and threads of the process that wrote this checkpoint

A checkpoint appears under its name when it is whole, and its files are checked before they are used. Random numbers and the
data's order are functions of seed and step, so there is nothing else to save: going on from a checkpoint is bitwise the
run that never stopped (on a CPU).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sgjepa.core import artifact, config, run_folder
from sgjepa.core.artifact import Digests, RunRecord
from sgjepa.core.errors import InputError, one_line
from sgjepa.models.base import WorldModel
from sgjepa.models.weights import load_metadata, load_tensors, load_weights, save_tensors, save_weights
from sgjepa.training.config import Run
from sgjepa.training.optim import Hybrid

KEPT = 2  # checkpoints; the newest may be the one before a fault
LEARNER, OPTIMISER, STATE = "learner.safetensors", "optimiser.safetensors", "state.json"


@dataclass(frozen=True)
class State:
    """How far a training is. best: validation loss. waited: epochs without a better one."""

    step: int = 0
    best: float | None = None
    waited: int = 0
    seconds: float = 0.0
    files: Digests = field(default_factory=dict)

    def __post_init__(self) -> None:
        config.check_bounds(self, step=(0, 1e12), waited=(0, 1e9), seconds=(0, 1e10))


def save(folder: Path, modules: nn.Module, optimiser: dict[str, Any], state: State, about: Any) -> Path:
    """Write the checkpoint of `state.step` and drop old ones. about: the record that run.json would be for this process."""
    place = folder / "checkpoints"
    place.mkdir(exist_ok=True)
    target = place / f"step-{state.step:07d}"
    temporary = artifact.temporary(target)
    temporary.mkdir()
    try:
        save_weights(temporary / LEARNER, modules)
        tensors, plan = _flatten(optimiser)
        save_tensors(temporary / OPTIMISER, tensors, {"plan": json.dumps(plan)})
        artifact.write_record(temporary / run_folder.CONFIG, about)
        digests = {name: artifact.file_digest(temporary / name) for name in (LEARNER, OPTIMISER)}
        artifact.write_record(temporary / STATE, replace(state, files=digests))
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in _all(folder)[:-KEPT]:
        shutil.rmtree(old)
    return target


def remove_leftovers(folder: Path) -> None:
    """Drop what a killed process of this run left half written; for the holder of its lock."""
    for place in (folder, folder / "checkpoints", folder / run_folder.LATENTS):
        artifact.sweep(place, mine=True)


def newest(folder: Path) -> Path | None:
    """The last whole checkpoint of a run."""
    found = _all(folder)
    return found[-1] if found else None


def step_of(checkpoint: Path) -> int:
    """Of a checkpoint, from its name."""
    return int(checkpoint.name.removeprefix("step-"))


def load(checkpoint: Path, modules: nn.Module, optimisers: Mapping[str, Hybrid]) -> State:
    """Fill the modules and the optimisers; returns how far the training was."""
    cure = f"delete {checkpoint} to use the one before"
    state = artifact.read_record(State, checkpoint / STATE, cure)
    if checkpoint.name != f"step-{state.step:07d}":
        raise InputError(f"{checkpoint / STATE} was edited: it says step {state.step}; {cure}")
    load_weights(artifact.verify(checkpoint / LEARNER, state.files, cure), modules, cure)
    tensors = load_tensors(artifact.verify(checkpoint / OPTIMISER, state.files, cure), cure)
    try:
        saved = _unflatten(json.loads(load_metadata(checkpoint / OPTIMISER, cure)["plan"]), tensors)
        for name, optimiser in optimisers.items():
            optimiser.load_state_dict(saved[name])
    except InputError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        raise InputError(
            f"{checkpoint / OPTIMISER} holds another optimiser ({one_line(repr(error), 120)}); {cure}"
        ) from error
    return replace(state, files={})


def finish(folder: Path, about: RunRecord, modules: Mapping[str, nn.Module]) -> None:
    """Write the finished modules by their files' names. The last one makes the run a finished one: run.json knows it before.

    about: as `run_folder.create` was given it; what run.json says already stays.
    """

    def note(digests: Digests) -> None:
        there = run_folder.about(folder) if (folder / run_folder.CONFIG).is_file() else about
        artifact.write_record(folder / run_folder.CONFIG, replace(there, files=digests))

    publish(folder, modules, note)


def publish(folder: Path, modules: Mapping[str, nn.Module], note: Callable[[Digests], None]) -> None:
    """Write weights by their files' names, the last one last of all. note: writes their digests to the record before."""
    waiting = {name: artifact.temporary(folder / name) for name in modules}
    try:
        for name, module in modules.items():
            save_weights(waiting[name], module)
        note({name: artifact.file_digest(path) for name, path in waiting.items()})
        for name, path in waiting.items():
            path.replace(folder / name)
    finally:
        for path in waiting.values():
            path.unlink(missing_ok=True)


def load_run(folder: Path) -> tuple[Run, WorldModel]:
    """A finished run: its config and its model, in eval mode."""
    there = run_folder.about(folder)
    run = read_config(folder)
    if not (folder / run_folder.MODEL).is_file():
        raise InputError(f"{folder} has no finished model; run its `sgjepa train` command again first")
    path = artifact.verify(folder / run_folder.MODEL, there.files, cure_of(folder))
    model = run.model.build()
    load_weights(path, model, cure_of(folder))
    return run, model.eval()


def read_config(folder: Path) -> Run:
    """What run.json says was trained."""
    there = run_folder.about(folder)
    try:
        return config.from_dict(Run, there.config)
    except InputError as error:
        raise InputError(f"{folder / run_folder.CONFIG} was edited, or written by other code: {error}") from error


def cure_of(folder: Path) -> str:
    """What to do about a finished model that is damaged: the last checkpoint has it too."""
    return f"delete {folder / run_folder.MODEL} and run its `sgjepa train` command again"


def _all(folder: Path) -> list[Path]:
    found = [p for p in (folder / "checkpoints").glob("step-*") if (p / STATE).is_file() and p.name[5:].isdecimal()]
    return sorted(found, key=step_of)  # by number: from ten million on, names are longer


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
