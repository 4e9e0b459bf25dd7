"""Models and policies that come with the package, each small and with a card: `zoo:NAME` in the place of a RUN or POLICY.

models/NAME/ is a run folder, its weights in half precision: artifact.json, model, decoder, one probe, and card.json; or
that of a policy, with the run that it sees through in run/. It is only read. A command that uses one works on a copy in
./zoo/NAME, which is a run or a policy like any other: what the command leaves goes there. docs/make_zoo.py makes them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sgjepa.core import artifact, config, run_folder
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
    return not run_folder.is_run(folder_of(name))


def card(name: str) -> Card | PolicyCard:
    """Of one model or policy."""
    kind: type[Card] | type[PolicyCard] = PolicyCard if is_policy(name) else Card
    return config.from_dict(kind, artifact.read_json(folder_of(name) / CARD))


def take(name: str, into: Path = COPIES) -> Path:
    """A copy of a model or policy that commands may work on: `into`/NAME. One that is there is kept."""
    source, place = folder_of(name), into / name
    kind = "policy" if is_policy(name) else "run"
    if (place / artifact.RECORD).is_file():
        if artifact.file_digest(place / artifact.RECORD) != artifact.file_digest(source / artifact.RECORD):
            raise InputError(f"{place} holds another {kind} than {PREFIX}{name} of this version; move it away")
        return place
    if place.exists() or place.is_symlink():
        raise InputError(f"{place} is in the way: {PREFIX}{name} would be copied there; move it away")
    for path, digest in card(name).files.items():
        if artifact.file_digest(source / path) != digest:
            raise InputError(f"{source / path} is damaged: it is not what was written; install sgjepa again")
    with artifact.locked(into):
        artifact.sweep(into, mine=True)
        staged = artifact.temporary(place)
        shutil.copytree(source, staged)
        staged.rename(place)
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
