"""The installer: what each level brings, where torch comes from, and that one list of versions serves every Python."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import install  # noqa: E402
import other_pythons  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = [Requirement(line) for line in install.CONSTRAINTS.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
VERSIONS = ("3.11", "3.12", "3.13")


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def direct(names: str, python: str) -> set[str]:
    """The packages that extras ask for on this Python, those of extras that they name included."""
    found = set()
    for line in (line for name in names.split(",") for line in EXTRAS[name]):
        asked = Requirement(line)
        if asked.marker and not asked.marker.evaluate({**default_environment(), "python_version": python}):
            continue
        found |= direct(",".join(sorted(asked.extras)), python) if asked.name == "sgjepa" else {plain(asked.name)}
    return found


@pytest.mark.parametrize("python", VERSIONS)
def test_each_level_contains_the_one_before(python: str) -> None:
    brought = [direct(extras, python) for extras, _ in install.LEVELS.values()]
    assert brought[0] < brought[1] < brought[2]
    assert [install.up_to(level) for level in ("view", "dev")] == [["view"], ["view", "demo", "dev"]]


def test_to_look_takes_no_tools_of_development_and_the_demo_draws() -> None:
    view, demo, dev = (direct(extras, "3.12") for extras, _ in install.LEVELS.values())
    assert {"torch", "starlette"} <= view
    assert "matplotlib" in demo - view
    assert {"pytest", "mypy", "onnx", "dm-control", "transformers"} <= dev - demo


@pytest.mark.parametrize("python", VERSIONS)
def test_every_package_that_is_asked_for_has_one_version_on_every_python(python: str) -> None:
    here = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    names = [plain(pin.name) for pin in PINS if pin.marker is None or pin.marker.evaluate(here)]
    assert len(names) == len(set(names))
    base = {plain(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert (base | direct("dev", python)) - {"setuptools"} <= set(names)
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


@pytest.mark.parametrize(("python", "asked"), [("3.11", True), ("3.12", True), ("3.13", False), ("3.14", False)])
def test_labmaze_is_asked_for_where_it_has_a_wheel(python: str, asked: bool) -> None:
    """dm_control needs it, and OGBench dm_control."""
    assert ({"dm-control", "ogbench"} <= direct("conventional", python)) is asked
    assert ({"dm-control", "ogbench"} & direct("dev", python) != set()) is asked
    assert Marker("python_version < '3.13'").evaluate({"python_version": python}) is asked


@pytest.mark.parametrize(
    ("choice", "index", "platform", "sources"),
    [
        ("cpu", None, "linux", ["uv", "pip"]),
        ("cpu", None, "darwin", ["pip"]),  # the plain build has no CUDA there
        ("cuda", None, "linux", ["pip"]),
        ("cpu", "file:///index", "linux", ["index"]),
        ("cuda", "file:///index", "linux", ["index"]),
    ],
)
def test_where_torch_comes_from(choice: str, index: str | None, platform: str, sources: list[str]) -> None:
    assert install.sources(choice, index, platform) == sources


@pytest.mark.parametrize(
    ("there", "choice", "index", "good"),
    [
        ("", "cpu", None, False),
        ("2.13.0+cpu", "cpu", None, True),
        ("2.13.0", "cpu", None, True),  # CUDA, but there
        ("2.12.0+cpu", "cpu", None, False),
        ("2.13.0+cpu", "cuda", None, False),
        ("2.13.0", "cuda", None, True),
        ("2.13.0+cpu", "cpu", "file:///index", False),
    ],
)
def test_a_torch_that_is_there_stays_if_it_is_what_was_asked_for(
    there: str, choice: str, index: str | None, good: bool
) -> None:
    assert install.acceptable(there, "2.13.0", choice, index) is good


def installs(monkeypatch: pytest.MonkeyPatch, choice: str = "cpu", cuda: bool = True, uv: bool = False) -> list[str]:
    """What the installer would run for torch where none is."""
    ran: list[str] = []
    monkeypatch.setattr(install, "output", lambda *_, **__: "")
    monkeypatch.setattr(install, "find_uv", lambda _: "uv")
    monkeypatch.setattr(install, "uv_has", lambda *_: uv)
    monkeypatch.setattr(install, "brings_cuda", lambda *_: cuda)
    monkeypatch.setattr(install, "run", lambda command, **_: ran.append(" ".join(map(str, command))) or 0)
    monkeypatch.setattr(sys, "platform", "linux")
    install.install_torch(Path("python"), choice, None)
    return ran


def test_torch_for_the_cpu_comes_by_uv_where_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = installs(monkeypatch, uv=True)
    assert command.startswith("uv pip install --python python --torch-backend cpu")


def test_else_the_plain_build_comes_with_a_word_about_its_size(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = installs(monkeypatch)
    assert f" torch=={install.pinned('torch')} " in command
    said = capsys.readouterr().out
    assert f"build for CUDA: {install.SIZES['cuda']}" in said
    assert "make TORCH_INDEX=URL" in said


def test_who_wants_cuda_gets_the_plain_build_and_none_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = installs(monkeypatch, choice="cuda")
    assert f" torch==={install.pinned('torch')} " in command


def test_without_venv_the_line_that_brings_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match=rf"apt-get install -y python3\.{sys.version_info[1]}-venv$"):
        install.environment(tmp_path / "venv")
    assert not (tmp_path / "venv").exists()


def test_an_older_python_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install.sys, "version_info", (3, 10, 2))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer"):
        install.environment(tmp_path / "venv")


def test_the_short_suite_names_files_that_are_there_and_skips_a_python_that_is_not() -> None:
    names = other_pythons.WITHOUT_TORCH + other_pythons.WITH_TORCH
    assert [name for name in names if not (ROOT / other_pythons.path_of(name)).is_file()] == []
    assert other_pythons.interpreter("3.99") is None


def test_a_set_up_that_fails_is_no_fault_without_a_network_and_one_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(install, "run", fails)
    for reached in (True, False):
        monkeypatch.setattr(other_pythons, "reached", lambda _, reached=reached: reached)
        assert other_pythons.passes("python", "3.99", "cpu") is not reached


ELSEWHERE = """
import ctypes, importlib, os, pkgutil, sys
import sgjepa
names = [one.name for one in pkgutil.walk_packages(sgjepa.__path__, "sgjepa.") if not one.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
for name in [name for name in sys.modules if name.split(".")[0] == "sgjepa"]:
    del sys.modules[name]
sys.platform = "darwin"
for name in ("sched_getaffinity", "sched_setaffinity", "posix_fadvise", "memfd_create", "copy_file_range"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("spwd", "ossaudiodev", "nis"):
    sys.modules[name] = None
def absent(name, *_, **__):
    raise OSError(f"{name}: not on this system")
ctypes.CDLL = absent
for name in names:
    importlib.import_module(name)
"""


def test_no_module_needs_linux_to_be_imported() -> None:
    """All of them once more, with the names and libraries gone that other systems do not have."""
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
