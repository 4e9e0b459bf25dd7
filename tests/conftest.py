"""Small real datasets that several tests read."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from fixtures.datasets import small
from fixtures.evaluated import evaluated_runs as evaluated_runs
from fixtures.shared import made_once

from sgjepa.core import registry, threads
from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect
from sgjepa.envs import ENVS
from sgjepa.envs.benchmarks import PACKAGES, installed
from sgjepa.envs.render import opengl
from sgjepa.envs.world3d import Spatial

threads.without_amx()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it, and so would all it starts
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several tests run side by side; threads that wait for each other cost time

LONG = ("test_demo", "test_cli", "test_train", "test_report", "test_several_worlds", "test_zoo_policy", "test_view_policy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes come first, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished dataset. Read it only; take `copied` to damage one."""
    return made_once(tmp_path_factory, "data", lambda folder: collect(small(), folder / "square", workers=1)) / "square"


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.fixture(scope="session")
def no_opengl() -> str:
    """Why MuJoCo cannot draw here; empty if it can."""
    try:
        opengl.prove()
    except InputError as error:
        return str(error)
    return ""


@pytest.fixture(autouse=True)
def _plugins_stay_in_their_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of a later test would look in vain for a module that lay in this test's folder."""
    monkeypatch.setattr(registry, "_imported", list(registry._imported))


@pytest.fixture(autouse=True)
def _needs_opengl(request: pytest.FixtureRequest) -> None:
    """A test whose parameter `world` is a 3-D one, or that is marked `opengl`, needs a backend that works."""
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    world = parameters.get("world")
    spatial = issubclass(ENVS.get(world, object), Spatial)
    if (spatial or request.node.get_closest_marker("opengl")) and (why := request.getfixturevalue("no_opengl")):
        pytest.skip(why)
    if world in PACKAGES and not installed(world):
        pytest.skip(f"{world} needs the extra `conventional`")
