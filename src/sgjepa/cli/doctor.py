"""`sgjepa doctor`: report packages and hardware of this machine; `--fix` installs missing packages."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Any

import psutil

from sgjepa import __version__
from sgjepa.cli import arguments
from sgjepa.core import threads
from sgjepa.core.errors import one_line
from sgjepa.envs.render import opengl


def examine_machine() -> dict[str, Any]:
    """The report of `sgjepa doctor` as one JSON value."""
    drawing = drawing_backends()
    missing = []
    working = [name for name, state in drawing.items() if state == "works"]
    if working and opengl.REQUESTED and opengl.REQUESTED not in working:
        missing.append(f"nothing, but MUJOCO_GL={opengl.REQUESTED} cannot draw and {working[0]} can: unset MUJOCO_GL")
    elif not working:
        missing.append(f"OpenGL for MuJoCo's renderer (planar worlds do without): {install_line()}")
    packages, extras = installed_packages()
    if lacking := [name for name, number in packages.items() if number is None]:
        missing.append(f"{', '.join(lacking)}: pip install sgjepa")
    triton = triton_after_drawing() if working and find_spec("triton") else None
    if triton not in (None, "works"):
        missing.append(f"nothing, but triton cannot be loaded after drawing ({triton}): pip uninstall triton")
    for extra, versions in extras.items():
        if lacking := [name for name, number in versions.items() if number is None]:
            cure = "sgjepa doctor --fix conventional" if extra == "conventional" else f"pip install 'sgjepa[{extra}]'"
            missing.append(f"{', '.join(lacking)} (extra `{extra}`): {cure}")
    return {
        "sgjepa": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": threads.cores(),
        "compute": threads.prepare(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "disk_free_gib": round(shutil.disk_usage(".").free / 2**30, 1),  # "." also where the folder was deleted
        "packages": packages,
        "extras": extras,
        "opengl": drawing,
        "opengl_chosen": "none" if not opengl.known() else opengl.REQUESTED or (working[0] if working else "none"),
        **({"triton": triton} if triton else {}),
        "missing": missing,
        **({"meshes": robots} if (robots := meshes()) else {}),
    }


def meshes() -> dict[str, str]:
    """The folder that SGJEPA_MENAGERIE names and, for each robot, whether its meshes can be used; empty without a folder."""
    from sgjepa.envs import ENVS
    from sgjepa.envs.arm_world import ArmWorld
    from sgjepa.envs.robots import MENAGERIE

    if not os.environ.get(MENAGERIE):
        return {}
    report = {MENAGERIE: os.environ[MENAGERIE]}
    for world in {env.robot.name: env for env in ENVS.values() if issubclass(env, ArmWorld)}.values():
        try:
            world(image_size=8)
            report[world.robot.name] = "found"
        except ValueError as error:
            why = one_line(error.__cause__ or error, 100)
            report[world.robot.name] = f"{world.robot.menagerie} cannot be used ({why})"
    return report


def drawing_backends() -> dict[str, str]:
    """The state of each backend, that of MUJOCO_GL first: "works", or the reason why not.

    Each draws a test frame in a process of its own, so that none can crash this one, and a new installation is detected.
    """
    report = {}
    # importing MuJoCo with one backend sets PYOPENGL_PLATFORM, with which another one cannot start
    clean = {key: value for key, value in os.environ.items() if key != "PYOPENGL_PLATFORM"}
    opengl.load_triton()
    for name in dict.fromkeys([*([opengl.REQUESTED] if opengl.REQUESTED else []), *opengl.PROBES]):
        if name in opengl.PROBES and not opengl.PROBES[name]():
            report[name] = "library not found or no device"
            continue
        code = "from sgjepa.envs.render import opengl; print(opengl.prove())"
        done = subprocess.run(
            [sys.executable, "-c", code], env={**clean, "MUJOCO_GL": name}, capture_output=True, text=True, check=False
        )
        lines = (done.stderr.strip() or "no message").splitlines()
        report[name] = (
            "works"
            if done.returncode == 0 and done.stdout.strip() == name
            else one_line(re.sub(r"^[\w.]+: ", "", lines[-1]), 120)
        )
    return report


def triton_after_drawing() -> str:
    """The state of triton, which CUDA builds of torch bring, in a process that has drawn: "works", or the reason why not.

    Mesa's LLVM silently kills a process that loads triton's later, so this is tried in a process of its own.
    """
    code = "from sgjepa.envs.render import opengl; opengl.prove(); import triton"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode < 0:
        return f"the process dies with signal {-done.returncode}"
    return "works" if done.returncode == 0 else one_line((done.stderr.strip() or "no message").splitlines()[-1], 120)


def install_line() -> str:
    """The exact line that installs OpenGL on Debian and Ubuntu."""
    return apt_line(opengl.PACKAGES) + "   (or libosmesa6)"


def apt_line(packages: Sequence[str]) -> str:
    """The line that installs packages on Debian and Ubuntu, as this user must type it."""
    root = [] if os.geteuid() == 0 else ["sudo"]
    return " ".join([*root, "apt-get", "install", "-y", *packages])


def installed_packages() -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """Versions of the packages that sgjepa needs, and of those of each extra, as in its own metadata."""
    packages: dict[str, str | None] = {}
    extras: dict[str, dict[str, str | None]] = {}
    for line in _requirements():
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra == ['\"]([\w.-]+)['\"]", line)
        if name and name[0] != "sgjepa":  # an extra may name other extras of this package, which are listed themselves
            (packages if extra is None else extras.setdefault(extra[1], {}))[name[0]] = _version(name[0])
    return packages, extras


def _requirements() -> list[str]:
    try:
        return requires("sgjepa") or []
    except PackageNotFoundError:  # run from its source, without an installation
        return []


def requirements_of(names: Sequence[str]) -> list[str]:
    """These packages with the versions of this package's metadata, as pip takes them, on any Python."""
    lines = [line.partition(";")[0].strip() for line in _requirements()]
    by_name = {re.split(r"[^\w.-]", line)[0]: line for line in lines}
    return [by_name.get(name, name) for name in names]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _with_versions(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {number or 'MISSING'}" for name, number in packages.items())


def as_text(machine: dict[str, Any]) -> str:
    """The report as text."""
    cores = threads.counted(machine["cores"], "core")
    lines = [
        f"sgjepa {machine['sgjepa']}, Python {machine['python']}, {machine['system']}",
        f"{cores}, {machine['memory_gib']} GiB of memory, {machine['disk_free_gib']} GiB of disk free here",
        "compute:  " + threads.as_text(machine["compute"]),
        "packages: " + _with_versions(machine["packages"]),
        *(f"  {extra + ': ':8s}" + _with_versions(packages) for extra, packages in machine["extras"].items()),
        "OpenGL:   " + ", ".join(f"{name}: {state}" for name, state in machine["opengl"].items()),
        f"          MuJoCo will use {machine['opengl_chosen']}; the planar worlds' raster needs none",
    ]
    if "triton" in machine:
        lines.append(f"          triton after drawing: {machine['triton']}")
    if "meshes" in machine:
        lines.append("meshes:   " + ", ".join(f"{name}: {state}" for name, state in machine["meshes"].items()))
    missing = machine["missing"] or ["nothing"]
    return "\n".join([*lines, *(f"missing:  {item}" for item in missing)])


CHROMIUM = ("chromium",)


def find_browser() -> str | None:
    """A browser that can open a page without a screen."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def install_opengl() -> None:
    """Install the library with which MuJoCo draws."""
    if not any(state == "works" for state in drawing_backends().values()):
        _install("OpenGL for MuJoCo's renderer", opengl.PACKAGES, install_line())


def install_browser() -> None:
    """Install Chromium, for the test that opens a report in a browser."""
    if find_browser() is None:
        _install("a browser for the test of the report", CHROMIUM, apt_line(CHROMIUM))


def install_conventional() -> None:
    """Install the packages with the model files of `reacher` and `cube`, without the dependencies of their code.

    The extra installs those too; from Python 3.13 on it cannot, since dm_control's labmaze has no wheel there.
    """
    from sgjepa.envs.benchmarks import PACKAGES, installed

    wanted = [name for world, name in PACKAGES.items() if not installed(world)]
    if not wanted:
        return
    command = [sys.executable, "-m", "pip", "install", "--no-deps", *requirements_of(wanted)]
    print(f"installing model files: {', '.join(wanted)}", file=sys.stderr, flush=True)
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode != 0:
        print("that failed; the other worlds do without", file=sys.stderr)


def _install(what: str, packages: Sequence[str], line: str) -> None:
    """Install packages, with messages on standard error: standard output is for the report."""
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
    """Run a command without standard input; returns whether it succeeded."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=quiet, check=False)
    return done.returncode == 0


ABOUT = "report packages and hardware of this machine, and missing packages"
EXAMPLE = "sgjepa doctor --json doctor.json"
FIXES = ("opengl", "browser", "conventional")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    arguments.add_json(parser, "also write the report as JSON; without FILE, print that alone")
    parser.add_argument(
        "--fix",
        nargs="*",
        choices=FIXES,
        metavar="WHAT",
        help="install missing packages, if root or sudo allows: opengl (default), "
        "browser (chromium, with which the tests open a report), or conventional (model files of reacher and cube, by pip)",
    )


def run(options: Namespace) -> None:
    """Install the packages of `--fix`, then print the report."""
    arguments.check_json(options.json)

    if options.fix is not None:
        for name in options.fix or ["opengl"]:
            {"opengl": install_opengl, "browser": install_browser, "conventional": install_conventional}[name]()
    machine = examine_machine()
    arguments.print_or_write(options.json, machine, as_text(machine))
