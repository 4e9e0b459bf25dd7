"""A short suite on every other Python that is there: `make test-all`. One that is missing, or no network, fails nothing.

Each gets an environment of its own, `.venv-3.12` and so on. Whether `.[dev]` can be installed there is asked of pip. torch
is part of it where a build for the CPU can be had; the one with CUDA would be 2.7 GB for each (`--torch cuda` takes it).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import install
from install import ROOT, pip, say

VERSIONS = ("3.11", "3.12", "3.13")
TOOLS = ("hypothesis", "pytest", "pytest-xdist", "setuptools")
# files of the suite: what depends on the interpreter, and some of every room
WITHOUT_TORCH = (
    *("core/records", "data/store", "envs/approach_ball", "envs/gymnasium", "envs/laws", "envs/planar", "envs/raster"),
    *("planning/goals", "theory/theory_linear"),
)
WITH_TORCH = (
    *("cli/zoo", "envs/conventional", "models/candidate_rollouts", "models/models", "models/rollout"),
    "training/losses",
)
REACHED, BROKEN, UNREACHED = "ready", "broken", "no network"


def main() -> None:
    """Every other Python in turn; the exit code is 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="such as 3.12; all by default")
    parser.add_argument("--torch", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    failed = []
    for version in options.versions:
        if version == f"3.{sys.version_info[1]}":
            continue
        python = interpreter(version)
        if python is None:
            say(f"Python {version}: not here")
        elif not passes(python, version, options.torch):
            failed.append(version)
    sys.exit(f"failed on Python {', '.join(failed)}" if failed else 0)


def interpreter(version: str) -> str | None:
    """A Python of this version that runs: on PATH, where a name may be an empty shim, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    on_path = shutil.which(f"python{version}")
    found = [*([on_path] if on_path else []), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}")))]
    asked = "import sys, ensurepip; print(*sys.version_info[:2], sep='.')"
    return next((one for one in found if install.output([one, "-c", asked]) == version), None)


def passes(interpreter: str, version: str, choice: str) -> bool:
    """Set up, run, and say the seconds of both. An environment that cannot be had for want of a network passes."""
    begun = time.monotonic()
    venv = ROOT / f".venv-{version}"
    python = venv / "bin" / "python"
    state = prepare(interpreter, venv, choice)
    if state != REACHED:
        say(f"Python {version}: {state}, " + ("nothing was tested" if state == UNREACHED else "see above"))
        return state == UNREACHED
    ready = time.monotonic()
    torch = install.output([str(python), "-c", "import torch; print(torch.__version__)"])
    names = WITHOUT_TORCH + (WITH_TORCH if torch else ())
    say(f"Python {version}: {len(names)} files of tests, " + (f"torch {torch}" if torch else "without torch"))
    files = [str(path_of(name)) for name in names]
    asked = [str(python), "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "-m", "not slow"]
    code = subprocess.run([*asked, *files], cwd=ROOT, check=False).returncode
    took = f"set-up {ready - begun:.0f} s, tests {time.monotonic() - ready:.0f} s"
    say(f"Python {version}: {'failed' if code else 'passed'}, {took}")
    return code == 0


def path_of(name: str) -> Path:
    """The file of tests that is called ROOM/NAME."""
    room, file = name.split("/")
    return Path("tests") / room / f"test_{file}.py"


def prepare(interpreter: str, venv: Path, choice: str) -> str:
    """Create and fill the environment: whether it is ready, broken, or there is no network."""
    python = venv / "bin" / "python"
    say(f"{venv.name} with {interpreter}")
    try:
        install.run([interpreter, "-m", "venv", str(venv)])
        if choice == "cuda" or has_small_torch(python):
            install.install_torch(python, choice, None)
        extra = "train," if install.output([str(python), "-c", "import torch; print(1)"]) else ""
        pip(python, "install", "--quiet", "-e", f"{ROOT}[{extra}report]", *TOOLS)
        install.run([str(venv / "bin" / "sgjepa"), "doctor", "--fix", "conventional"], report=False)
        say("would .[dev] install?")
        pip(python, "install", "--quiet", "--quiet", "--dry-run", "-e", f"{ROOT}[dev]")
    except SystemExit:
        return BROKEN if reached(python) else UNREACHED
    return REACHED


def has_small_torch(python: Path) -> bool:
    """Whether torch is there already, or comes without CUDA: from uv or from pip's own index."""
    version = install.pinned("torch")
    there = install.output([str(python), "-c", "from importlib.metadata import version; print(version('torch'))"])
    if there or not install.brings_cuda(python, f"torch=={version}"):
        return True
    uv = install.find_uv(python)
    return uv is not None and install.uv_has(uv, python)


def reached(python: Path) -> bool:
    """Whether pip can install anything at all: a package that the suite needs and that needs no other."""
    probe = [str(python), "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed", "--no-cache-dir"]
    return "Would install" in install.output([*probe, f"iniconfig=={install.pinned('iniconfig')}"])


if __name__ == "__main__":
    main()
