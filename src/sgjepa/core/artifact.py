"""Files and folders that are whole or not there: atomic writes, locks, records with digests, output folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, TextIO, TypeVar

from sgjepa import __version__
from sgjepa.core import config
from sgjepa.core.errors import InputError, one_line

SEAL = "seal"
_OLD = 24 * 3600.0  # seconds without a write after which nobody writes a file any more, whoever it was
_checked: set[tuple[str, int, int, int]] = set()  # files whose content this process has seen to be right


def temporary(path: Path) -> Path:
    """A hidden name beside the path that nobody else takes, also no process of another machine that shares the disk."""
    return path.with_name(f".{path.name}.{_host()}.{os.getpid()}.{uuid.uuid4().hex[:12]}.tmp")


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:40] or "host"


def sweep(folder: Path, mine: bool = False) -> None:
    """Remove what killed processes left half written in a folder; not what a living one is writing.

    mine: this process holds the folder's lock, so whatever is half written there was left behind.
    """
    for path in folder.glob(".*.tmp"):
        if mine or abandoned(path):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def abandoned(path: Path) -> bool:
    """Whether nobody writes any more to a temporary name."""
    owner = re.fullmatch(r"\..*\.([A-Za-z0-9-]+)\.([0-9]+)\.[0-9a-f]{12}\.tmp", path.name)
    if owner is not None and owner[1] == _host():
        return not alive(int(owner[2]))
    try:  # of another machine, or of an earlier version: it does not say whether it lives
        return time.time() - path.stat().st_mtime > _OLD
    except OSError:
        return False


def alive(pid: int) -> bool:
    """Whether a process of that number runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # somebody else's
        return True
    return True


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write the file at once: a reader sees the old content or the new one, never a part."""
    written = temporary(path)
    try:
        with written.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file that a person can read, whole or not at all."""
    write_bytes(path, to_json(value).encode("utf-8"))


def to_json(value: Any) -> str:
    """The text of such a file. What carries a seal gets the right one."""
    if isinstance(value, dict) and SEAL in value:
        value = {**value, SEAL: seal_of(value)}
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    # a path that is no UTF-8 has surrogates: nothing can write them, but JSON can spell them
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_json(path: Path, cure: str = "") -> Any:
    """The content of a JSON file, or an InputError that names it. cure: what to do about a bad one, for the message."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, a number of 5,000 digits
        raise InputError(f"{path} cannot be read as JSON ({one_line(error)}){cure and f'; {cure}'}") from error


def seal_of(value: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON object without its seal; spaces and the order of keys do not count."""
    rest = {key: item for key, item in value.items() if key != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def verify(path: Path, written: Mapping[str, str], cure: str) -> Path:
    """Refuse a file that is not the one that was written; returns its path. A process looks at the same file once.

    written: digests by file name, from the record that belongs to the file. Earlier versions wrote none: then there is
    nothing to compare with.
    """
    if (wanted := written.get(path.name)) is not None and not (seen := Seen(path)).checked:
        try:
            found = file_digest(path)
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); {cure}") from error
        if found != wanted:
            raise InputError(f"{path} is damaged: it is not what was written; {cure}")
        seen.remember()
    return path


class Seen:
    """A file as it is now. It counts as checked until it is written again: reading gigabytes once per process is enough."""

    def __init__(self, path: Path):
        try:
            found = path.stat()
            self._key = (str(path.resolve()), found.st_size, found.st_mtime_ns, found.st_ino)
        except OSError:
            self._key = (str(path), -1, -1, -1)

    @property
    def checked(self) -> bool:
        return self._key in _checked

    def remember(self) -> None:
        """It was looked at, and is right."""
        _checked.add(self._key)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below the folder, by relative path."""
    return {p.relative_to(folder).as_posix(): file_digest(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def file_digest(path: Path) -> str:
    """SHA-256 of one file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def provenance() -> dict[str, Any]:
    """What made a result: code version and commit, library versions, machine, command, time."""
    return {
        "sgjepa": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "libraries": _versions("mujoco", "numpy", "pylance", "pyarrow", "torch", "safetensors", "transformers"),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "platform": platform.platform(),
        "opengl": os.environ.get("MUJOCO_GL"),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _versions(*names: str) -> dict[str, str]:
    """Of those that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The git commit of the code that runs, with "+" if it was edited; None for an installed package."""
    here = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != here.parent.parent or not git("ls-files", "__init__.py"):
            return None  # installed inside somebody else's repository
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


LOCK = ".lock"
_held: dict[Path, int] = {}  # by this process, and how often: a stage that calls another one does not wait for itself
_changing = threading.Lock()
_UNKNOWN = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)  # a disk that knows no locks: work goes on without


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if need be: two writers would tread on each other. A folder still empty goes again."""
    key = folder.resolve()
    with _changing:
        again = key in _held
        made = [] if again else _make(folder)
        lock = None if again else _take(folder)
        _held[key] = _held.get(key, 0) + 1
    try:
        yield
    finally:
        with _changing:
            _held[key] -= 1
            if not _held[key]:
                del _held[key]
            if lock is not None:
                _give_back(lock, folder)
                for empty in made:
                    with suppress(OSError):  # it is not empty, or has another name by now
                        empty.rmdir()


@contextmanager
def briefly_locked(folder: Path) -> Iterator[None]:
    """Hold a folder that is there while files in it change places: whoever comes waits, and no file says so."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a disk without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _make(folder: Path) -> list[Path]:
    """Make the folder; returns those that were missing, the innermost first."""
    made = []
    for path in [folder, *folder.parents]:
        if path.exists():
            break
        made.append(path)
    folder.mkdir(parents=True, exist_ok=True)
    return made


def _take(folder: Path) -> TextIO:
    path = folder / LOCK
    while True:
        file = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read(200).strip() or "another process"
            file.close()
            raise InputError(f"{folder} is in use by {holder}; wait for it or stop it") from error
        except OSError as error:
            if error.errno not in _UNKNOWN:
                file.close()
                raise
        try:
            same = os.path.samestat(os.fstat(file.fileno()), path.stat())
        except FileNotFoundError:
            same = False
        if same:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}\n")
            file.flush()
            return file
        file.close()  # the holder before us removed the file just when we opened it


def _give_back(file: TextIO, folder: Path) -> None:
    """Remove the file while it is still locked. The folder may have got another name: then its owner removes it."""
    path = folder / LOCK
    with suppress(OSError):
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            path.unlink()
    file.close()


T = TypeVar("T")
Digests = dict[str, str]  # SHA-256 by the name of a file beside the record


def write_record(path: Path, record: Any) -> None:
    """Write a record, whole or not at all, with its seal."""
    write_bytes(path, record_bytes(record))


def record_bytes(record: Any) -> bytes:
    """What `write` writes."""
    return to_json({**config.to_dict(record), SEAL: ""}).encode("utf-8")


def read_record(cls: type[T], path: Path, cure: str, renamed: Mapping[str, str] | None = None) -> T:
    """The record in a file. cure: what to do about a bad one. renamed: fields that an earlier version called otherwise."""
    return build_record(cls, read_json(path, cure), path, cure, renamed)


def build_record(cls: type[T], found: Any, path: Path, cure: str, renamed: Mapping[str, str] | None = None) -> T:
    """As `read`, for JSON that was read already."""
    if not isinstance(found, dict):
        raise InputError(f"{path} was edited: it should be an object; {cure}")
    values = {(renamed or {}).get(key, key): value for key, value in found.items() if key != SEAL}
    try:
        record = config.from_dict(cls, values)
    except InputError as error:
        raise InputError(f"{path} was edited: {error}; {cure}") from error
    check_seal(found, path, cure)
    return record


def check_seal(found: Mapping[str, Any], path: Path, cure: str) -> None:
    """Refuse a record in which anything differs from what was written."""
    if SEAL in found and found[SEAL] != seal_of(found):
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

    config: dict[str, Any]  # of training/config.py's Run, which knows torch
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


def kept_record(path: Path, settings: Any, cls: type[T], cure: str, renamed: Mapping[str, str] | None = None) -> T | None:
    """What a stage wrote about itself, if it did so with the very same settings; None if the stage has to run."""
    if not path.is_file():
        return None
    found = read_json(path, cure)
    if not isinstance(found, dict):
        raise InputError(f"{path} was edited: it should be an object; {cure}")
    check_seal(found, path, cure)
    names = {"settings", *(old for old, new in (renamed or {}).items() if new == "settings")}
    there = next((found[name] for name in names if name in found), None)
    # what earlier versions wrote may lack fields; with other settings it is done anew, and need not be understood
    there = {key: value for key, value in there.items() if key != "type"} if isinstance(there, dict) else there
    return build_record(cls, found, path, cure, renamed) if there == settings else None


MARKER = ".sgjepa.json"
Written = dict[str, str | None]  # relative path -> SHA-256 of what we wrote; None: ours, whatever it holds


def check_output(path: Path, made_by: str, known: Sequence[str] = ()) -> Written:
    """Refuse a folder that this command must not write into; returns the files there that are its own.

    made_by: the command. known: names of its files, for folders made before there were markers: one that holds nothing
    else is ours.
    """
    if not path.exists() and not path.is_symlink():
        _require_writable(next(place for place in path.absolute().parents if place.exists()), path)
        return {}
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; choose another one or move it away")
    _require_writable(path, path)
    if (path / MARKER).is_file():
        return _listed(path, made_by)
    names = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
    if set(names) <= set(known):
        return dict.fromkeys(names)
    raise InputError(f"{path} is not empty and was not made by `{made_by}`; choose another folder or move it away")


@contextmanager
def output_folder(path: Path, made_by: str, whole: str, known: Sequence[str] = ()) -> Iterator[Path]:
    """A place to write files to; when the block ends without an error they, and only they, are ours in `path`.

    whole: the file that readers look for. It goes first and comes last, so that it never stands beside files of another
    making, not even when the process is killed while files take their places.
    """
    check_output(path, made_by, known)
    # inside a folder that exists: its parent may be another disk, or not ours to write to
    beside, inside = path.absolute(), path / "sgjepa"
    staged = temporary(inside if path.is_dir() else beside)
    _clear(beside)
    _clear(inside)
    staged.mkdir(parents=True)
    try:
        _mark(staged, made_by, {})
        yield staged
        made: Written = {name: digest for name, digest in digests(staged).items() if name != MARKER}
        if path.is_dir():
            with briefly_locked(path):
                _replace(staged, path, made_by, made, whole, known)
        else:
            _mark(staged, made_by, made)
            staged.rename(path)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def add_output(path: Path, name: str, content: bytes) -> None:
    """One more file for a folder of ours, in place of an earlier one of that name."""
    if not (path / MARKER).is_file():  # made before there were markers
        write_bytes(path / name, content)
        return
    with briefly_locked(path):
        maker, ours = _marked(path)
        _make_room(path, name, ours)
        # ours from before the first byte: a kill between the two must not make it look like somebody else's
        _mark(path, maker, ours | {name: None})
        write_bytes(path / name, content)
        _mark(path, maker, ours | {name: file_digest(path / name)})


def _require_writable(place: Path, path: Path) -> None:
    if not place.is_dir():
        raise InputError(f"{path} cannot be made: {place} is not a folder; choose another one")
    if not os.access(place, os.W_OK | os.X_OK):  # what writing would say, before the work
        why = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
        raise OSError(why, os.strerror(why), str(path))


def _listed(path: Path, made_by: str) -> Written:
    """What the marker of this command lists."""
    maker, ours = _marked(path)
    if maker != made_by:
        raise InputError(f"{path} was made by `{maker}`, not by `{made_by}`; choose another folder or move it away")
    return ours


def _mark(path: Path, made_by: str, ours: Written) -> None:
    """With a seal: an edited list must not make somebody's file ours, nor ours somebody's."""
    write_json(path / MARKER, {"made_by": made_by, "files": ours, SEAL: ""})


def _marked(path: Path) -> tuple[str, Written]:
    """Who made the folder, and what is listed; a name that leads out of the folder is nobody's of ours."""
    cure = "choose another folder or move this one away"
    mark = read_json(path / MARKER, cure)
    maker, listed = (mark.get("made_by"), mark.get("files")) if isinstance(mark, dict) else (None, None)
    if not isinstance(maker, str) or not isinstance(listed, dict):
        raise InputError(f"{path / MARKER} was edited; {cure}")
    check_seal(mark, path / MARKER, cure)
    return maker, {
        name: digest if isinstance(digest, str) else None
        for name, digest in listed.items()
        if not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
    }


def _replace(staged: Path, path: Path, made_by: str, made: Written, whole: str, known: Sequence[str]) -> None:
    """Put what was made in the places of what we had made before, by renames alone."""
    ours = check_output(path, made_by, known)  # again: hours may have passed
    for left in path.glob(f".{MARKER}.*.tmp"):  # of one that was killed: we hold the folder
        left.unlink()
    for name in made:
        _make_room(path, name, ours)
    stale = [name for name in ours if name not in made and _unchanged(path / name, ours[name])]
    _mark(path, made_by, dict.fromkeys([*stale, *made]))
    for name in sorted([*stale, *({whole} & set(ours))], key=lambda name: name != whole):
        (path / name).unlink(missing_ok=True)
    for name in sorted(made, key=lambda name: name == whole):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (staged / name).replace(path / name)
    for folder in {(path / name).parent for name in stale} - {path}:
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
    _mark(path, made_by, made)


def _make_room(path: Path, name: str, ours: Written) -> None:
    """Set aside what stands where a file of ours must go, if it is not ours."""
    for parent in reversed((path / name).relative_to(path).parents):
        if (path / parent).exists() and not (path / parent).is_dir():
            _set_aside(path / parent)
    place = path / name
    if (place.exists() or place.is_symlink()) and not (name in ours and _unchanged(place, ours[name])):
        _set_aside(place)


def _unchanged(place: Path, digest: str | None) -> bool:
    """Whether a file is as we wrote it, or gone."""
    if not place.exists():
        return not place.is_symlink()
    return place.is_file() and (digest is None or file_digest(place) == digest)


def _set_aside(place: Path) -> None:
    free = (place.with_name(f"{place.stem}.yours{number or ''}{place.suffix}") for number in count())
    kept = next(path for path in free if not path.exists())
    place.rename(kept)
    print(f"sgjepa: {place} is not as we left it; it is kept as {kept.name}", file=sys.stderr)


def _clear(path: Path) -> None:
    """Remove hidden folders beside the path that killed processes left; only ours have a marker."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if (left / MARKER).is_file() and abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
