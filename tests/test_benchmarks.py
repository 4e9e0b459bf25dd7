"""The benchmarks of training start and write their settings, in the smallest configuration."""

from __future__ import annotations

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
