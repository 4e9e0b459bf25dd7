"""The run folder: what every stage leaves in it, and the log of a training, one JSON object per line.

runs/<name>/
  run.json                  the resolved config, the datasets' digests and where it came from
  rows.jsonl                everything measured during training, one record per line
  checkpoints/              what training needs to go on
  model.safetensors         the finished model
  decoder.safetensors       its picture decoder, if it has one
  latents/                  of every frame of a dataset, encoded once
  probes/<probe>/           fitted probes
  predict/<evaluation>/     errors and states of every episode, decoded strips: <dataset>-<split>, and what is not usual
  counterfactual/<dataset>/ errors under laws that do not hold; what is not usual is added to the name
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sgjepa.core import config, files
from sgjepa.core.errors import InputError, one_line

CONFIG, ROWS, MODEL, DECODER = "run.json", "rows.jsonl", "model.safetensors", "decoder.safetensors"
LATENTS, PROBES, EVALUATIONS, COUNTERFACTUALS = "latents", "probes", "predict", "counterfactual"
# of an evaluation
EPISODES, STATES, EVALUATION = "episodes.parquet", "states.parquet", "predict.json"
SUMMARY, STRIPS = "summary.csv", "strips.npz"
# of a counterfactual
COUNTERFACTUAL_ROWS, COUNTERFACTUAL = "counterfactual.parquet", "counterfactual.json"


def check(folder: Path, settings: Any, data: Mapping[str, str]) -> None:
    """Refuse a directory that holds something else; one with the very same settings and data, or none, is fine.

    settings: a dataclass. What run.json holds is read through it first, so that a class that was renamed since, or a field
    that was added with a default, makes no difference.
    data: the digest of each dataset that is there now.
    """
    if (folder / CONFIG).is_file():
        there = files.read_json(folder / CONFIG)
        asked, written = config.to_dict(settings), there.get("config")
        if written != asked:
            written = _as_of_today(type(settings), written, folder)
        config.require_same(written, asked, f"{folder} holds a run")
        for name, digest in data.items():
            if (used := there.get("data", {}).get(name, digest)) != digest:
                raise InputError(
                    f"{folder} was trained on another dataset {name}: its digest was {used} and is now {digest}; "
                    f"choose another --out, delete the run, or make that dataset again"
                )
    elif folder.exists() and (not folder.is_dir() or any(not p.name.startswith(".") for p in folder.iterdir())):
        raise InputError(f"{folder} exists and is not a run (no {CONFIG}); choose another --out or move it away")


def _as_of_today(cls: type, written: Any, folder: Path) -> Any:
    try:
        return config.to_dict(config.from_dict(cls, written))
    except InputError as error:
        raise InputError(f"{folder} holds a run of other code ({error}); choose another --out or delete it") from error


def check_data(folder: Path, about: Mapping[str, Any], name: str, digest: str, world: str, transfer: bool) -> None:
    """Refuse to evaluate a run on what it was not trained for: another dataset under the old name, or another world.

    about: what its run.json says. transfer: another world is what one wants.
    """
    used = about.get("data", {}).get(name, digest)
    if used != digest:
        raise InputError(
            f"{folder} was trained on another dataset {name}: its digest was {used[:12]} and is now {digest[:12]}; "
            "make that one again, or give the new one another name"
        )
    worlds = about.get("worlds", [world])
    if world not in worlds and not transfer:
        raise InputError(
            f"{name} is a dataset of another world: {world}, and {folder} was trained on {', '.join(worlds)}; "
            "if that is what you want, add --transfer"
        )


def kept(path: Path, settings: Any) -> dict[str, Any] | None:
    """What a stage wrote about itself, if it did so with the very same settings; None if the stage has to run."""
    there = files.read_json(path) if path.is_file() else {}
    # a probe of an earlier version calls them "fitted_to"
    return there if there.get("settings", there.get("fitted_to")) == settings else None


def require_free(path: Path, settings: Any, cure: str) -> None:
    """Refuse to put another result in the place of one that is there; what an earlier version measured is measured anew."""
    there = files.read_json(path).get("settings", {}) if path.is_file() else {}
    same_meaning = there.get("meaning") == settings.get("meaning")
    if there and same_meaning and (found := config.difference(_where_both(there, settings), _where_both(settings, there))):
        key, old, new = found
        raise InputError(f"{path.parent} holds one with {key} = {one_line(old, 60)}, not {one_line(new, 60)}; {cure}")


def _where_both(one: Any, other: Any) -> Any:
    """The part of settings that others have too: one that was added since makes no difference."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one
    return {key: _where_both(value, other[key]) for key, value in one.items() if key in other}


def create(folder: Path, about: dict[str, Any]) -> None:
    """Make the directory of a run and write `about` (config, data, provenance) to run.json, unless it has one already."""
    if not (folder / CONFIG).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        files.write_json(folder / CONFIG, about)


def append(folder: Path, records: list[dict[str, Any]]) -> None:
    """Add records; each line goes to the file in one write, so a kill leaves at most one torn last line."""
    text = "".join(json.dumps(record) + "\n" for record in records)
    with (folder / ROWS).open("a") as file:
        file.write(text)


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """All whole records. A torn last line, left by a kill, is passed over."""
    path = folder / ROWS
    if not path.exists():
        return
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                if line.endswith("\n"):
                    raise InputError(f"{path}, line {number} is not JSON ({one_line(error, 80)})") from error


def keep(folder: Path, up_to_step: int) -> None:
    """Forget records after a step: training that goes on from there will write them again."""
    kept = [record for record in read(folder) if record.get("step", 0) <= up_to_step]
    text = "".join(json.dumps(record) + "\n" for record in kept)
    files.write_bytes(folder / ROWS, text.encode())
