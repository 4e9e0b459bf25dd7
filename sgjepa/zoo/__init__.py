"""Models that come with the package, each a small finished run with a card: `zoo:NAME` in the place of a RUN.

models/NAME/ is a run folder, its weights in half precision: run.json, model, decoder, one probe, and card.json. It is only
read. A command that uses a model works on a copy in ./zoo/NAME, which is a run like any other: what the command leaves goes
there. docs/make_zoo.py puts a run into it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from sgjepa.core import files, records, run_folder
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.records import Digests

PREFIX = "zoo:"
CARD = "card.json"
COPIES = Path("zoo")
_MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Card:
    """What a model is and how good it is.

    scores: errors of its rollouts over all test episodes, such as "position_l2, h = 44". of_first: over the first `first`
    of them alone, for those who want to see it again in seconds. chosen: among which trainings, and by what.
    """

    about: str
    recipe: str
    size: str
    seed: int
    updates: int
    data: Digests
    episodes: int
    scores: dict[str, float]
    first: int
    of_first: dict[str, float]
    chosen: str
    commit: str | None  # of the code that measured it
    files: Digests = field(default_factory=dict)


def names() -> list[str]:
    """Of all models."""
    return sorted(place.parent.name for place in _MODELS.glob(f"*/{CARD}"))


def card(name: str) -> Card:
    """Of one model."""
    return records.read(Card, folder_of(name) / CARD, "install sgjepa again")


def take(name: str, into: Path = COPIES) -> Path:
    """A copy of a model that commands may work on: `into`/NAME. One that is there is kept."""
    source, place = folder_of(name), into / name
    if place.is_dir() and (place / run_folder.CONFIG).is_file():
        if files.digest(place / run_folder.CONFIG) != files.digest(source / run_folder.CONFIG):
            raise InputError(f"{place} holds another run than {PREFIX}{name} of this version; move it away")
        return place
    if place.exists() or place.is_symlink():
        raise InputError(f"{place} is in the way: {PREFIX}{name} would be copied there; move it away")
    for path, digest in card(name).files.items():
        files.verify(source / path, {Path(path).name: digest}, "install sgjepa again")
    into.mkdir(parents=True, exist_ok=True)
    files.sweep(into)
    staged = files.temporary(place)
    try:
        shutil.copytree(source, staged)
        staged.replace(place)
    except OSError:
        if not (place / run_folder.CONFIG).is_file():  # else somebody was faster, with the same
            raise
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return place


def resolve(text: str) -> Path:
    """What a user calls a run: its folder, or `zoo:NAME`."""
    return take(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else Path(text)


def folder_of(name: str) -> Path:
    """Where a model lies in the package, for those who only read."""
    if name not in names():
        raise unknown("model of the zoo", name, names())
    return _MODELS / name
