"""The provenance of results: code, libraries, machine, command and time."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sgjepa import __version__
from sgjepa.core.errors import InputError


def provenance() -> dict[str, Any]:
    """Provenance of a result: code version and commit, library versions, machine, command, time."""
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
    """The versions of the installed packages among these."""
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _commit() -> str | None:
    """The git commit of the code that runs, with "+" if it was edited; None for an installed package."""
    package = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=package, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != package.parent.parent or not git("ls-files", "__init__.py"):
            return None  # installed inside another repository
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def check_provenance(origin: Mapping[str, Any]) -> None:
    """Refuse a provenance that lacks an entry that pages quote; further entries are free."""
    missing = {"sgjepa", "commit", "python", "libraries", "platform", "command", "made"} - set(origin)
    if missing or not isinstance(origin["libraries"], Mapping):
        raise InputError(f"provenance lacks {', '.join(sorted(missing)) or 'the versions of libraries'}")
