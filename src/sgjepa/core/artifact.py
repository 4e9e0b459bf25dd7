"""Artefacts: folders that are complete or absent, written by one process at a time, identified by their settings.

    with artifact(folder, {"settings": to_dict(settings)}, "sgjepa evaluate") as new:
        if not new.finished:
            write_table(new.path / "episodes.parquet", rows)
            new.about = {"episodes": 25}

The block writes to `new.path`, a hidden folder inside the artefact's own; its files are moved into the artefact when the
block ends. The record of an artefact, `artifact.json`, is written last. It holds the command that made it, the settings,
the stage's own entries, the provenance, the digest of every file, and its own digest. The package owns only the files that
a record lists:

- a folder that holds anything else is refused before the work, and nothing in it is overwritten or deleted;
- a foreign file inside an artefact stays; a listed file that was edited is refused, by name, and not replaced;
- a listed file that differs from what was written is refused when it is read; a missing one is made again by its command;
- links are never followed, and only names that this module writes are swept.

A run or a policy is written in place instead: it holds its folder's lock (`files.locked`) and calls `write_record` when it
begins and when it ends.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Protocol, TypeVar

from sgjepa.core import config
from sgjepa.core.errors import InputError
from sgjepa.core.files import (
    OWN_DIGEST,
    TEMPORARY,
    Seen,
    briefly_locked,
    digest_of,
    digests,
    file_digest,
    locked,
    read_json,
    require_name,
    sweep,
    temporary,
    write_bytes,
    write_json,
)
from sgjepa.core.provenance import provenance

RECORD = "artifact.json"
PARTIAL = ".partial"  # inside an artefact's folder: the files being made

T = TypeVar("T")


# --- artefacts -----------------------------------------------------------------------------------------------------


@dataclass
class New:
    """An artefact that is being made, or, if `finished`, the existing one with the requested settings.

    path: the folder of its files. about: the stage's own entries for the record, JSON values.
    """

    path: Path
    finished: bool
    about: dict[str, Any] = field(default_factory=dict)


@contextmanager
def artifact(
    folder: Path,
    key: Mapping[str, Any],
    made_by: str,
    *,
    replace: bool = False,
    resumable: bool = False,
    inside: Path | None = None,
) -> Iterator[New]:
    """Make the artefact in `folder` unless it is finished. A second process is refused, and so are other settings.

    key: the settings that identify it, as fields of the record. made_by: the command. replace: overwrite an earlier artefact
    of this command. resumable: keep the files of an interrupted block in `path` for the next one with the same key. Hidden
    files in it, such as `.chunks`, are not part of the artefact. inside: the folder it belongs to, such as a run's, whose
    lock is held instead of its own.
    """
    if not replace and _is_finished(folder, key, made_by, inside):
        yield New(folder, finished=True)
        return
    if inside is not None:
        _require_no_link(folder, inside)
    require_free(folder, made_by)
    with locked(inside or folder):
        if not replace and _is_finished(folder, key, made_by, inside):  # perhaps finished since the first check
            yield New(folder, finished=True)
            return
        staged = folder / PARTIAL
        _begin(staged, key, made_by, resumable, inside)
        new = New(staged, finished=False)
        try:
            yield new
            _put_in_place(staged, folder, made_by, {**key, **new.about})
            _remove(staged)
        except BaseException:
            if not resumable:
                _remove(staged)
                with suppress(OSError):  # not empty
                    folder.rmdir()
            raise


def require_free(folder: Path, made_by: str) -> None:
    """Refuse a folder that this command must not write into: before the work, which may take hours."""
    require_name(folder)
    if not _exists(folder):
        return _require_writable(next(parent for parent in folder.absolute().parents if parent.exists()), folder)
    if folder.is_symlink() or not folder.is_dir():
        raise InputError(f"{folder} is not a folder; choose another one or move it away")
    _require_writable(folder, folder)
    if not (folder / RECORD).is_file():
        if not all(map(_holds_artifacts, _visible(folder))):
            raise InputError(f"{folder} is not empty and was not made by `{made_by}`; choose another folder or move it away")
        return None
    _require_maker(folder, read_json_record(folder), made_by)
    for name, digest in _listed(folder).items():
        _require_unedited(folder / name, digest, made_by)
    return None


def add(folder: Path, name: str, content: bytes) -> None:
    """Write one more file of an artefact that is finished, in place of an earlier one of that name."""
    with briefly_locked(folder):
        record, listed = read_json_record(folder), _listed(folder)
        if (folder / name).is_symlink() or (_exists(folder / name) and name not in listed):
            raise InputError(f"{folder / name} is in the way: it was not made by `{record['made_by']}`; move it away")
        _require_unedited(folder / name, listed.get(name), record["made_by"])
        # registered before the first byte: after a kill between the two it must not look like a foreign file
        write_json(folder / RECORD, {**record, "files": {**listed, name: None}})
        write_bytes(folder / name, content)
        write_json(folder / RECORD, {**record, "files": {**listed, name: file_digest(folder / name)}})


def _is_finished(folder: Path, key: Mapping[str, Any], made_by: str, inside: Path | None) -> bool:
    """Whether the artefact with these settings exists and is complete. Other settings and damage are refused."""
    if not (folder / RECORD).is_file():
        return False
    record = read_json_record(folder)
    _require_maker(folder, record, made_by)
    _require_key(record, key, f"{folder} holds one", inside)
    if not is_whole(folder):
        return False
    for name in record["files"]:
        checked(folder, name, record)
    return True


def _begin(staged: Path, key: Mapping[str, Any], made_by: str, resumable: bool, inside: Path | None) -> None:
    """Make the folder that is written to, or reuse the one that an interrupted command left."""
    sweep(staged.parent, mine=True)
    if staged.is_symlink() or (staged.exists() and not (staged / RECORD).is_file()):
        if not _is_folder(staged) or not all(TEMPORARY.fullmatch(entry.name) for entry in staged.iterdir()):
            raise InputError(f"{staged} is in the way: it was not made by `{made_by}`; move it away")
    elif staged.exists():
        record = read_json_record(staged)
        _require_maker(staged, record, made_by)
        if resumable:
            _require_key(record, key, f"{staged.parent} was begun", inside)
            sweep(staged, mine=True)
            return
        _remove(staged)
    staged.mkdir(parents=True, exist_ok=True)
    write_json(staged / RECORD, {"made_by": made_by, **_as_json(key), "files": {}, OWN_DIGEST: ""})


def _require_key(record: Mapping[str, Any], key: Mapping[str, Any], where: str, inside: Path | None) -> None:
    advice = "choose another --out or delete it" if inside is None else "move it away or delete it"
    config.require_same({name: record.get(name) for name in key}, _as_json(key), where, advice)


def _remove(staged: Path) -> None:
    """Delete a folder after renaming it to a temporary name, so that the next sweep removes it if this is interrupted."""
    with suppress(FileNotFoundError):
        shutil.rmtree(staged.rename(temporary(staged)), ignore_errors=True)


def _put_in_place(staged: Path, folder: Path, made_by: str, record: Mapping[str, Any]) -> None:
    """Move the files by renames alone. A kill at any moment never leaves a page next to files of an earlier version."""
    require_free(folder, made_by)  # again: hours may have passed
    made = {name: digest for name, digest in digests(staged).items() if name != RECORD and not name.startswith(".")}
    before = _listed(folder) if (folder / RECORD).is_file() else {}
    for name in made:
        parents = (folder / parent for parent in PurePosixPath(name).parents if parent.name)
        blocked = [target for target in parents if _exists(target) and not _is_folder(target)]
        blocked += [folder / name] if _exists(folder / name) and name not in before else []
        if blocked:
            raise InputError(f"{blocked[0]} is in the way: it was not made by `{made_by}`; move it away")
    content = {name: value for name, value in _as_json(record).items() if name != "type"}
    whole = {"made_by": made_by, **content, "files": made, OWN_DIGEST: ""}
    whole.setdefault("provenance", provenance())
    write_json(folder / RECORD, {**whole, "files": dict.fromkeys([*before, *made])})
    stale = [name for name in before if name not in made]
    for name in sorted([*stale, *(set(before) & set(made))], key=_depth):  # what stands on top, such as a page, goes first
        (folder / name).unlink(missing_ok=True)
    for name in sorted(made, key=_depth, reverse=True):  # and comes last
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (staged / name).replace(folder / name)
    for parent in {(folder / name).parent for name in stale} - {folder}:
        with suppress(OSError):  # not empty
            parent.rmdir()
    write_json(folder / RECORD, whole)


def _visible(folder: Path) -> list[Path]:
    return [entry for entry in folder.iterdir() if not entry.name.startswith(".")]


def _holds_artifacts(path: Path) -> bool:
    """Whether a folder is an artefact, or holds artefacts only."""
    return _is_folder(path) and ((path / RECORD).is_file() or all(map(_holds_artifacts, _visible(path))))


def _depth(name: str) -> int:
    return name.count("/")


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _as_json(value: Any) -> Any:
    """The value as it comes back from a JSON file."""
    return json.loads(json.dumps(config.to_dict(value)))


# --- records -------------------------------------------------------------------------------------------------------


class Recorded(Protocol):
    """The interface of a record's dataclass. made_by: the command that makes such artefacts."""

    made_by: ClassVar[str]


R = TypeVar("R", bound=Recorded)


def write_record(folder: Path, record: Recorded) -> None:
    """Write the record of an artefact that is written in place; its field `files` is empty until it is finished."""
    values: dict[str, Any] = config.to_dict(record)
    values = {name: value for name, value in values.items() if name != "type"}
    write_json(folder / RECORD, {"made_by": record.made_by, **values, OWN_DIGEST: ""})


def read_record(cls: type[R], folder: Path) -> R:
    """The record of an artefact as a dataclass, which may leave out its files and provenance."""
    if not (folder / RECORD).is_file():
        begun = (folder / PARTIAL).is_dir()
        why = "is half made" if begun else "does not exist" if not folder.exists() else f"was not made by `{cls.made_by}`"
        raise InputError(f"{folder} {why}; run `{cls.made_by}`{' again' if begun else ', or say where it is'}")
    record = read_json_record(folder)
    _require_maker(folder, record, cls.made_by)
    return build_record(cls, record, folder / RECORD)


def build_record(cls: type[T], record: Mapping[str, Any], path: Path) -> T:
    """A record that was read as JSON, as a dataclass."""
    free = {"made_by", OWN_DIGEST, "files", "provenance"} - {field.name for field in fields(cls)}  # type: ignore[arg-type]
    try:
        return config.from_dict(cls, {name: value for name, value in record.items() if name not in free})
    except InputError as error:
        raise InputError(f"{path} was edited, or written by other code: {error}; {_cure(path, record)}") from error


def read_json_record(folder: Path) -> dict[str, Any]:
    """The record of an artefact as JSON values, after a comparison with its own digest."""
    path = folder / RECORD
    record = read_json(path)
    if not isinstance(record, dict):
        raise InputError(f"{path} was edited: it should be an object; {_cure(path, {})}")
    if record.get(OWN_DIGEST) != digest_of(record):
        raise InputError(f"{path} was edited: its digest does not fit its content; {_cure(path, record)}")
    files: Any = record.get("files", {})
    listed = files.items() if isinstance(files, dict) else [("/", None)]
    right = all(_is_inside(name) and (digest is None or isinstance(digest, str)) for name, digest in listed)
    if not right or not isinstance(record.get("made_by"), str):
        raise InputError(f"{path} was edited: it is not the record of an artefact; {_cure(path, record)}")
    return record


def made_by(folder: Path) -> str | None:
    """The command that made the artefact in a folder; None if the folder is not an artefact."""
    try:
        return str(json.loads((folder / RECORD).read_text(encoding="utf-8"))["made_by"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def is_whole(folder: Path) -> bool:
    """Whether an artefact is finished and none of its files is missing."""
    files = _listed(folder)
    return bool(files) and all(digest and (folder / name).is_file() for name, digest in files.items())


def artifacts_in(folder: Path) -> list[Path]:
    """The artefacts directly below a folder, by name; their files are checked only when they are read."""
    return sorted(path.parent for path in folder.glob(f"[!.]*/{RECORD}"))


def checked(folder: Path, name: str, record: Mapping[str, Any] | None = None) -> Path:
    """A file of an artefact, after a comparison with its digest. A process looks at the same file once."""
    record = read_json_record(folder) if record is None else record
    path, wanted = folder / name, record.get("files", {}).get(name)
    if wanted is None:
        raise InputError(f"{path} is not finished; run `{record['made_by']}` again")
    if not path.exists():
        raise InputError(f"{path} is missing; run `{record['made_by']}` again")
    if not _is_right(path, wanted):
        raise InputError(f"{path} is damaged: it is not what was written; delete it and run `{record['made_by']}` again")
    return path


def check(folder: Path) -> dict[str, Any]:
    """Compare every file of an artefact with its digest; returns its record as JSON values."""
    record = read_json_record(folder)
    for name in _listed(folder):
        checked(folder, name, record)
    return record


def _listed(folder: Path) -> dict[str, str | None]:
    """The files of an artefact and their digests; None for a file whose content is not fixed."""
    return dict(read_json_record(folder).get("files", {}))


def _is_inside(name: str) -> bool:
    return not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts


def _cure(path: Path, record: Mapping[str, Any]) -> str:
    maker = record.get("made_by")
    return f"delete {path.parent} and {f'run `{maker}` again' if isinstance(maker, str) else 'make it again'}"


def _require_maker(folder: Path, record: Mapping[str, Any], maker: str) -> None:
    if record["made_by"] != maker:
        raise InputError(
            f"{folder} was made by `{record['made_by']}`, not by `{maker}`; choose another folder or move it away"
        )


def _require_unedited(path: Path, digest: str | None, maker: str) -> None:
    if path.is_symlink() or (digest and path.exists() and not _is_right(path, digest)):
        raise InputError(f"{path} is not as `{maker}` left it; move it away or delete it")


def _is_right(path: Path, digest: str) -> bool:
    """Whether a file has the digest. A process looks at the same file once."""
    seen = Seen(path)
    right = seen.checked or (path.is_file() and not path.is_symlink() and file_digest(path) == digest)
    if right:
        seen.remember()
    return right


def _require_no_link(folder: Path, inside: Path) -> None:
    for path in (folder, *folder.parents):
        if path == inside:
            return
        if path.is_symlink():
            raise InputError(f"{path} is a link; nothing is written through it, move it away")


def _require_writable(parent: Path, path: Path) -> None:
    if not parent.is_dir():
        raise InputError(f"{path} cannot be made: {parent} is not a folder; choose another one")
    if not os.access(parent, os.W_OK | os.X_OK):  # what writing would say, before the work
        why = errno.EROFS if os.statvfs(parent).f_flag & os.ST_RDONLY else errno.EACCES
        raise OSError(why, os.strerror(why), str(path))
