"""Records: the JSON files that a stage leaves for the next one. Each is a frozen dataclass with a seal, read strictly.

A missing, unknown or mistyped field, an absurd value, or an edit is one line that names the file and what to do about it.
Files of earlier versions have no seal; fields that came later have defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sgjepa.core import config, files
from sgjepa.core.errors import InputError

T = TypeVar("T")
Digests = dict[str, str]  # SHA-256 by the name of a file beside the record


def write(path: Path, record: Any) -> None:
    """Write a record, whole or not at all, with its seal."""
    files.write_bytes(path, to_bytes(record))


def to_bytes(record: Any) -> bytes:
    """What `write` writes."""
    return files.to_json({**config.to_dict(record), files.SEAL: ""}).encode("utf-8")


def read(cls: type[T], path: Path, cure: str, renamed: Mapping[str, str] | None = None) -> T:
    """The record in a file. cure: what to do about a bad one. renamed: fields that an earlier version called otherwise."""
    return build(cls, files.read_json(path, cure), path, cure, renamed)


def build(cls: type[T], found: Any, path: Path, cure: str, renamed: Mapping[str, str] | None = None) -> T:
    """As `read`, for JSON that was read already."""
    if not isinstance(found, dict):
        raise InputError(f"{path} was edited: it should be an object; {cure}")
    values = {(renamed or {}).get(key, key): value for key, value in found.items() if key != files.SEAL}
    try:
        record = config.from_dict(cls, values)
    except InputError as error:
        raise InputError(f"{path} was edited: {error}; {cure}") from error
    check_seal(found, path, cure)
    return record


def check_seal(found: Mapping[str, Any], path: Path, cure: str) -> None:
    """Refuse a record in which anything differs from what was written."""
    if files.SEAL in found and found[files.SEAL] != files.seal_of(found):
        raise InputError(f"{path} was edited: its seal does not fit its content; {cure}")


def check_provenance(found: Mapping[str, Any]) -> None:
    """What a page quotes must be there; what else is said is free."""
    missing = {"sgjepa", "commit", "python", "libraries", "platform", "command", "made"} - set(found)
    if missing or not isinstance(found["libraries"], Mapping):
        raise InputError(f"provenance lacks {', '.join(sorted(missing)) or 'the versions of libraries'}")


@dataclass(frozen=True)
class Continued:
    """A training that was finished and went on: at which step, and what its length had been in the config."""

    step: int
    epochs: int
    updates: int | None


@dataclass(frozen=True)
class RunRecord:
    """run.json: what was trained, on what, and where it came from."""

    config: dict[str, Any]  # of training/run.py's Run, which knows torch
    data: Digests  # of each dataset, by the name that the run calls it
    provenance: dict[str, Any]
    worlds: tuple[str, ...] = ()
    frozen_encoder: str | None = None
    files: Digests = field(default_factory=dict)  # of the finished model
    laws: tuple[str, ...] = ()  # what the model is told, in order; runs of earlier versions do not say
    env: dict[str, str] = field(default_factory=dict)  # options of the world that the first dataset was made with
    recorded: dict[str, Any] = field(default_factory=dict)  # what worlds without a simulator here declare, by their names
    continued: tuple[Continued, ...] = ()  # the lengths it was finished with before that of the config

    def __post_init__(self) -> None:
        check_provenance(self.provenance)


def kept(path: Path, settings: Any, cls: type[T], cure: str, renamed: Mapping[str, str] | None = None) -> T | None:
    """What a stage wrote about itself, if it did so with the very same settings; None if the stage has to run."""
    if not path.is_file():
        return None
    found = files.read_json(path, cure)
    if not isinstance(found, dict):
        raise InputError(f"{path} was edited: it should be an object; {cure}")
    check_seal(found, path, cure)
    names = {"settings", *(old for old, new in (renamed or {}).items() if new == "settings")}
    there = next((found[name] for name in names if name in found), None)
    # what earlier versions wrote may lack fields; with other settings it is done anew, and need not be understood
    there = {key: value for key, value in there.items() if key != "type"} if isinstance(there, dict) else there
    return build(cls, found, path, cure, renamed) if there == settings else None
