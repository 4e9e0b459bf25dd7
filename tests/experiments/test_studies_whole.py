"""Every sweep and diagnostic from data to page, tiny; studies share their trainings; all of them, one after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.datasets import small
from fixtures.processes import wait_for_the_end_of
from fixtures.runs import RUN
from fixtures.tiny import tiny

from sgjepa import cli
from sgjepa.core import files, run_folder
from sgjepa.data.collect import collect
from sgjepa.experiments import EXPERIMENTS, ORDER
from sgjepa.experiments.arms import Job
from sgjepa.experiments.cost import cost
from sgjepa.experiments.engine import Experiment, Request, selected, train_all
from sgjepa.training import checkpoint

# of each study, as few cells as its sentences need
FEW = {
    "learning_rate": ("*_lr0.001", "*_lr0.002"),
    "optimiser": ("*_gru_*",),
    "sigreg": ("*_w0.02", "*_w0.045"),
    "history_depth": ("*_h3_depth1", "*_h10_depth1"),
    "history_rollout": ("*_h10_k5_w0.09", "*_h15_k5_w0.09"),
    "discount": ("*_discount0.9", "*_discount0.95"),
    "conditioning": ("*_gru", "*_transformer"),
    "counterfactual": ("*_gru",),
    "coverage": ("*_gru", "*_lewm"),
}


@pytest.mark.parametrize("name", FEW)
def test_the_few_cells_are_cells_of_their_study(name: str) -> None:
    study = EXPERIMENTS[name]
    assert isinstance(study, Experiment)
    assert len(selected(study, Request("mini", Path(), Path(), only=FEW[name]))) >= len(FEW[name])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny dataset of Approach Ball, under the name of the mini one; runs of all studies go beside it."""
    folder = tmp_path_factory.mktemp("studies")
    settings = small("approach_ball", image_size=64)
    few = replace(settings, train=replace(settings.train, episodes=12), test=replace(settings.test, episodes=13))
    collect(few, folder / "datasets" / "approach_ball-mini", workers=1)
    return folder


@pytest.mark.opengl
@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_a_study_goes_from_data_to_a_page(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, out = EXPERIMENTS[name], place / name
    assert isinstance(study, Experiment)
    given = {"seeds": 1, "updates": 1, "workers": 1, "only": FEW[name], "runs": place / "runs"}
    page = tiny(study).run(Request("mini", out, place / "datasets", **given))
    text = page.read_text()
    about = files.read_json(page.parent / "study.json")
    assert about["study"] == name
    assert about["answer"], "it says something"
    assert all((place / "runs" / run).is_dir() for run in about["runs"])
    for figure in (page.parent / "figures").glob("*.svg"):
        assert figure.with_suffix(".png").is_file()
    assert list((page.parent / "figures").glob(f"{name}*.svg")) or name == "sigreg"
    assert (page.parent / "tables" / "finding.csv").is_file()
    assert "trained once" in text or "One training" in text
    said = capsys.readouterr().out
    assert f"{name}: " in said
    assert str(place / "runs") in said


@pytest.mark.opengl
@pytest.mark.slow
def test_a_study_that_is_run_again_does_nothing_anew(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, answers = EXPERIMENTS["discount"], []
    assert isinstance(study, Experiment)
    given = {"seeds": 1, "updates": 1, "workers": 1, "only": FEW["discount"], "runs": place / "runs"}
    for _ in range(2):
        page = tiny(study).run(Request("mini", place / "again", place / "datasets", **given))
        answers.append({path.name: path.read_bytes() for path in (page.parent / "tables").iterdir()})
    assert answers[0] == answers[1]
    assert "2 of them finished\n" in capsys.readouterr().out


def answered(place: Path, out: Path, runs: Path) -> dict[str, bytes]:
    """The tables of the tiny study of discounts, by file name."""
    study = EXPERIMENTS["discount"]
    assert isinstance(study, Experiment)
    given = {"seeds": 1, "updates": 2, "workers": 1, "only": FEW["discount"], "runs": runs}
    page = tiny(study).run(Request("mini", out, place / "datasets", **given))
    return {path.name: path.read_bytes() for path in (page.parent / "tables").iterdir()}


@pytest.mark.opengl
@pytest.mark.slow
@pytest.mark.parametrize("moment", ["*/model.safetensors", "*/evaluations/*/artifact.json"])
def test_a_study_killed_in_the_middle_and_run_again_gives_the_same_tables(moment: str, place: Path, tmp_path: Path) -> None:
    """Killed as soon as the first training, or the first evaluation, is there; the second of each is under way."""
    out, runs = tmp_path / "killed", tmp_path / "runs"
    code = (
        "import sys; from pathlib import Path; from test_studies_whole import answered; answered(*map(Path, sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, str(place), str(out), str(runs)]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    with subprocess.Popen(command, env=surroundings, start_new_session=True, stdout=subprocess.DEVNULL) as process:
        while not list(runs.glob(moment)):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    assert not (out / "report" / "index.html").exists()
    assert answered(place, out, runs) == answered(place, tmp_path / "whole", tmp_path / "other")


def train_two(datasets: Path, place: Path) -> None:
    """Two trainings side by side that would take minutes."""
    long = replace(RUN, train=replace(RUN.train, epochs=100, frames=64, updates=100))
    train_all([Job(replace(long, seed=s), place / f"run{s}", 10_000) for s in (0, 1)], datasets, 2)


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_stops_every_training_after_an_update_without_a_word(finished: Path, tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from test_studies_whole import train_two\n"
    code += "if __name__ == '__main__': train_two(*map(Path, sys.argv[1:]))"
    (tmp_path / "two.py").write_text(code)
    command = [sys.executable, str(tmp_path / "two.py"), str(finished.parent), str(tmp_path)]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    with subprocess.Popen(command, env=surroundings, start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
        while not list(run_folder.read(tmp_path / "run0")):  # the other may still be starting
            assert process.poll() is None, "it ended before it could be stopped"
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()
    wait_for_the_end_of(process.pid)
    assert said.rstrip().endswith("KeyboardInterrupt"), "the script's own, and nothing of its workers"
    assert said.count("Traceback") == 1
    assert checkpoint.newest(tmp_path / "run0") is not None
    logs = [log.read_text() for log in tmp_path.glob("*.log")]
    assert logs
    assert "Traceback" not in "".join(logs)


def test_a_study_says_what_is_there_and_how_long_the_rest_takes(finished: Path, tmp_path: Path) -> None:
    short = replace(RUN, train=replace(RUN.train, epochs=1, frames=64, updates=2))
    chains = [Job(replace(short, seed=seed), tmp_path / f"run{seed}", 2) for seed in (0, 1)]
    train_all(chains[:1], finished.parent, workers=1)
    found = cost(chains, workers=1)
    assert (found.trainings, found.finished, found.updates, found.seconds) == (2, 1, 2, None)
    longer = [chains[0], replace(chains[1], updates=400)]
    timed = cost(longer, workers=1)
    assert timed.updates == 400
    assert timed.seconds is not None
    assert timed.seconds > 0
    words = timed.words("two")
    assert words.startswith("two: 2 trainings, 1 of them finished; 400 updates to go, about ")
    assert "updates to go" not in cost(chains[:1], workers=1).words("two")


def test_all_goes_on_after_a_study_that_fails_and_says_so_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["study", "all", "--seeds", "0", "--out", str(tmp_path), "--runs", str(tmp_path / "runs")]
    assert cli.main(arguments) == 3
    lines = capsys.readouterr().err.splitlines()
    asked = [name for name in ORDER if name in EXPERIMENTS]
    assert [line.split(":")[1].split()[1] for line in lines[:-1]] == asked, "one line each, in the order of value"
    assert f"{len(asked)} of {len(asked)} studies failed: {', '.join(asked)}" in lines[-1]
    assert cli.main(["study", "factorial", "--size", "gigantic"]) == 3
    assert "unknown size 'gigantic'" in capsys.readouterr().err
    assert cli.main(["study", "all", "--only", "x"]) == 3
    assert "--only is for one study" in capsys.readouterr().err
