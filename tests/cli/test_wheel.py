"""What a wheel brings: all that lies in the package, so that its page and its models work without a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from fixtures.viewer import get, running

import sgjepa
from sgjepa import zoo

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import install  # noqa: E402
from other_pythons import has_small_torch  # noqa: E402

BUILD = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"


def content(package: Path) -> set[str]:
    """Every file of a package, but for what Python makes of them."""
    found = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(package).as_posix() for path in found}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what it is made of."""
    place = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "src", place / "source/src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, place / "source" / name)
    subprocess.run([sys.executable, "-c", BUILD], cwd=place / "source", check=True, capture_output=True, timeout=300)
    (made,) = (place / "source/dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's package in an empty folder."""
    place = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


def test_a_wheel_brings_every_file_of_the_package(unpacked: Path) -> None:
    assert content(unpacked / "sgjepa") == content(ROOT / "src/sgjepa")


def test_the_viewer_of_a_wheel_shows_every_model_that_comes_with_it(unpacked: Path, tmp_path: Path, no_opengl: str) -> None:
    """`sgjepa view` without anything else."""
    if no_opengl:
        pytest.skip(no_opengl)
    asked = [sys.executable, "-c", "import sgjepa; print(sgjepa.__file__)"]
    said = subprocess.run(
        asked, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(unpacked)}, capture_output=True, text=True
    )
    assert Path(said.stdout.strip()).is_relative_to(unpacked)
    with running([], tmp_path, package=unpacked) as (_, port):
        assert get(port, "/")[0] == 200
        about = get(port, "/about")[2].decode()
    assert [name for name in zoo.names() if name not in about] == []


@pytest.mark.slow
def test_pip_installs_the_viewer_from_the_wheel_into_an_empty_environment(
    wheel: Path, tmp_path: Path, no_opengl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a stranger would; skipped where torch for the CPU cannot be had, since the other one takes 5 GB."""
    if no_opengl:
        pytest.skip(no_opengl)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # pip would take a checkout that it names for an installation
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "empty")], check=True)
    python = tmp_path / "empty" / "bin" / "python"
    if not has_small_torch(python):
        pytest.skip("torch for the CPU cannot be had here")
    install.install_torch(python, "cpu", None)
    install.pip(python, "install", "--quiet", f"sgjepa[view] @ {wheel.as_uri()}")
    for command, answer in (
        (["-c", "import sgjepa; print(sgjepa.__file__)"], str(tmp_path / "empty")),
        (["-m", "sgjepa", "--version"], f"sgjepa {sgjepa.__version__}"),
    ):
        done = subprocess.run([python, *command], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(answer)
    with running([], tmp_path, package=tmp_path, python=str(python)) as (_, port):
        assert get(port, "/")[0] == 200
        about = get(port, "/about")[2].decode()
    assert [name for name in zoo.names() if name not in about] == []
