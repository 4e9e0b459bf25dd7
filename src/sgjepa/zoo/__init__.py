"""Small trained models and policies that come with the package, each with a card: write `zoo:NAME` for a RUN or POLICY.

models/NAME/ is a run folder with weights in half precision (artifact.json, model, decoder, one probe, card.json), or a
policy folder with the run of its features in run/. It is only read. A command that writes works on a copy in ./zoo/NAME.
docs/make_zoo.py adds a model or policy.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError, unknown
from sgjepa.zoo.cards import ModelCard, PolicyCard

__all__ = [
    "CARD",
    "COPIES",
    "PREFIX",
    "ModelCard",
    "PolicyCard",
    "copy",
    "folder_of",
    "folder_to_read",
    "folder_to_work_in",
    "is_policy",
    "names",
    "read_card",
]
PREFIX = "zoo:"
CARD = "card.json"
COPIES = Path("zoo")
_MODELS = Path(__file__).parent / "models"


def names() -> list[str]:
    """The names of all models and policies in the zoo."""
    return sorted(card.parent.name for card in _MODELS.glob(f"*/{CARD}"))


def folder_of(name: str) -> Path:
    """The folder of a model or policy in the package; read only."""
    if name not in names():
        raise unknown("model of the zoo", name, names())
    return _MODELS / name


def is_policy(name: str) -> bool:
    """Whether NAME is a policy; the others are runs of world models."""
    return not run_folder.is_run(folder_of(name))


def read_card(name: str) -> ModelCard | PolicyCard:
    """The card of a model or policy."""
    kind: type[ModelCard] | type[PolicyCard] = PolicyCard if is_policy(name) else ModelCard
    return config.from_dict(kind, files.read_json(folder_of(name) / CARD))


def copy(name: str, into: Path = COPIES) -> Path:
    """Copy a model or policy to `into`/NAME, where commands may write. An existing copy is reused."""
    source, target = folder_of(name), into / name
    kind = "policy" if is_policy(name) else "run"
    if (target / artifact.RECORD).is_file():
        if files.file_digest(target / artifact.RECORD) != files.file_digest(source / artifact.RECORD):
            raise InputError(f"{target} holds another {kind} than {PREFIX}{name} of this version; move it away")
        return target
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} is in the way: {PREFIX}{name} would be copied there; move it away")
    for path, digest in read_card(name).files.items():
        if files.file_digest(source / path) != digest:
            raise InputError(f"{source / path} is damaged: it is not what was written; install sgjepa again")
    with files.locked(into):
        files.sweep(into, mine=True)
        staged = files.temporary(target)
        shutil.copytree(source, staged)
        staged.rename(target)
    return target


def folder_to_read(text: str) -> Path:
    """The folder of a path or `zoo:NAME`, for commands that only read."""
    return folder_of(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else Path(text)


def folder_to_work_in(text: str, policies: bool = False) -> Path:
    """The folder of a path or of a copy of `zoo:NAME`, for commands that write. policies: whether policies are allowed."""
    if not text.startswith(PREFIX):
        return Path(text)
    name = text.removeprefix(PREFIX)
    if not policies and is_policy(name):
        raise InputError(f"{text} is a policy, not a run; `sgjepa evaluate-policy` and `sgjepa view` take it")
    return copy(name)
