"""Checkpoints: safetensors and JSON, so that nothing is executed when one is loaded.

    checkpoints/step-0000200/
      learner.safetensors     weights, buffers, normalisers of all that is trained; the finished run has the model alone
      optimiser.safetensors   momenta and step counts
      state.json              step, seconds trained, best validation loss, epochs without a better one
      run.json                config, datasets, and the versions and threads of the process that wrote this checkpoint

A checkpoint appears under its name when it is whole. Random numbers and the data's order are functions of seed and step,
so there is nothing else to save: going on from a checkpoint is bitwise the run that never stopped (on a CPU).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sgjepa.core import config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.models.base import WorldModel
from sgjepa.training.run import Run
from sgjepa.training.weights import load_metadata, load_tensors, load_weights, save_tensors, save_weights

KEPT = 2  # checkpoints; the newest may be the one before a fault
LEARNER, OPTIMISER = "learner.safetensors", "optimiser.safetensors"


def save(folder: Path, modules: nn.Module, optimiser: dict[str, Any], state: dict[str, Any], about: dict[str, Any]) -> Path:
    """Write the checkpoint of `state["step"]` and drop old ones. about: what run.json would say of this process."""
    place = folder / "checkpoints"
    place.mkdir(exist_ok=True)
    target = place / f"step-{state['step']:07d}"
    temporary = files.temporary(target)
    temporary.mkdir()
    try:
        save_weights(temporary / LEARNER, modules)
        tensors, plan = _flatten(optimiser)
        save_tensors(temporary / OPTIMISER, tensors, {"plan": json.dumps(plan)})
        files.write_json(temporary / run_folder.CONFIG, about)
        files.write_json(temporary / "state.json", state)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in _all(folder)[:-KEPT]:
        shutil.rmtree(old)
    return target


def remove_leftovers(folder: Path) -> None:
    """Drop what a killed process of this run left half written."""
    for path in [*folder.glob(".*.tmp"), *(folder / "checkpoints").glob(".step-*")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def newest(folder: Path) -> Path | None:
    """The last whole checkpoint of a run."""
    found = _all(folder)
    return found[-1] if found else None


def load(checkpoint: Path, modules: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fill the modules; returns the optimiser's state and the training state."""
    cure = f"delete {checkpoint} to use the one before"
    load_weights(checkpoint / LEARNER, modules, cure)
    tensors = load_tensors(checkpoint / OPTIMISER, cure)
    plan = json.loads(load_metadata(checkpoint / OPTIMISER, cure)["plan"])
    return _unflatten(plan, tensors), files.read_json(checkpoint / "state.json")


def load_run(folder: Path) -> tuple[Run, WorldModel]:
    """A finished run: its config and its model, in eval mode."""
    if not (folder / run_folder.CONFIG).is_file():
        raise InputError(f"{folder} is not a run (no {run_folder.CONFIG})")
    run = config.from_dict(Run, files.read_json(folder / run_folder.CONFIG).get("config"))
    if not (folder / run_folder.MODEL).is_file():
        raise InputError(f"{folder} has no finished model; run its `sgjepa train` command again first")
    model = run.model.build()
    load_weights(folder / run_folder.MODEL, model)
    return run, model.eval()


def _all(folder: Path) -> list[Path]:
    return sorted(p for p in (folder / "checkpoints").glob("step-*") if (p / "state.json").is_file())


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
