"""System packages that pip cannot bring. Where root or sudo allows they are installed, else the exact line is printed.

Nothing here fails: worlds in the plane need no OpenGL, and a test without its browser is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from sgjepa.cli import examination
from sgjepa.envs.render import opengl

CHROMIUM = ("chromium",)


def browser() -> str | None:
    """A browser that can open a page without a screen."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def install_opengl() -> None:
    """The library with which MuJoCo draws."""
    if not any(state == "works" for state in examination.drawing_backends().values()):
        _install("OpenGL for MuJoCo's renderer", opengl.PACKAGES, examination.install_line())


def install_browser() -> None:
    """Chromium, for the test that opens a report as a reader would."""
    if browser() is None:
        _install("a browser for the test of the report", CHROMIUM, examination.apt_line(CHROMIUM))


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
