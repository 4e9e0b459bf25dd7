"""Files that are whole or not there: write under a temporary name, then rename. Also where a result came from."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sgjepa import __version__
from sgjepa.core.errors import InputError, one_line


def temporary(path: Path) -> Path:
    """A hidden name beside the path that nobody else takes, also no process of another machine that shares the disk."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


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
    write_bytes(path, to_json(value).encode())


def to_json(value: Any) -> str:
    """The text of such a file."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    # a path that is no UTF-8 has surrogates: nothing can write them, but JSON can spell them
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_json(path: Path) -> Any:
    """The content of a JSON file, or an InputError that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read as JSON ({one_line(error)})") from error


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
        if Path(git("rev-parse", "--show-toplevel")) != here.parent or not git("ls-files", "__init__.py"):
            return None  # installed inside somebody else's repository
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
