"""One writer at a time: a lock file that says who holds it, and that nobody has to clear away.

The kernel gives the lock back when its process ends, however it ends; the file alone locks nothing. It is removed when the
work is done, and one that a kill left is taken over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from sgjepa.core.errors import InputError

LOCK = ".lock"
_held: dict[Path, int] = {}  # by this process, and how often: a stage that calls another one does not wait for itself
_changing = threading.Lock()
_UNKNOWN = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)  # a disk that knows no locks: work goes on without


@contextmanager
def alone(folder: Path) -> Iterator[None]:
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
def for_a_moment(folder: Path) -> Iterator[None]:
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
