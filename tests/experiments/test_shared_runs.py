"""Studies share their trainings: the same cell is trained once, whatever each study calls it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.runs import RUN

from sgjepa.core import config, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.provenance import provenance
from sgjepa.experiments import EXPERIMENTS
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Job, Training, digest_of, locate
from sgjepa.experiments.engine import Experiment, Request, jobs_of
from sgjepa.recipes.training import recipe
from sgjepa.training.config import Run

SHORT = replace(RUN, train=replace(RUN.train, epochs=1, frames=64))


def located(run: Run, runs: Path, data: Path, leader: Job | None = None) -> Job:
    return locate(Job(run, runs, 1), runs, data, leader)


def said(evidence: Evidence) -> Answer:
    results = evidence.results
    words = [f"{results.name(arm)} is {arm}, seed {results.seeds(arm)[0]}" for arm in results.arms]
    return Answer("Who?", words, [main_table(("a",), [("b",)], "")])


def test_two_studies_with_one_cell_train_it_once_and_each_calls_it_as_it_likes(finished: Path, tmp_path: Path) -> None:
    runs, answers = tmp_path / "runs", {}
    for name in ("plain", "usual"):
        study = Experiment(
            name,
            "?",
            "!",
            lambda _, name=name: [Training(replace(SHORT, name=name), label=f"the {name} one")],
            analyse=said,
            probe="linear" if name == "usual" else "mlp",
        )
        page = study.run(Request("mini", tmp_path / name, finished.parent, seeds=1, updates=2, workers=1, runs=runs))
        answers[name] = (page.parent / "answer.txt").read_text()
    (folder,) = (path for path in runs.iterdir() if path.is_dir())
    assert folder.name.startswith("plain-"), "the first study's name"
    assert folder.name.endswith("-seed0")
    assert len(list((folder / "evaluations").iterdir())) == 2, "each study has the evaluation that it asked for"
    assert "plain is the plain one, seed 0" in answers["plain"]
    assert "usual is the usual one, seed 0" in answers["usual"]


def test_what_decides_a_training_decides_its_folder(finished: Path, tmp_path: Path) -> None:
    data = finished.parent
    same = digest_of(SHORT, data)
    unlike = [
        replace(SHORT, split_seed=1),
        replace(SHORT, train=replace(SHORT.train, batch=SHORT.train.batch + 1)),
        replace(SHORT, loss=replace(SHORT.loss, sigreg=0.5)),
        replace(SHORT, model=replace(SHORT.model, residual=not SHORT.model.residual)),
        replace(SHORT, init="elsewhere"),
    ]
    assert len({same, *(digest_of(run, data) for run in unlike)}) == 1 + len(unlike)
    assert digest_of(SHORT, tmp_path) != same, "of other data"
    alike = [replace(SHORT, name="other"), replace(SHORT, seed=4), replace(SHORT, train=replace(SHORT.train, decoder=True))]
    assert {digest_of(run, data) for run in alike} == {same}
    assert located(replace(SHORT, seed=4), tmp_path, data).folder.name.endswith(f"{same}-seed4")


def test_a_follower_has_another_folder_for_another_leader(finished: Path, tmp_path: Path) -> None:
    one, other = (located(replace(SHORT, split_seed=s), tmp_path, finished.parent) for s in (1, 2))
    follower = replace(SHORT, name="follower")
    after_one, after_other = (located(follower, tmp_path, finished.parent, leader) for leader in (one, other))
    assert after_one.digest != after_other.digest
    assert after_one.run.init == str(one.folder)


def test_a_training_that_is_there_keeps_its_name_and_its_decoder(finished: Path, tmp_path: Path) -> None:
    first = located(replace(SHORT, name="first", train=replace(SHORT.train, decoder=True)), tmp_path, finished.parent)
    about = run_folder.RunRecord(config=config.to_dict(first.run), data={}, provenance=provenance())
    run_folder.create(first.folder, about)
    again = located(replace(SHORT, name="second"), tmp_path, finished.parent)
    assert again == first


def test_a_recipe_has_its_own_name_in_whatever_study_it_is_trained_first(tmp_path: Path) -> None:
    run = recipe("approach_ball_gru", "mini")
    assert located(replace(run, name="weight_0.045"), tmp_path, tmp_path).run.name == "approach_ball_gru"
    variant = replace(run, name="weight_1", loss=replace(run.loss, sigreg=1.0))
    assert located(variant, tmp_path, tmp_path).run.name == "weight_1"


def test_settings_of_a_study_are_every_trainings_and_decide_its_folder(finished: Path, tmp_path: Path) -> None:
    cells = [
        Training(replace(SHORT, name=name, loss=replace(SHORT.loss, steps=steps))) for name, steps in (("a", 1), ("b", 2))
    ]
    study = Experiment("trial", "?", "!", lambda _: cells, analyse=said, probe="linear")
    plain = Request("mini", tmp_path / "out", finished.parent, seeds=1, updates=2, workers=1, runs=tmp_path / "runs")
    other = replace(plain, settings={"optim.lr": "2e-3"})
    usual, changed = jobs_of(study, cells, plain, 1), jobs_of(study, cells, other, 1)
    assert [chain.run.optim.lr for chain in changed] == [0.002, 0.002]
    assert not {chain.folder for chain in usual} & {chain.folder for chain in changed}
    with pytest.raises(InputError, match=r"a: there is no setting loss.weight; loss has steps, discount"):
        jobs_of(study, cells, replace(plain, settings={"loss.weight": "2"}), 1)
    with pytest.raises(InputError, match=r"there is no setting loss\.weight"):  # before hours of data
        study.run(replace(plain, datasets=tmp_path / "none", settings={"loss.weight": "2"}))
    assert not (tmp_path / "none").exists()

    page = replace(study, arms=lambda _: cells[:1]).run(other)
    assert "was trained with optim.lr = 2e-3 instead of the study&#x27;s own settings" in page.read_text()
    about = json.loads((page.parent / "study.json").read_text())
    assert about["settings"] == {"optim.lr": "2e-3"}
    assert about["arms"]["a"]["optim"]["lr"] == 0.002
    claims = json.loads((page.parent / "claims.json").read_text())
    assert claims["command"].endswith("--updates 2 --set optim.lr=2e-3")
    assert claims["settings"] == {"optim.lr": "2e-3"}


def test_a_study_without_world_models_has_no_settings_of_them(finished: Path, tmp_path: Path) -> None:
    asked = Request("mini", tmp_path, finished.parent, settings={"optim.lr": "1"})
    with pytest.raises(InputError, match="study perception_error trains no world models"):
        EXPERIMENTS.lookup("perception_error").run(asked)


def test_a_study_that_compares_a_training_with_itself_is_refused(finished: Path, tmp_path: Path) -> None:
    cells = [Training(replace(SHORT, name=name)) for name in ("one", "same")]
    study = Experiment("twice", "?", "!", lambda _: cells)
    with pytest.raises(InputError, match="twice: same and one are the same training"):
        jobs_of(study, cells, Request("mini", tmp_path, finished.parent, runs=tmp_path), 1)
