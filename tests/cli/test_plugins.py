"""Worlds, laws, models and policies from outside the package: by import, by `--import`, by an entry point, in workers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sgjepa
from sgjepa.core import registry
from sgjepa.core.errors import InputError
from sgjepa.core.registry import Registry

FIXTURES = Path(__file__).parents[1] / "fixtures"
COMMAND = [sys.executable, "-m", "sgjepa"]


def command(folder: Path, *words: str, fails: bool = False) -> str:
    """One command in a process of its own; what it says."""
    done = subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a plug-in module, as a user's own."""
    for name in ("pendulum_world", "toys"):
        shutil.copy(FIXTURES / f"{name}.py", tmp_path)
    return tmp_path


@pytest.mark.opengl
def test_a_pendulum_of_gymnasium_goes_the_whole_way_from_the_command_line(outside: Path) -> None:
    """Two workers make the data, and each command knows the world by `--import` alone."""
    ours = ("--import", "pendulum_world")
    command(outside, "data", "pendulum", "--workers", "2", *ours)
    one = outside / "datasets" / "pendulum-mini"
    command(outside, "data", "pendulum", "--workers", "1", "--out", "datasets/again", *ours)
    digests = [json.loads((folder / "artifact.json").read_text())["parts"] for folder in (one, outside / "datasets/again")]
    assert [digests[0][split]["episodes"] for split in ("train", "test")] == [12, 6]
    assert digests[0]["test"]["digest"] == digests[1]["test"]["digest"]
    command(outside, "train", "pendulum_gru", "--updates", "2", *ours)
    command(outside, "evaluate", "runs/pendulum_gru-mini-seed0", *ours)
    said = command(outside, "report", "runs/pendulum_gru-mini-seed0", *ours)
    assert "report/index.html" in said
    refused = command(outside, "data", "pendulum", fails=True)
    assert "unknown world 'pendulum'" in refused


@pytest.mark.opengl
def test_a_pendulum_swings_as_its_law_says(outside: Path) -> None:
    """Without gravity a pole that is let go keeps its angle; with it, the more the faster it falls."""
    code = """
import sys; sys.path.insert(0, ".")
import numpy as np, sgjepa, pendulum_world
falls = [np.abs(np.diff(sgjepa.simulate("pendulum", law={"gravity": g}, seed=0, policy="still").states["angle"][:8])).max()
         for g in (0.0, 5.0, 20.0)]
print(falls[0] < 1e-9 < falls[1] < falls[2] / 2)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=outside, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_an_installed_plug_in_is_known_without_a_word(outside: Path) -> None:
    """Its entry point is read when a name is first looked for."""
    package = outside / "toys-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[sgjepa.plugins]\ntoys = toys\n")
    code = "import sgjepa; print(sgjepa.simulate('sled', law={'wind': 2.0}, image_size=16).states['vx'][16])"
    path = os.environ | {"PYTHONPATH": os.pathsep.join([str(outside), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], cwd=outside.parent, env=path, capture_output=True, text=True)
    assert float(done.stdout) == pytest.approx(2.0, rel=1e-3), done.stderr  # a second of 2 m/s^2


def test_toys_of_every_kind_are_made_trained_and_judged_from_outside(outside: Path) -> None:
    """Law, codec, world, predictor, world model, policy, planner, metric and experiment, none of which the package knows."""
    code = """
from pathlib import Path
from sgjepa import cli
import sgjepa
assert cli.main(["data", "sled", "--codec", "raw", "--workers", "1", "--import", "toys"]) == 0
for run in ("sled_lag", "sled_grey"):
    assert cli.main(["train", run, "--updates", "2"]) == 0
    assert cli.main(["evaluate", f"runs/{run}-mini-seed0", "--probe", "linear"]) == 0
assert cli.main(["report", "runs/sled_lag-mini-seed0", "runs/sled_grey-mini-seed0"]) == 0
assert cli.main(["study", "sled_toys", "--size", "mini", "--seeds", "1", "--updates", "2", "--workers", "1"]) == 0
results = sgjepa.Results.of_runs([Path("runs/sled_lag-mini-seed0"), Path("runs/sled_grey-mini-seed0")])
assert "overshoot (m)" in str(results.table("overshoot", horizons=[1]))
assert sgjepa.Dataset.open("datasets/sled-mini").manifest.config.codec == "raw"
assert sgjepa.simulate("sled", policy="full_ahead", image_size=16).control.min() == 1.0

import numpy as np, torch
from sgjepa.planning.cem import Search
from sgjepa.planning.planner import Distance, Planner
from sgjepa.planning.receding_horizon import PlannerConfig
model, frames = sgjepa.load("runs/sled_grey-mini-seed0"), np.zeros((2, 16, 16, 3), np.uint8)
goal = model.net.encode(torch.from_numpy(frames[:, None]))[:, 0]
cfg = PlannerConfig(search=Search("shots", candidates=7, elites=1))
planner = Planner(model.net, model.history, model.env_spec, Distance(model.net, goal), cfg)
planner.reset(np.zeros((2, 1), np.float32), [0, 1])
assert 0 < np.abs(planner.act({"frame": frames}, np.zeros((2, 1), np.float32))).max() <= 1
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=outside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "overshoot" in (outside / "report" / "index.html").read_text()
    assert "errs least." in (outside / "studies/sled_toys-mini/report/answer.txt").read_text()
    assert "sled_toys" in done.stdout
    refused = command(outside, "evaluate", "runs/sled_grey-mini-seed0", fails=True)
    assert "--import MODULE" in refused


# --- registries --------------------------------------------------------------------------------------------------------


def test_an_entry_is_imported_when_it_is_asked_for() -> None:
    toys: Registry[object] = Registry("toy", {"path": "pathlib:Path", "nowhere": "no_such_module:Thing"})
    assert list(toys) == ["path", "nowhere"]
    assert toys["path"] is Path
    with pytest.raises(ModuleNotFoundError):
        toys["nowhere"]
    with pytest.raises(InputError, match=r"unknown toy 'pat' \(did you mean path\?\); choose from path, nowhere"):
        toys.lookup("pat")


def test_a_name_is_given_once_and_again_only_by_the_same_module() -> None:
    toys: Registry[int] = Registry("toy", {"one": 1})
    toys.register("two", 2, "mine")
    toys.register("two", 3, "mine")  # a notebook's cell, run twice
    assert toys["two"] == 3
    for name in ("one", "two"):
        with pytest.raises(InputError, match=f"there is a toy '{name}' already"):
            toys.register(name, 4, "theirs")
    with pytest.raises(InputError, match="must be letters, digits and _, got 'a b'"):
        toys.register("a b", 4, "mine")


def test_what_only_a_shell_knows_is_refused_to_workers_in_one_line(tmp_path: Path) -> None:
    code = """
import sgjepa
from sgjepa.core.processes import pool
sgjepa.register_law("shell_law")
try:
    with pool(2): pass
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-"], input=code, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "cannot be seen by worker processes" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_package", "--import broken: No module named 'no_such_package'"),
        ("1 / 0", "--import broken failed: ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(text)
    assert said in command(tmp_path, "claims", "--import", "broken", fails=True)
    assert "there is no such module here" in command(tmp_path, "claims", "--import", "absent", fails=True)


def test_a_law_of_recordings_alone_cannot_be_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    from sgjepa import laws

    monkeypatch.setattr(laws.LAWS, "_entries", laws.LAWS.copy())
    monkeypatch.setattr(registry, "_imported", [])
    sgjepa.register_law("viscosity", unit="Pa s", limit=10.0)
    assert laws.get_law("viscosity").unit == "Pa s"
    with pytest.raises(InputError, match="for recordings alone"):
        sgjepa.simulate("square", law={"viscosity": 1.0}, image_size=16)
    with pytest.raises(InputError, match="law 'viscosity' must lie within ±10 Pa s"):
        laws.check({"viscosity": np.float64(11)})
