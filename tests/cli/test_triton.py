"""Every command beside triton, which CUDA builds of torch bring: loaded after Mesa, it ends a process with signal 11.

The package is put into a folder of its own, with pip, where the interpreter does not have it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest

from sgjepa import cli

ROOT = Path(__file__).parents[2]
SMALL = """
import sys
from sgjepa import cli
from sgjepa.experiments import demo
from sgjepa.recipes import training
from fixtures.tiny import tiny_run
demo.QUICK_EPISODES, demo.SHORTENED = (40, 25), {"quick": (1, 4)}
demo.recipe = lambda *asked: tiny_run(training.recipe(*asked))
if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
"""
# a small way through every stage, in the order of use: each finds what those before it made
WAY = {
    "doctor": ["doctor"],
    "demo": ["demo --quick --methods gru"],
    "data": [
        "data approach_ball --train-episodes 40 --test-episodes 25",
        "data arm_catcher_ball --train-episodes 8 --test-episodes 2",
    ],
    "preview": ["preview datasets/approach_ball-mini"],
    "coverage": ["coverage datasets/approach_ball-mini"],
    "describe": ["describe approach_ball_gru"],
    "train": [f"train {world}_gru --updates 2" for world in ("approach_ball", "arm_catcher_ball")],
    "evaluate": ["evaluate runs/approach_ball_gru-mini-seed0 --probe linear"],
    "train-policy": ["train-policy state --dataset datasets/arm_catcher_ball-mini --updates 2"],
    "evaluate-policy": [
        "evaluate-policy still --dataset datasets/arm_catcher_ball-mini --episodes 1",
        "evaluate-policy runs/arm_catcher_ball_gru-mini-seed0 --episodes 1 --candidates 9 --iterations 1",
    ],
    "report": ["report runs/approach_ball_gru-mini-seed0"],
    "view": ["view zoo:approach_ball_sg_jepa --export page --laws 2 --seeds 1"],
    "study": ["study"],
    "claims": ["claims --out claims.md --results " + shlex.quote(str(ROOT / "docs/results/claims"))],
    "zoo": ["zoo approach_ball_sg_jepa"],
}


def version() -> str:
    """The triton that torch's CUDA build asks for: torch 2.13 has 3.7."""
    found = re.search(r"^triton==([\w.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory, no_opengl: str) -> dict[str, str]:
    """The environment of a process that has triton and can draw."""
    if no_opengl:
        pytest.skip(no_opengl)
    clean = {
        key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "LP_NUM_THREADS", "PYOPENGL_PLATFORM")
    }
    places = [str(ROOT / "tests"), str(ROOT / "src")]
    if find_spec("triton") is None:
        folder = tmp_path_factory.mktemp("triton")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(folder),
            f"triton=={version()}",
        ]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"triton cannot be had here: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
        places.append(str(folder))
    return clean | {"PYTHONPATH": os.pathsep.join(places)}


@pytest.mark.parametrize(
    "code",
    [
        "import sgjepa.envs, torch.utils.flop_counter",
        "from sgjepa.envs import ENVS; ENVS['approach_ball'](image_size=16).reset(seed=0); import torch.utils.flop_counter",
        "import torch; from sgjepa.envs.render import opengl; opengl.prove(); import torch.utils.flop_counter",
    ],
    ids=["the worlds imported first", "a picture drawn first", "torch imported first"],
)
def test_triton_and_a_picture_live_in_one_process(code: str, beside: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print('triton' in sys.modules)"],
        env=beside,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr


@pytest.mark.slow
def test_every_command_runs_beside_triton(beside: dict[str, str], tmp_path: Path) -> None:
    assert list(WAY) == list(cli.COMMANDS)
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    for command in chain.from_iterable(WAY.values()):
        program = [str(script)] if command.startswith("demo") else ["-m", "sgjepa"]
        asked = [sys.executable, *program, *shlex.split(command)]
        done = subprocess.run(asked, cwd=tmp_path, env=beside, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"sgjepa {command}: exit code {done.returncode}\n{done.stderr[-2000:]}"
        if command == "doctor":
            assert "triton after drawing: works" in done.stdout
