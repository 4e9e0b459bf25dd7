"""Export of the viewer as files: a page with all numbers, and its frames, computed over a grid of laws and launches.

DIR/index.html, DIR/frames/*.webp. It opens from disk or from any file server, and makes no requests to other hosts.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sgjepa.core import artifact
from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.policies.vector_env import Outcome
from sgjepa.view import html
from sgjepa.view.messages import Message
from sgjepa.view.model_scene import ModelScenes
from sgjepa.view.policy_scene import PolicyScenes
from sgjepa.view.request import Request, Slider
from sgjepa.view.scenes import Scenes
from sgjepa.view.viewer import Viewer

MADE_BY, PAGE, FRAMES = "sgjepa view --export", "index.html", "frames"
_COLUMNS = 8  # frames in a row of a sheet
_MAX_SHEETS = 20_000


@dataclass(frozen=True)
class Grid:
    """The grid of an export. laws: values per law, evenly spaced over its slider. seeds: number of launches, from 0."""

    laws: int = 9
    seeds: int = 3

    def __post_init__(self) -> None:
        if self.laws < 2 or self.seeds < 1:
            raise InputError(f"an export needs at least 2 values of a law and 1 launch, got {self.laws} and {self.seeds}")

    def values(self, slider: Slider) -> list[float]:
        """The values of a law; the nearest one is replaced by the slider's start value."""
        values = np.linspace(slider.low, slider.high, self.laws).round(4)
        values[np.abs(values - slider.start).argmin()] = slider.start
        return [float(value) for value in values]


def export(viewer: Viewer, folder: Path, grid: Grid) -> Path:
    """Write the page, replacing an earlier export in the folder; returns its path."""
    artifact.require_free(folder, MADE_BY)
    steps = {
        name: {slider.name: grid.values(slider) for slider in choices.sliders} for name, choices in viewer.choices.items()
    }
    laws = {
        name: [dict(zip(values, law, strict=True)) for law in product(*values.values())] for name, values in steps.items()
    }
    total = sum(grid.seeds * _count_sheets(viewer.scenes(name), name, len(several)) for name, several in laws.items())
    if total > _MAX_SHEETS:
        raise InputError(
            f"that would be {total:,} films, more than {_MAX_SHEETS:,}; take fewer --laws or --seeds, or fewer runs"
        )
    cases: dict[str, Any] = {}
    with artifact.artifact(folder, asdict(grid), MADE_BY, replace=True) as new:
        (new.path / FRAMES).mkdir()
        with progress(total, 0, "export", "films") as bar:
            for name, several in laws.items():
                sheets, scenes = _Sheets(new.path, name, bar), viewer.scenes(name)
                cases[name] = [
                    {_key(law): _case(scenes, sheets, name, seed, law, several) for law in several}
                    for seed in range(grid.seeds)
                ]
        about = viewer.about()
        for scene in about["scenes"]:
            if scene["kind"] == PolicyScenes.kind:
                scene["opening"] = _opening(scene, cases[scene["name"]], laws[scene["name"]])
        data = {"about": about, "steps": steps, "seeds": list(range(grid.seeds)), "cases": cases}
        text = html.standalone_page(json.dumps(data, allow_nan=False, separators=(",", ":")))
        (new.path / PAGE).write_text(text, encoding="utf-8")
    return folder / PAGE


def _count_sheets(scenes: Scenes[Any], name: str, laws: int) -> int:
    """The number of films of one launch: for a policy every law, for a model every pair of its law and the simulation's."""
    models = len(scenes.choices[name].models)
    return laws * models if isinstance(scenes, PolicyScenes) else laws * (1 + laws * models)


def _opening(scene: dict[str, Any], cases: list[dict[str, Any]], laws: list[dict[str, float]]) -> dict[str, Any] | None:
    """The initial state of the page: a success of the first policy that has one, under the law nearest to its training."""
    start = {slider["name"]: (slider["start"], slider["high"] - slider["low"]) for slider in scene["laws"]}
    nearest = sorted(laws, key=lambda law: sum(abs(law[name] - value) / width for name, (value, width) in start.items()))
    for model in scene["models"]:
        for law in nearest if not model["reference"] else ():
            for seed, launch in enumerate(cases):
                if launch[_key(law)]["episodes"][model["name"]][-1]["success"]:
                    return {"label": model["label"], "seed": seed, "law": law, "sampling": 0}
    return None


def _key(law: Mapping[str, float]) -> str:
    """The key of a law in the page's script, with numbers as JavaScript writes them."""
    return " ".join(repr(float(value)) if value != int(value) else str(int(value)) for value in law.values())


def _case(
    scenes: Scenes[Any], sheets: _Sheets, name: str, seed: int, law: dict[str, float], laws: list[dict[str, float]]
) -> dict[str, Any]:
    """All messages on one launch under one law."""
    request = Request(0, name, seed, law, law, tuple(scenes.choices[name].models))
    if isinstance(scenes, PolicyScenes):
        return _policy_case(scenes, sheets, request)
    assert isinstance(scenes, ModelScenes)
    return _model_case(scenes, sheets, request, laws)


def _model_case(scenes: ModelScenes, sheets: _Sheets, request: Request, laws: list[dict[str, float]]) -> dict[str, Any]:
    models = scenes.members(request.scene)
    return {
        "simulation": sheets.add(scenes.simulation_message(request)),
        "rollouts": {
            _key(law): {
                loaded.name: sheets.add(scenes.rollout_message(replace(request, model_law=law), loaded)) for loaded in models
            }
            for law in laws
        },
        "explanations": [
            message.header for loaded in models for message in scenes.explanations(request, loaded) if message is not None
        ],
    }


def _policy_case(scenes: PolicyScenes, sheets: _Sheets, request: Request) -> dict[str, Any]:
    """The messages on the first episode of each policy and of the expert."""
    episodes: dict[str, Any] = {}
    for name in request.models:
        *frames, outcome = scenes.episode(request, name)
        assert isinstance(outcome, Outcome)
        film = np.concatenate([frame for frame in frames if isinstance(frame, np.ndarray)])
        episodes[name] = [
            sheets.add(Message({"kind": "frame", "model": name, "first": 0}, film)),
            scenes.outcome_message(request.scene, name, outcome).header,
        ]
    return {"started": scenes.start_message(request).header, "episodes": episodes}


class _Sheets:
    """The films of one scene, each a picture with its frames in rows."""

    def __init__(self, staged: Path, scene: str, bar: Any):
        self._staged, self._scene, self._bar, self._count = staged, scene, bar, 0

    def add(self, message: Message) -> dict[str, Any]:
        """Write the frames of a message; returns its header, which names the file."""
        self._bar.update(1)
        if message.frames is None:
            return message.header
        name = f"{FRAMES}/{self._scene}-{self._count:05d}.webp"
        self._count += 1
        count, side = message.frames.shape[:2]
        rows = -(-count // _COLUMNS)
        sheet = np.zeros((rows * _COLUMNS, side, side, 3), np.uint8)
        sheet[:count] = message.frames
        sheet = sheet.reshape(rows, _COLUMNS, side, side, 3).swapaxes(1, 2).reshape(rows * side, _COLUMNS * side, 3)
        content = io.BytesIO()
        Image.fromarray(sheet).save(content, format="WEBP", quality=90, method=4)
        (self._staged / name).write_bytes(content.getvalue())
        return message.header | {"sheet": {"name": name, "count": count, "side": side, "columns": _COLUMNS}}
