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

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sgjepa.core import config, files, run_folder
from sgjepa.core.errors import InputError, one_line
from sgjepa.models.dino import DinoConfig, DinoWM
from sgjepa.models.jepa import ModelConfig, WorldModel
from sgjepa.training.run import Run

KEPT = 2  # checkpoints; the newest may be the one before a fault
LEARNER = "learner.safetensors"


def build(model: ModelConfig | DinoConfig) -> WorldModel | DinoWM:
    """A fresh model of that config."""
    return WorldModel(model) if isinstance(model, ModelConfig) else DinoWM(model)


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
        save_file(tensors, temporary / "optimiser.safetensors", metadata={"plan": json.dumps(plan)})
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
    load_weights(checkpoint / LEARNER, modules)
    try:
        tensors = load_file(checkpoint / "optimiser.safetensors")
        with (checkpoint / "optimiser.safetensors").open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    except (OSError, SafetensorError) as error:
        raise InputError(f"{checkpoint} cannot be read ({one_line(error, 120)}); delete it to use the one before") from error
    plan = json.loads(header["__metadata__"]["plan"])
    return _unflatten(plan, tensors), files.read_json(checkpoint / "state.json")


def save_weights(path: Path, module: nn.Module) -> None:
    """All parameters and buffers, as safetensors."""
    temporary = files.temporary(path)
    try:
        save_file({name: value.contiguous() for name, value in module.state_dict().items()}, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load_weights(path: Path, module: nn.Module) -> None:
    """Fill a module from safetensors; every tensor must be there and fit."""
    try:
        module.load_state_dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read ({one_line(error, 120)})") from error
    except RuntimeError as error:
        raise InputError(f"{path} holds another model ({one_line(error, 160)})") from error


def load_run(folder: Path) -> tuple[Run, WorldModel | DinoWM]:
    """A finished run: its config and its model, in eval mode."""
    if not (folder / run_folder.CONFIG).is_file():
        raise InputError(f"{folder} is not a run (no {run_folder.CONFIG})")
    run = config.from_dict(Run, files.read_json(folder / run_folder.CONFIG).get("config"))
    if not (folder / run_folder.MODEL).is_file():
        raise InputError(f"{folder} has no finished model; run its `sgjepa train` command again first")
    model = build(run.model)
    load_weights(folder / run_folder.MODEL, model)
    return run, model.eval()


def _all(folder: Path) -> list[Path]:
    return sorted(p for p in (folder / "checkpoints").glob("step-*") if (p / "state.json").is_file())


def _flatten(value: Any) -> tuple[dict[str, Tensor], Any]:
    """Nested state to named tensors, and the same nesting with the names in their place."""
    tensors: dict[str, Tensor] = {}

    def walk(node: Any, path: str) -> Any:
        if isinstance(node, Tensor):
            tensors[path] = node.detach().contiguous()
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
