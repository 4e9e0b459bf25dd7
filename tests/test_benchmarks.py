"""The benchmarks of training and of demonstrators start and write their settings, in the smallest configuration."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
SMALL = {
    "rollout.py": "--rounds 1 --single 1 --episodes 2 --steps 2 --windows 2",
    "train_step.py": "--sizes mini --batch 1 --mini-rounds 1",
    "dense.py": "--episodes 20 --frames 512 --dense-epochs 1",
    "experts.py": "--worlds arm_catcher_ball --train 1 --episodes 1 --workers 2",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_small_and_writes_its_settings(name: str, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    command = [sys.executable, str(FOLDER / name), *SMALL[name].split(), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(out.read_text())
    assert {"settings", "provenance"} <= set(found)


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_explains_itself(name: str) -> None:
    done = subprocess.run([sys.executable, str(FOLDER / name), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "--out" in done.stdout, "without it a trial would overwrite the results"


def test_experts_goes_on_with_the_same_code_and_settings_only(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("experts", FOLDER / "experts.py")
    assert spec is not None
    assert spec.loader is not None
    experts = importlib.util.module_from_spec(spec)
    sys.modules["experts"] = experts
    spec.loader.exec_module(experts)
    out, settings, world = tmp_path / "experts.json", {"train": 1, "episodes": 1, "seed": 1}, "arm_catcher_ball"
    assert experts.begun(out, [world], settings, "abc") == []
    rows = [{"world": world, "commit": commit} for commit in ("abc", "abc+", None)]
    out.write_text(json.dumps({"settings": settings, "rows": rows}))
    assert experts.begun(out, [world], settings, "abc") == rows[:1]
    assert experts.begun(out, [world], settings, "abd") == []
    assert experts.begun(out, [world], {**settings, "train": 2}, "abc") == []
    assert experts.begun(out, [world], settings, "abc+") == [], "edited code may be other code"
    assert experts.begun(out, ["franka_basket"], settings, "abd") == rows, "other worlds stay"
    low, high = experts.wilson(10, 10)
    assert low == pytest.approx(0.722, abs=1e-3)
    assert high == pytest.approx(1.0)
