"""Weights in half precision, for the zoo: a run or a policy as it will lie there, and its card written last."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from keep_results import told

from sgjepa import zoo
from sgjepa.core import artifact, config, run_folder
from sgjepa.models.weights import load_tensors, save_tensors


def halve(source: Path, place: Path) -> None:
    """Weights in half precision; whole numbers stay."""
    save_tensors(
        place, {name: value.half() if value.is_floating_point() else value for name, value in load_tensors(source).items()}
    )


def run(source: Path, place: Path, names: Sequence[str]) -> None:
    """A run with these weights of it, rounded."""
    place.mkdir(parents=True)
    there, digests = run_folder.about(source), {}
    for name in names:
        halve(source / name, place / name)
        digests[name] = artifact.file_digest(place / name)
    artifact.write_record(place, replace(there, files=digests, provenance=told(there.provenance)))


def keep(place: Path, target: Path, names: Sequence[str], card: zoo.Card | zoo.PolicyCard) -> None:
    """What a user needs, and the card last."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place / name, target / name)
    card = replace(card, files={name: artifact.file_digest(place / name) for name in names})
    artifact.write_json(target / zoo.CARD, config.to_dict(card))
