"""Files that are whole or not there: write under a temporary name, then rename; and checked before they are used.

A temporary name says who writes it, `.NAME.HOST.PID.RANDOM.tmp`, so that what a killed process left can be told from what
another process is writing just now.

A record (core/records.py) carries a seal, the digest of all else in it: nobody edits a number in it unseen.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sgjepa import __version__
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
            found = digest(path)
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
    return {p.relative_to(folder).as_posix(): digest(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def digest(path: Path) -> str:
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
