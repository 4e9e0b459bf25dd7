"""The demo and a study, small but whole: data, several trainings side by side, evaluations, a page; killed, they go on."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fixtures.processes import wait_for_the_end_of
from fixtures.runs import RUN
from fixtures.tiny import tiny

from sgjepa import cli
from sgjepa.core import files
from sgjepa.core.errors import InputError
from sgjepa.core.run_folder import MODEL
from sgjepa.experiments import EXPERIMENTS, factorial, linear_surrogate
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.arms import Job, Training
from sgjepa.experiments.engine import Experiment, Request, dataset_names, jobs_of, make_datasets, selected, train_all
from sgjepa.recipes.datasets import dataset
from sgjepa.results.table import Results
from sgjepa.training import checkpoint
from sgjepa.training.data import with_updates
from sgjepa.training.losses import OneStepLoss

SMALL = """
import sys
from sgjepa import cli
from sgjepa.experiments import demo
from sgjepa.recipes import training
from fixtures.tiny import tiny_run
demo.QUICK_EPISODES, demo.SHORTENED = (40, 25), {"quick": (1, 4)}
demo.recipe = lambda *asked: tiny_run(training.recipe(*asked))
if __name__ == "__main__":
    sys.exit(cli.main(["demo", "--quick", "--out", sys.argv[1]]))
"""

TESTS = Path(__file__).parents[1]
WITH_TESTS = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, no_opengl: str) -> Path:
    """A small demo that was killed in the middle of its trainings, and then run again to its end."""
    if no_opengl:
        pytest.skip(no_opengl)
    folder = tmp_path_factory.mktemp("demo")
    script = folder / "small.py"
    script.write_text(SMALL)
    command = [sys.executable, str(script), str(folder / "demo")]
    first = subprocess.Popen(
        command, env=WITH_TESTS, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    rows = folder / "demo/runs/approach_ball_lewm-quick-seed0/artifact.json"
    while not rows.exists():
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.1)
    first.kill()  # the parent only: its workers must end by themselves
    first.wait()
    wait_for_the_end_of(first.pid)
    done = subprocess.run(command, env=WITH_TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder / "out.txt").write_text(done.stdout)
    return folder


def test_the_demo_ends_in_a_page_that_answers(place: Path) -> None:
    text = (place / "out.txt").read_text()
    page = place / "demo/report-quick/index.html"
    assert str(page) in text
    assert page.stat().st_size > 100_000
    answer = (page.parent / "answer.txt").read_text().splitlines()
    assert all(line in text for line in answer)
    assert answer[0].startswith("SG-JEPA (GRU) predicts where the object is 44 steps ahead with a mean error of ")
    assert any("SG-JEPA (GRU) minus LeWM: " in line for line in answer)
    assert any("DINO-WM, MobileNetV2 (ImageNet)" in line for line in answer)
    assert any("One training of each method: no verdict" in line for line in answer)
    assert "This is the quick version: 4 updates on 40 episodes instead of 1,000 and a linear probe" in page.read_text()


def test_the_demo_speaks_of_sg_jepa_first_and_of_its_duration_last(place: Path) -> None:
    lines = (place / "out.txt").read_text().splitlines()
    assert lines[0].startswith("SG-JEPA is a world model that is conditioned on the law")
    assert "trained at g = 9.8 ± 2 m/s² and tested at g from 0 to 20" in lines[1]
    assert "one training of each" in lines[1]
    assert re.fullmatch(r" +It took (\d+ min )?\d+ s\.", lines[-1])
    assert not [line for line in lines if "better" in line or "worse" in line], "one training decides nothing"


def test_the_demo_gives_every_method_the_same_budget(place: Path) -> None:
    configs = [files.read_json(run / "artifact.json")["config"] for run in sorted((place / "demo/runs").glob("*/"))]
    assert len(configs) == 3
    for key in ("epochs", "batch", "frames", "drawn", "updates"):
        assert len({json.dumps(c["train"][key]) for c in configs}) == 1, key
    assert len({json.dumps(c["data"]) for c in configs}) == 1
    assert len({json.dumps(c["optim"]) for c in configs}) == 1


@pytest.mark.slow
def test_a_second_demo_does_nothing_twice(place: Path) -> None:
    models = sorted((place / "demo/runs").glob("*/model.safetensors"))
    before = [path.stat().st_mtime_ns for path in models]
    done = subprocess.run(
        [sys.executable, str(place / "small.py"), str(place / "demo")],
        env=WITH_TESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [path.stat().st_mtime_ns for path in models] == before


def test_the_factorial_differs_in_nothing_but_its_factors() -> None:
    cells = {name: factorial.cell(name, "mini") for name in factorial.CELLS}
    base = cells["given_rollout"]
    for name, run in cells.items():
        law, loss = name.split("_", 1)
        assert run.model.blind == (law == "constant")
        assert isinstance(run.loss, OneStepLoss) == (loss == "one_step")
        for shared in ("sigreg", "windows", "flatten"):
            assert getattr(run.loss, shared) == getattr(base.loss, shared)
        assert replace(run.model, blind=False) == base.model
        assert (run.train, run.optim, run.data, run.split_seed) == (base.train, base.optim, base.data, base.split_seed)


def test_updates_are_spread_over_as_many_epochs_as_they_need(place: Path) -> None:
    datasets = place / "demo/datasets"
    run = replace(factorial.cell("given_rollout", "mini"), data=("approach_ball-quick",))
    run = replace(run, train=replace(run.train, frames=64, batch=8))  # 36 whole episodes in batches of 8
    for wanted in (1, 4, 5, 12):
        train = with_updates(run, wanted, datasets).train
        assert train.updates <= 4
        assert wanted <= train.epochs * train.updates < wanted + train.epochs
    with pytest.raises(InputError, match="at least one update"):
        with_updates(run, 0, datasets)


def test_a_study_trains_its_cells_and_reports(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/approach_ball-mini").symlink_to(place / "demo/datasets/approach_ball-quick")
    monkeypatch.setitem(EXPERIMENTS, "factorial", tiny(factorial.EXPERIMENT))
    arguments = ["study", "factorial", "--updates", "1", "--seeds", "1", "--datasets", str(tmp_path / "datasets")]
    assert cli.main([*arguments, "--out", str(tmp_path / "study"), "--runs", str(tmp_path / "runs")]) == 0
    page = (tmp_path / "study/report/index.html").read_text()
    for name in ("constant law, rollout", "law given, one step", "constant law, one step"):
        assert name in page
    assert "<h1>Is it the law or the rollout?</h1>" in page
    assert page.index('<section id="finding">') < page.index('<section id="numbers">'), "the study's own answer comes first"
    assert (tmp_path / "study/report/figures/factorial_interaction.png").is_file()
    said = (tmp_path / "study/report/answer.txt").read_text()
    assert said.count("(interaction at h = 44: ") == 3
    assert "interaction" in said.splitlines()[0]
    about = files.read_json(tmp_path / "study/report/study.json")
    assert about["question"] == "Is it the law or the rollout?"
    assert about["answer"] == said.splitlines()
    assert len(about["arms"]) == len(about["runs"]) == 4
    results = Results.of_runs(sorted((tmp_path / "runs").glob("*/")))
    whole = "approach_ball_gru"
    cells = {results.name(arm).removeprefix(whole): results.values(arm)[0, :, -1] for arm in results.arms}
    gain_given = cells[""] - cells["_given_one_step"]
    gain_constant = cells["_constant_rollout"] - cells["_constant_one_step"]
    assert factorial.interactions(Evidence([], {results.world: results}, tmp_path), "all")[-1].mean == pytest.approx(
        (gain_given - gain_constant).mean()
    )
    one = [*arguments, "--runs", str(tmp_path / "runs"), "--only", f"{whole}_constant_rollout"]
    assert cli.main([*one, "--out", str(tmp_path / "one")]) == 0, "some cells can be compared without the interaction"
    assert "interaction" not in (tmp_path / "one/report/answer.txt").read_text()


@pytest.mark.slow
def test_the_linear_surrogate_has_a_record_for_every_gravity(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/approach_ball-mini").symlink_to(place / "demo/datasets/approach_ball-quick")
    monkeypatch.setitem(EXPERIMENTS, "linear_surrogate", tiny(linear_surrogate.EXPERIMENT))
    arguments = ["study", "linear_surrogate", "--updates", "1", "--seeds", "2", "--datasets", str(tmp_path / "datasets")]
    assert cli.main([*arguments, "--out", str(tmp_path / "study"), "--runs", str(tmp_path / "runs")]) == 0
    with (tmp_path / "study/report/tables/linear_surrogate.csv").open() as file:
        records = list(csv.DictReader(file))
    home = [r for r in records if r["split"] == "train" and r["run"].startswith("approach_ball_gru")]
    bands = [float(r["gravity"]) for r in home]
    assert bands, "training laws are cut into bands"
    assert all(band % 2.0 == 0 and 9.8 - 4 * 2.0 < band < 9.8 + 4 * 2.0 for band in bands)
    for record in records:
        assert 0 <= float(record["nonlinear"]) <= 1 + 1e-6
        assert float(record["operator"]) >= 0
        assert float(record["closure"]) >= 0
    said = (tmp_path / "study/report/answer.txt").read_text()
    assert "No test gravity has enough episodes" in said, "one episode per gravity is too few for a fit"


def test_a_cell_that_starts_from_another_waits_for_it(finished: Path, tmp_path: Path) -> None:
    """The follower is listed first and starts from the very weights that its leader's training left, seed by seed."""
    short = replace(RUN, train=replace(RUN.train, epochs=1, frames=64))
    still = replace(short.optim, lr=0.0, lr_matrix=0.0)
    leader, follower = replace(short, name="leader"), replace(short, name="follower", optim=still)
    study = Experiment("two", "?", "!", lambda _: [Training(follower, start="leader"), Training(leader)])
    chains = jobs_of(study, study.arms("mini"), Request("mini", tmp_path, finished.parent, updates=2), seeds=2)
    assert [chain.run.init for chain in chains] == [
        str(tmp_path / "runs" / f"leader-mini-seed{s}") if f else None
        for s, f in ((0, True), (0, False), (1, True), (1, False))
    ]
    train_all(chains, finished.parent, workers=2)
    for chain in chains:
        assert (chain.folder / MODEL).is_file()
        assert list((chain.folder / "evaluations").glob("*/states.parquet"))
    for one, other in ((chains[0], chains[1]), (chains[2], chains[3])):  # a follower that does not learn is its leader
        mine, theirs = (dict(checkpoint.load_run(chain.folder)[1].named_parameters()) for chain in (one, other))
        assert all(torch.equal(mine[name], value) for name, value in theirs.items())


def test_a_study_makes_the_datasets_it_lacks_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(
        "sgjepa.experiments.engine.collect", lambda settings, out, _: made.append((settings.world, out.name))
    )
    (tmp_path / "house-mini").mkdir()
    datas = (("square-mini", "house-mini"), ("my-own",), ("square-mini",), ("its-own",))
    cells = [Training(replace(RUN, data=data), evaluated_on="pentagon-mini") for data in datas]
    names = dataset_names(cells)
    assert names == ["square-mini", "house-mini", "pentagon-mini", "my-own", "its-own"]
    make_datasets(names, tmp_path, None, {"its-own": dataset("right_triangle", "mini")})
    assert made == [("square", "square-mini"), ("pentagon", "pentagon-mini"), ("right_triangle", "its-own")]


def test_studies_are_listed_with_their_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["study"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    for line, study in zip(lines, EXPERIMENTS.values(), strict=True):
        assert line.endswith(study.question)
        assert study.claim.endswith(".")


def test_a_run_that_fails_is_named_with_its_reason(tmp_path: Path, finished: Path) -> None:
    unfit = replace(RUN, name="unfit", model=replace(RUN.model, controls=3), train=replace(RUN.train, epochs=1))
    with pytest.raises(InputError, match=r"unfit-run: .*control"):
        train_all([Job(unfit, tmp_path / "unfit-run", 9)], finished.parent)


def test_bad_arguments_of_the_demo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["demo", "--seeds", "0", "--out", str(tmp_path)]) == 3
    assert "--seeds must be at least 1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["demo", "--quick", "--long"])
    assert "not allowed with" in capsys.readouterr().err
    assert cli.main(["study", "astrology"]) == 3
    assert "unknown study 'astrology'" in capsys.readouterr().err


def test_a_study_can_be_asked_for_some_of_its_cells() -> None:
    short = replace(RUN, name="a_gru")
    cells = [
        Training(short),
        Training(replace(short, name="a_lewm")),
        Training(replace(short, name="b_gru"), start="a_lewm"),
    ]
    study = Experiment("two", "?", "!", lambda _: cells)

    def chosen(only: list[str]) -> Any:
        return selected(study, Request("mini", Path(), Path(), only=only))

    assert [cell.run.name for cell in chosen([])] == ["a_gru", "a_lewm", "b_gru"]
    assert [cell.run.name for cell in chosen(["*_lewm", "a_*"])] == ["a_gru", "a_lewm"]
    with pytest.raises(InputError, match=r"unknown arm 'c_\*'"):
        chosen(["c_*"])
    with pytest.raises(InputError, match="b_gru starts from a_lewm; add it to --only"):
        chosen(["*_gru"])
