"""The run folder: the files of every stage, and the log of a training, one JSON object per line.

runs/<name>/
  artifact.json             the record: the resolved config, the datasets' digests and where it came from
  rows.jsonl                all measurements of the training, one record per line
  checkpoints/              the state from which training resumes
  model.safetensors         the finished model
  decoder.safetensors       its picture decoder, if it has one
  latents/                  latents of every frame of a dataset, encoded once
  probes/<probe>/           fitted probes
  evaluations/<evaluation>/ errors and states of every episode, decoded strips: <dataset>-<split>, and changed settings
  counterfactual/<dataset>/ errors under wrong laws; changed settings are added to the name
  before/step-<n>/          the run as it was finished before it was continued with more updates
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sgjepa.core import artifact, config, files
from sgjepa.core.errors import InputError, one_line
from sgjepa.core.files import Digests
from sgjepa.core.provenance import check_provenance

CONFIG, ROWS, MODEL, DECODER = artifact.RECORD, "rows.jsonl", "model.safetensors", "decoder.safetensors"
LATENTS, PROBES, EVALUATIONS, COUNTERFACTUALS = "latents", "probes", "evaluations", "counterfactual"
BEFORE = "before"
# of an evaluation
EPISODES, STATES, EVALUATION = "episodes.parquet", "states.parquet", artifact.RECORD
SUMMARY, STRIPS = "summary.csv", "strips.npz"
# of a counterfactual
COUNTERFACTUAL_ROWS, COUNTERFACTUAL = "counterfactual.parquet", artifact.RECORD


@dataclass(frozen=True)
class Continued:
    """A finished training that was continued: at which step, and its former length in the config."""

    step: int
    epochs: int
    updates: int | None


@dataclass(frozen=True)
class RunRecord:
    """The record of a run: its config, its datasets and its provenance."""

    made_by: ClassVar[str] = "sgjepa train"

    config: dict[str, Any]  # of training/config.py's Run, which knows torch
    data: Digests  # of each dataset, by the name that the run calls it
    provenance: dict[str, Any]
    worlds: tuple[str, ...] = ()
    frozen_encoder: str | None = None
    files: Digests = field(default_factory=dict)  # of the finished model
    laws: tuple[str, ...] = ()  # what conditions the model, in order
    env: dict[str, str] = field(default_factory=dict)  # options of the world that the first dataset was made with
    recorded: dict[str, Any] = field(default_factory=dict)  # what worlds without a simulator here declare, by their names
    continued: tuple[Continued, ...] = ()  # the lengths it was finished with before that of the config

    def __post_init__(self) -> None:
        check_provenance(self.provenance)


def check(folder: Path, settings: Any, data: Mapping[str, str]) -> None:
    """Refuse a folder that holds a run with other settings or data.

    settings: a dataclass. data: the present digest of each dataset.
    """
    artifact.require_free(folder, RunRecord.made_by)
    if is_run(folder):
        record = about(folder)
        config.require_same(record.config, config.to_dict(settings), f"{folder} holds a run")
        for name, digest in data.items():
            if (used := record.data.get(name)) != digest:
                raise InputError(
                    f"{folder} was trained on another dataset {name}: its digest was {used} and is now {digest}; "
                    f"choose another --out, delete the run, or make that dataset again"
                )


def is_run(folder: Path) -> bool:
    """Whether a training was begun in a folder."""
    return artifact.made_by(folder) == RunRecord.made_by


def about(folder: Path) -> RunRecord:
    """The record of a run."""
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} is not a run; make one with `sgjepa train`, or see `sgjepa zoo`")
    return artifact.read_record(RunRecord, folder)


def check_data(folder: Path, record: RunRecord, dataset: Path, digest: str, world: str, transfer: bool | None) -> None:
    """Refuse to evaluate a run on another dataset under its dataset's name, or on another world.

    A dataset is identified by its digest, whatever its name; one with the name of the run's own and another digest was
    swapped.
    record: the run's record. dataset: its folder. transfer: allow another world; None: not possible here.
    """
    name, worlds = dataset.resolve().name, record.worlds or (world,)
    if digest not in record.data.values():
        for known, used in record.data.items():
            if name == Path(known).name:
                raise swapped(str(folder), name, used, digest)
    if world not in worlds and not transfer:
        raise InputError(
            f"{name} is a dataset of another world: {world}, and {folder} was trained on {', '.join(worlds)}; "
            + ("give one of that world" if transfer is None else "if that is what you want, add --transfer")
        )


def swapped(who: str, name: str, used: str, digest: str) -> InputError:
    """The error for a dataset that has the name of the one `who` was trained on, but other content."""
    return InputError(
        f"{who} was trained on another dataset {name}: its digest was {used[:12]} and is now {digest[:12]}; make that one "
        "again, or give the new one another name (also if another graphics driver drew the same episodes)"
    )


def create(folder: Path, record: RunRecord) -> None:
    """Make the folder of a run and write its record, unless it has one already."""
    if not (folder / CONFIG).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        artifact.write_record(folder, record)


def append(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Append records; each line goes to the file in one write, so a kill leaves at most one torn last line."""
    text = "".join(json.dumps(record) + "\n" for record in rows)
    handle = os.open(folder / ROWS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """All complete records. A torn last line, left by a kill, is skipped."""
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
    """Delete records after a step: training that resumes from it will write them again."""
    records = [record for record in read(folder) if record.get("step", 0) <= up_to_step]
    text = "".join(json.dumps(record) + "\n" for record in records)
    files.write_bytes(folder / ROWS, text.encode("utf-8"))
