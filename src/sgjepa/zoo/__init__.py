"""Models and policies that come with the package, each small and with a card: `zoo:NAME` in the place of a RUN or POLICY.

models/NAME/ is a run folder, its weights in half precision: run.json, model, decoder, one probe, and card.json; or that of a
policy, with the run that it sees through in run/. It is only read. A command that uses one works on a copy in ./zoo/NAME,
which is a run or a policy like any other: what the command leaves goes there. docs/make_zoo.py puts one into it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sgjepa.core import artifact, run_folder
from sgjepa.core.errors import InputError, unknown
from sgjepa.zoo.cards import Card, PolicyCard

__all__ = ["CARD", "COPIES", "PREFIX", "Card", "PolicyCard", "card", "folder_of", "is_policy", "names", "resolve", "take"]
PREFIX = "zoo:"
CARD = "card.json"
COPIES = Path("zoo")
_MODELS = Path(__file__).parent / "models"


def names() -> list[str]:
    """Of all models and policies."""
    return sorted(place.parent.name for place in _MODELS.glob(f"*/{CARD}"))


def is_policy(name: str) -> bool:
    """Whether it drives; all others are runs."""
    return _record(name) != run_folder.CONFIG


def drives(folder: Path) -> bool:
    """Whether a folder is that of a policy and not of a run."""
    from sgjepa.policies.files import RECORD

    return (folder / RECORD).is_file()


def card(name: str) -> Card | PolicyCard:
    """Of one model or policy."""
    kind: type[Card] | type[PolicyCard] = PolicyCard if is_policy(name) else Card
    return artifact.read_record(kind, folder_of(name) / CARD, "install sgjepa again")


def take(name: str, into: Path = COPIES) -> Path:
    """A copy of a model or policy that commands may work on: `into`/NAME. One that is there is kept."""
    source, place = folder_of(name), into / name
    kind, record = "policy" if is_policy(name) else "run", _record(name)
    if place.is_dir() and (place / record).is_file():
        if artifact.file_digest(place / record) != artifact.file_digest(source / record):
            raise InputError(f"{place} holds another {kind} than {PREFIX}{name} of this version; move it away")
        return place
    if place.exists() or place.is_symlink():
        raise InputError(f"{place} is in the way: {PREFIX}{name} would be copied there; move it away")
    for path, digest in card(name).files.items():
        artifact.verify(source / path, {Path(path).name: digest}, "install sgjepa again")
    into.mkdir(parents=True, exist_ok=True)
    artifact.sweep(into)
    staged = artifact.temporary(place)
    try:
        shutil.copytree(source, staged)
        staged.replace(place)
    except OSError:
        if not (place / record).is_file():  # else somebody was faster, with the same
            raise
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return place


def resolve(text: str, policies: bool = False) -> Path:
    """What a user calls a run: its folder, or `zoo:NAME`. policies: whether one that drives will do, too."""
    if not text.startswith(PREFIX):
        return Path(text)
    name = text.removeprefix(PREFIX)
    if not policies and is_policy(name):
        raise InputError(f"{text} is a policy, not a run; `sgjepa evaluate-policy` and `sgjepa view` take it")
    return take(name)


def folder_of(name: str) -> Path:
    """Where one lies in the package, for those who only read."""
    if name not in names():
        raise unknown("model of the zoo", name, names())
    return _MODELS / name


def _record(name: str) -> str:
    """The file that says what it is."""
    from sgjepa.policies.files import RECORD  # brings NumPy, which who only lists commands does not need

    return RECORD if drives(folder_of(name)) else run_folder.CONFIG
