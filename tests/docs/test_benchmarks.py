"""Every benchmark explains itself; those of training and of demonstrators also run, in the smallest configuration."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SHARED = "record.py"
EVERY = sorted(path.name for path in FOLDER.glob("*.py") if path.name != SHARED)
SMALL = {
    "rollout.py": "--rounds 1 --single 1 --episodes 2 --steps 2 --windows 2",
    "train_step.py": "--sizes mini --batch 1 --mini-rounds 1",
    "mini_step.py": "--rounds 2 --batch 2 --recipes approach_ball_gru",
    "dense.py": "--episodes 20 --frames 512 --dense-epochs 1",
    "plan.py": "--rounds 1 --candidates 8 --iterations 2 --elites 2 --predictors gru",
    "closed_loop.py": "--episodes 2 --alone 1 --rounds 1 --workers 2",
    "frame.py": "--worlds arm_catcher_ball --steps 3",
    "view.py": "--drags 2 --rounds 1 --models approach_ball_sg_jepa",
    "conventional.py": "--rounds 1 --times 1 --sizes 16",
    "import_time.py": "--rounds 1",
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


@pytest.mark.parametrize("name", EVERY)
def test_a_benchmark_explains_itself(name: str) -> None:
    done = subprocess.run([sys.executable, str(FOLDER / name), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "--out" in done.stdout, "without it a trial would overwrite the results"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_bench_runs_every_benchmark_and_not_what_they_share() -> None:
    done = subprocess.run(["make", "-n", "bench"], cwd=FOLDER.parent, capture_output=True, text=True, check=True)
    assert sorted(re.findall(r"benchmarks/(\w+\.py)", done.stdout)) == EVERY


def test_a_result_holds_its_settings_and_where_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    record = importlib.import_module("record")
    parser = record.parser("about", "benchmarks/speed.py")
    parser.add_argument("--rounds", type=int, default=3)
    assert parser.parse_args([]).out == Path("benchmarks/results/speed.json")
    options = parser.parse_args(["--out", str(tmp_path / "new" / "speed.json")])
    record.write(options.out, record.settings(options), {"ratio": 2.0})
    found = json.loads(options.out.read_text())
    assert found["ratio"] == 2.0
    assert found["settings"] == {"rounds": 3}
    assert found["provenance"]["python"]
    assert str(options.out) in capsys.readouterr().out


def test_experts_goes_on_with_the_same_code_and_settings_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    experts = importlib.import_module("experts")
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
