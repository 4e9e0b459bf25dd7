"""Weights in half precision, for the zoo: runs, probes and policies as they will be there, with their cards."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keep_results import told

from sgjepa import zoo
from sgjepa.core import artifact, config, files, run_folder
from sgjepa.models.weights import load_tensors, save_tensors


def round_weights(source: Path, target: Path) -> None:
    """Write weights in half precision; whole numbers stay."""
    tensors = load_tensors(source)
    save_tensors(target, {name: value.half() if value.is_floating_point() else value for name, value in tensors.items()})


def round_run(source: Path, target: Path, weights: Sequence[str]) -> None:
    """Write a run with these of its weights, rounded."""
    target.mkdir(parents=True)
    for name in weights:
        round_weights(source / name, target / name)
    write_record(target, artifact.read_json_record(source), weights)


def write_record(folder: Path, record: dict[str, Any], names: Sequence[str]) -> None:
    """Write an artefact's record for the files that are in the folder now, without the paths of this machine."""
    digests = {name: files.file_digest(folder / name) for name in names}
    record = {**record, "files": digests, "provenance": told(record["provenance"])}
    files.write_json(folder / artifact.RECORD, record)


def write_zoo(folder: Path, target: Path, names: Sequence[str], card: zoo.ModelCard | zoo.PolicyCard) -> None:
    """Copy what a user needs into the zoo, in place of what was there, and write its card last."""
    shutil.rmtree(target, ignore_errors=True)
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, target / name)
    digests = {name: files.file_digest(folder / name) for name in names}
    files.write_json(target / zoo.CARD, config.to_dict(replace(card, files=digests)))


RUN_FILES = (run_folder.CONFIG, run_folder.MODEL)
