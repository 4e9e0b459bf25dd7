"""The viewer of some folders: the scenes of all runs and policies in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.evaluation.metrics import METRICS
from sgjepa.policies import files
from sgjepa.view.messages import Message
from sgjepa.view.model_scene import ModelScenes, open_model
from sgjepa.view.policy_scene import EXPERT, PolicyScenes, open_policy
from sgjepa.view.request import Choices, Request
from sgjepa.view.scenes import Scenes


class Viewer:
    """Scenes of several kinds; a request is answered by the kind that has its scene."""

    def __init__(self, kinds: Sequence[Scenes[Any]]):
        if not kinds:
            raise InputError("there is no run to view; name one: sgjepa view RUN")
        self._by_scene = {name: kind for kind in kinds for name in kind.names}
        self._kinds = tuple(kinds)

    @property
    def choices(self) -> dict[str, Choices]:
        """The choices of requests, by scene."""
        return {name: choices for kind in self._kinds for name, choices in kind.choices.items()}

    def about(self) -> dict[str, Any]:
        """The description of all scenes, sent before the first request."""
        units = {name: metric.unit for name, metric in METRICS.items()}
        return {"scenes": [scene for kind in self._kinds for scene in kind.describe()], "units": units}

    def scenes(self, name: str) -> Scenes[Any]:
        """The kind of scenes that has a scene with this name."""
        return self._by_scene[name]

    def answer(self, request: Request) -> Iterator[Message | None]:
        """Yield messages, the quick ones first, or None where the work can be dropped."""
        return self.scenes(request.scene).answer(request)

    def close(self) -> None:
        """Give back the OpenGL contexts."""
        for kind in self._kinds:
            kind.close()


def open_viewer(folders: Sequence[Path]) -> Viewer:
    """Open finished runs and policies, in a process that does nothing else."""
    torch.set_num_threads(1)  # one episode at a time: more threads wait for each other longer than they help
    is_policy = {folder: _is_policy(folder) for folder in folders}  # check all before opening the first
    names = unique_names(folders, (EXPERT,))
    models = [open_model(folder, name) for folder, name in zip(folders, names, strict=True) if not is_policy[folder]]
    policies = [open_policy(folder, name) for folder, name in zip(folders, names, strict=True) if is_policy[folder]]
    kinds: list[Scenes[Any]] = [ModelScenes(models)] if models else []
    return Viewer([*kinds, PolicyScenes(policies)] if policies else kinds)


def unique_names(folders: Sequence[Path], reserved: Sequence[str] = ()) -> list[str]:
    """A unique name for each folder; equal or reserved names get a number."""
    names = list(reserved)
    for folder in folders:
        base = folder.resolve().name
        names.append(next(n for n in (base, *(f"{base}-{i}" for i in range(2, len(names) + 3))) if n not in names))
    return names[len(reserved) :]


def _is_policy(folder: Path) -> bool:
    if not folder.exists():
        raise InputError(f"{folder} does not exist; give a folder that `sgjepa train` or `sgjepa train-policy` made")
    if not run_folder.is_run(folder) and not files.is_policy(folder):
        raise InputError(f"{folder} is neither a run nor a policy")
    return files.is_policy(folder)
