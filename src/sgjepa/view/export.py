"""The viewer as files: one page with its numbers inside and pictures beside it, computed over a grid of laws and launches.

DIR/index.html, DIR/frames/*.webp. It opens from disk, or from any server of files; nothing is asked of anybody.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sgjepa.core import artifact
from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.policies.vector_env import Outcome
from sgjepa.view import html, wire
from sgjepa.view.question import Question
from sgjepa.view.scenes import Page
from sgjepa.view.shown import Axis, Shown
from sgjepa.view.studio import Studio, explained_head, imagined_head
from sgjepa.view.track import Track, outcome_head

MADE_BY, PAGE, FRAMES = "sgjepa view --export", "index.html", "frames"
_COLUMNS = 8  # frames in a row of a sheet
_MOST = 20_000  # sheets: more than anybody puts on a page


@dataclass(frozen=True)
class Grid:
    """laws: values of each law, evenly spread over its slider. seeds: launches, from 0 on."""

    laws: int = 9
    seeds: int = 3

    def __post_init__(self) -> None:
        if self.laws < 2 or self.seeds < 1:
            raise InputError(f"an export needs at least 2 values of a law and 1 launch, got {self.laws} and {self.seeds}")

    def values(self, axis: Axis) -> list[float]:
        """Of one law; the one nearest to its start takes its place, so that the page begins at home."""
        found = np.linspace(axis.low, axis.high, self.laws).round(4).tolist()
        found[int(np.abs(np.array(found) - axis.start).argmin())] = axis.start
        return [float(value) for value in found]


def export(page: Page, folder: Path, grid: Grid) -> Path:
    """Write the page; returns it. Made again, it takes the place of the one before."""
    artifact.require_free(folder, MADE_BY)
    steps = {name: {axis.name: grid.values(axis) for axis in one.axes} for name, one in page.choices.items()}
    laws = {name: _product(values) for name, values in steps.items()}
    sheets = sum(grid.seeds * _films(page, name, len(found)) for name, found in laws.items())
    if sheets > _MOST:
        raise InputError(f"that would be {sheets:,} films, more than {_MOST:,}; take fewer --laws or --seeds, or fewer runs")
    cases: dict[str, Any] = {}
    with artifact.artifact(folder, {}, MADE_BY, replace=True) as new:
        staged = new.path
        (staged / FRAMES).mkdir()
        with progress(sheets, 0, "export", "films") as bar:
            for name, found in laws.items():
                shelf, room = _Shelf(staged, name, bar), page.room(name)
                cases[name] = [
                    {_key(law): _case(room, shelf, name, seed, law, found) for law in found} for seed in range(grid.seeds)
                ]
        about = page.about()
        for scene in about["worlds"]:
            if scene["kind"] == "drive":
                scene["opening"] = _opening(scene, cases[scene["name"]], laws[scene["name"]])
        data = {"about": about, "steps": steps, "seeds": list(range(grid.seeds)), "cases": cases}
        text = html.alone(json.dumps(data, allow_nan=False, separators=(",", ":")))
        (staged / PAGE).write_text(text, encoding="utf-8")
    return folder / PAGE


def _opening(scene: dict[str, Any], cases: list[dict[str, Any]], laws: list[dict[str, float]]) -> dict[str, Any] | None:
    """Where the page begins: at a success, of the first policy that has one, under a law as near to its training as any."""
    home = {axis["name"]: (axis["start"], axis["high"] - axis["low"]) for axis in scene["laws"]}
    near = sorted(laws, key=lambda law: sum(abs(law[name] - start) / wide for name, (start, wide) in home.items()))
    for model in scene["models"]:
        for law in near if not model["reference"] else ():
            for seed, launch in enumerate(cases):
                if launch[_key(law)]["played"][model["name"]][-1]["success"]:
                    return {"label": model["label"], "seed": seed, "law": law, "sampling": 0}
    return None


def _films(page: Page, name: str, laws: int) -> int:
    """Of one launch: a policy makes one under every law, a model one for every law that it is told under every true one."""
    count = len(page.choices[name].models)
    return laws * count if isinstance(page.room(name), Track) else laws * (1 + laws * count)


def _case(
    room: Any, shelf: _Shelf, name: str, seed: int, law: dict[str, float], laws: list[dict[str, float]]
) -> dict[str, Any]:
    if isinstance(room, Track):
        return _driven(room, shelf, name, seed, law)
    return _imagined_case(room, shelf, name, seed, law, laws)


def _driven(track: Track, shelf: _Shelf, name: str, seed: int, law: dict[str, float]) -> dict[str, Any]:
    """One launch under one law: what each policy and the demonstrator make of it, at the first try."""
    asked = Question(0, name, seed, law, law, tuple(track.choices[name].models))
    played: dict[str, Any] = {}
    for model in asked.models:
        *frames, outcome = track.episode(asked, model)
        assert isinstance(outcome, Outcome)
        pictures = np.concatenate([one for one in frames if isinstance(one, np.ndarray)])
        head = {"model": model, **outcome_head(track.of(name)[0].env_spec, outcome)}
        played[model] = [{"kind": "frame", "model": model, "first": 0, **shelf.put(pictures)}, {"kind": "outcome", **head}]
    return {"began": {"kind": "began", "coverage": track.coverage(asked)}, "played": played}


def _product(values: Mapping[str, list[float]]) -> list[dict[str, float]]:
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def _key(law: Mapping[str, float]) -> str:
    """As the page's script makes it: numbers as JavaScript writes them."""
    return " ".join(repr(float(value)) if value != int(value) else str(int(value)) for value in law.values())


class _Shelf:
    """Where films are put, numbered, and counted."""

    def __init__(self, staged: Path, world: str, bar: Any):
        self._staged, self._world, self._bar, self._count = staged, world, bar, 0

    def put(self, frames: np.ndarray | None) -> dict[str, Any]:
        """Write a film, (n, h, w, 3); returns what the page must know of it."""
        self._bar.update(1)
        if frames is None:
            return {}
        name = f"{FRAMES}/{self._world}-{self._count:05d}.webp"
        self._count += 1
        (self._staged / name).write_bytes(_sheet(frames))
        return {"sheet": {"name": name, "count": len(frames), "side": frames.shape[1], "columns": _COLUMNS}}


def _sheet(frames: np.ndarray) -> bytes:
    """Frames in rows, as one picture."""
    count, side = len(frames), frames.shape[1]
    rows = -(-count // _COLUMNS)
    whole = np.zeros((rows * _COLUMNS, side, side, 3), np.uint8)
    whole[:count] = frames
    picture = whole.reshape(rows, _COLUMNS, side, side, 3).swapaxes(1, 2).reshape(rows * side, _COLUMNS * side, 3)
    content = io.BytesIO()
    Image.fromarray(picture).save(content, format="WEBP", quality=90, method=4)
    return content.getvalue()


def _imagined_case(
    studio: Studio, shelf: _Shelf, world: str, seed: int, law: dict[str, float], told: list[dict[str, float]]
) -> dict[str, Any]:
    """One launch under one law: the truth, what each model makes of it under every law it is told, and what explains it."""
    models = studio.of(world)
    asked = Question(0, world, seed, law, law, tuple(one.name for one in models))
    truth = studio.truth(asked, models[0])
    imagined: dict[str, Any] = {}
    for other in told:
        question = Question(0, world, seed, law, other, asked.models)
        imagined[_key(other)] = {one.name: _imagined(studio, shelf, question, one) for one in models}
    explained = [
        {"kind": "explained", "model": one.name, "law": axis.name, **explained_head(*found)}
        for one in models
        for axis in studio.axes[world]
        if axis.name in one.laws and not one.model.blind
        for found in studio.explained(asked, one, axis)
        if found is not None
    ]
    return {
        "truth": {"kind": "truth", "outline": wire.outline(truth.outline), **shelf.put(truth.episode.frames)},
        "imagined": imagined,
        "explained": explained,
    }


def _imagined(studio: Studio, shelf: _Shelf, question: Question, one: Shown) -> dict[str, Any]:
    found, covered = studio.imagined(question, one)
    head = imagined_head(found, covered, studio.outline(one, found.y))
    return {"kind": "imagined", "model": one.name, **head, **shelf.put(found.frames)}
