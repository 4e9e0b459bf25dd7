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
  before/step-<n>/          the run as it was finished before it went on to more updates
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sgjepa.core import artifact, config
from sgjepa.core.artifact import RunRecord
from sgjepa.core.errors import InputError, one_line

CONFIG, ROWS, MODEL, DECODER = "run.json", "rows.jsonl", "model.safetensors", "decoder.safetensors"
LATENTS, PROBES, EVALUATIONS, COUNTERFACTUALS = "latents", "probes", "predict", "counterfactual"
BEFORE = "before"
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
        there = about(folder)
        asked, written = config.to_dict(settings), there.config
        if written != asked:
            written = _as_of_today(type(settings), written, folder)
        config.require_same(written, asked, f"{folder} holds a run")
        for name, digest in data.items():
            if (used := there.data.get(name)) != digest:
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


def about(folder: Path) -> RunRecord:
    """What run.json says."""
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} is not a run (no {CONFIG}); make one with `sgjepa train`, or see `sgjepa zoo`")
    return artifact.read_record(
        RunRecord, folder / CONFIG, f"put back what `sgjepa train` wrote, or train in another --out than {folder}"
    )


def check_data(folder: Path, there: RunRecord, dataset: Path, digest: str, world: str, transfer: bool | None) -> None:
    """Refuse to evaluate a run on what it was not trained for: another dataset under the old name, or another world.

    A dataset is known by its digest, whatever it is called now; one that is called as the run's own, by whichever path, and
    has another digest was swapped.
    there: what its run.json says. dataset: its folder. transfer: another world is what one wants; None: nobody can.
    """
    name, worlds = dataset.resolve().name, there.worlds or (world,)
    if digest not in there.data.values():
        for known, used in there.data.items():
            if name == Path(known).name:
                raise swapped(str(folder), name, used, digest)
    if world not in worlds and not transfer:
        raise InputError(
            f"{name} is a dataset of another world: {world}, and {folder} was trained on {', '.join(worlds)}; "
            + ("give one of that world" if transfer is None else "if that is what you want, add --transfer")
        )


def swapped(who: str, name: str, used: str, digest: str) -> InputError:
    """The error for a dataset that is called as the one `who` was trained on, and is another."""
    return InputError(
        f"{who} was trained on another dataset {name}: its digest was {used[:12]} and is now {digest[:12]}; make that one "
        "again, or give the new one another name (also if another graphics driver drew the same episodes)"
    )


def require_free(path: Path, settings: Any, cure: str) -> None:
    """Refuse to put another result in the place of one that is there; what an earlier version measured is measured anew."""
    there = artifact.read_json(path).get("settings", {}) if path.is_file() else {}
    same_meaning = there.get("meaning") == settings.get("meaning")
    if there and same_meaning and (found := config.difference(_where_both(there, settings), _where_both(settings, there))):
        key, old, new = found
        raise InputError(f"{path.parent} holds one with {key} = {one_line(old, 60)}, not {one_line(new, 60)}; {cure}")


def _where_both(one: Any, other: Any) -> Any:
    """The part of settings that others have too: one that was added since makes no difference."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one
    return {key: _where_both(value, other[key]) for key, value in one.items() if key in other}


def create(folder: Path, record: RunRecord) -> None:
    """Make the directory of a run and write run.json, unless it has one already."""
    if not (folder / CONFIG).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        artifact.write_record(folder / CONFIG, record)


def append(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Add records; each line goes to the file in one write, so a kill leaves at most one torn last line."""
    text = "".join(json.dumps(record) + "\n" for record in rows)
    with (folder / ROWS).open("a", encoding="utf-8") as file:
        file.write(text)


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """All whole records. A torn last line, left by a kill, is passed over."""
    path = folder / ROWS
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                record = json.loads(line)
                if not isinstance(record, dict) or not isinstance(record.get("step", 0), int):
                    raise ValueError("not a record with a step")
            except (ValueError, RecursionError) as error:
                if line.endswith(b"\n"):
                    raise InputError(
                        f"{path}, line {number} is not a record of a training ({one_line(error, 80)})"
                    ) from error
                return
            yield record


def keep(folder: Path, up_to_step: int) -> None:
    """Forget records after a step: training that goes on from there will write them again."""
    kept = [record for record in read(folder) if record.get("step", 0) <= up_to_step]
    text = "".join(json.dumps(record) + "\n" for record in kept)
    artifact.write_bytes(folder / ROWS, text.encode("utf-8"))
