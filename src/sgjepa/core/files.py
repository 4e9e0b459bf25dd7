"""Files: written whole or not at all, compared with digests, in folders that one process writes at a time."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import platform
import re
import shutil
import stat
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sgjepa.core.errors import InputError, one_line

LOCK = ".lock"
OWN_DIGEST = "record_sha256"  # a record's own digest
_DAY = 24 * 3600.0  # seconds without a write after which a temporary file counts as abandoned
TEMPORARY = re.compile(r"\..+\.([A-Za-z0-9-]+)\.([0-9]+)\.[0-9a-f]{12}\.tmp")
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)  # a disk that knows no locks: work goes on without
_checked: set[tuple[str, int, int, int]] = set()  # files whose content this process has compared with their digests
_held: dict[Path, int] = {}  # locks of this process, and how often: a stage that calls another one does not wait for itself
_changing = threading.Lock()

Digests = dict[str, str]  # SHA-256 by the name of a file, seen from the record


# --- content ----------------------------------------------------------------------------------------------------------


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
    """The text of a JSON file; a record gets its right digest."""
    if isinstance(value, dict) and OWN_DIGEST in value:
        value = {**value, OWN_DIGEST: digest_of(value)}
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    # a path that is no UTF-8 has surrogates: nothing can write them, but JSON can spell them
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_json(path: Path) -> Any:
    """The content of a JSON file, or an InputError that names it."""
    try:
        with _open_regular(path) as file:
            return json.loads(file.read().decode("utf-8"))
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, a number of 5,000 digits
        raise InputError(f"{path} cannot be read as JSON ({one_line(error)})") from error


def temporary(path: Path) -> Path:
    """A hidden name next to the path, unique also among processes of other machines that share the disk."""
    return path.with_name(f".{path.name}.{_host()}.{os.getpid()}.{uuid.uuid4().hex[:12]}.tmp")


def sweep(folder: Path, mine: bool = False) -> None:
    """Remove the temporary files that killed processes left in a folder, but not those of a living process.

    mine: this process holds the folder's lock, so every temporary file in it was left behind.
    """
    for path in folder.glob(".*.tmp"):
        if TEMPORARY.fullmatch(path.name) and not path.is_symlink() and (mine or _is_abandoned(path)):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def digests(folder: Path) -> Digests:
    """SHA-256 of every file below the folder, by relative path."""
    return {p.relative_to(folder).as_posix(): file_digest(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def file_digest(path: Path) -> str:
    """SHA-256 of one file."""
    with _open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open_regular(path: Path) -> io.FileIO:
    """A file to read; a pipe or a device in its place would hang for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{path} is not a regular file; move it away")
    return io.FileIO(handle)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:40] or "host"


def _is_abandoned(path: Path) -> bool:
    """Whether no living process writes to a temporary file."""
    owner = TEMPORARY.fullmatch(path.name)
    if owner is not None and owner[1] == _host():
        return not _is_alive(int(owner[2]))
    try:  # of another machine: it does not say whether it lives
        return time.time() - path.stat().st_mtime > _DAY
    except OSError:
        return False


def _is_alive(pid: int) -> bool:
    """Whether a process of that number runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # another user's process
        return True
    return True


class Seen:
    """A file in its present state. It counts as checked until it is written again, so that a process reads it only once."""

    def __init__(self, path: Path):
        try:
            status = path.stat()
            self._key = (str(path.resolve()), status.st_size, status.st_mtime_ns, status.st_ino)
        except OSError:
            self._key = (str(path), -1, -1, -1)

    @property
    def checked(self) -> bool:
        return self._key in _checked

    def remember(self) -> None:
        """Remember that the file's digest was right."""
        _checked.add(self._key)


def digest_of(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record without its own digest, independent of spaces and of the order of keys."""
    rest = {key: item for key, item in record.items() if key != OWN_DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


# --- one writer -------------------------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for one writer; it is made if it is missing, and removed again if it stays empty."""
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
    """Lock an existing folder while one file changes: other writers wait, and no lock file is written."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a disk without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _make(folder: Path) -> list[Path]:
    """Make the folder; returns those that were missing, the innermost first."""
    require_name(folder)
    made = []
    for path in [folder, *folder.parents]:
        if path.exists():
            break
        made.append(path)
    folder.mkdir(parents=True, exist_ok=True)
    return made


def _take(folder: Path) -> io.FileIO:
    path = folder / LOCK
    while True:
        file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = file.read(200).decode("utf-8", "replace").strip() or "another process"
            file.close()
            raise InputError(f"{folder} is in use by {one_line(holder)}; wait for it or stop it") from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                file.close()
                raise
        try:
            same = os.path.samestat(os.fstat(file.fileno()), path.stat())
        except FileNotFoundError:
            same = False
        if same:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}\n".encode())
            return file
        file.close()  # the holder before us removed the file just when we opened it


def _give_back(file: io.FileIO, folder: Path) -> None:
    """Remove the file while it is still locked."""
    path = folder / LOCK
    with suppress(OSError):
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            path.unlink()
    file.close()


def require_name(folder: Path) -> None:
    """Refuse a folder name that libraries, or a terminal, cannot write."""
    if not all(char.isprintable() for char in str(folder)):  # also bytes that are no UTF-8
        name = str(folder).encode("unicode_escape").decode("ascii")
        raise InputError(f"'{name}' cannot be a folder's name: it holds a character that cannot be printed")
