"""Models that come with the package: each is a finished run, is as good as its card says, and goes wherever a RUN goes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sgjepa import zoo
from sgjepa.cli import main
from sgjepa.core import files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.tables import read_table
from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset
from sgjepa.envs import get_env
from sgjepa.evaluation.decoded_strips import load_decoder
from sgjepa.evaluation.evaluate import default_forecast, evaluate
from sgjepa.evaluation.forecast import forecast
from sgjepa.evaluation.metrics import Guess, errors
from sgjepa.evaluation.probes import open_probe
from sgjepa.policies.learned import load_policy
from sgjepa.recipes.datasets import dataset
from sgjepa.training.checkpoint import load_run

MODELS = Path(zoo.__file__).parent / "models"
NAME = "approach_ball_sg_jepa"


def test_the_zoo_has_both_methods_of_approach_ball() -> None:
    assert {NAME, "approach_ball_lewm"} <= set(zoo.names())


@pytest.mark.parametrize("name", zoo.names())
def test_what_lies_there_is_what_its_card_names(name: str) -> None:
    place, card = MODELS / name, zoo.read_card(name)
    there = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} - {zoo.CARD}
    assert there == set(card.files)
    assert all(files.file_digest(place / path) == digest for path, digest in card.files.items())
    if zoo.is_policy(name):
        assert load_policy(place).record.settings.data == card.data


def model_card(name: str) -> zoo.ModelCard:
    found = zoo.read_card(name)
    assert isinstance(found, zoo.ModelCard)
    return found


@pytest.mark.parametrize("name", [name for name in zoo.names() if not zoo.is_policy(name)])
def test_a_model_is_a_finished_run_that_says_what_it_is(name: str) -> None:
    place, card = MODELS / name, model_card(name)
    run, model = load_run(place)
    assert (run.name, run.seed, run.train.epochs * (run.train.updates or 0)) == (card.recipe, card.seed, card.updates)
    assert run_folder.about(place).data == card.data
    assert load_decoder(place, run, model) is not None
    assert open_probe(place, model, get_env(run_folder.about(place).worlds[0]).env_spec).scores["validation_nmse"] < 0.5


@pytest.mark.opengl
@pytest.mark.parametrize("name", [name for name in zoo.names() if not zoo.is_policy(name)])
def test_on_its_first_test_episodes_drawn_anew_it_is_as_good_as_its_card(name: str, tmp_path: Path) -> None:
    card, place = model_card(name), MODELS / name
    (world,) = run_folder.about(place).worlds
    base = dataset(world, card.size)
    few = replace(base, train=replace(base.train, episodes=1), test=replace(base.test, episodes=card.subset))
    data = open_dataset(collect(few, tmp_path / "few", workers=1))
    run, model = load_run(place)
    fitted = open_probe(place, model, get_env(world).env_spec)
    rows = range(card.subset)
    with torch.no_grad():
        z = torch.cat([model.encode(torch.from_numpy(data.test.pixels(np.array([i])))) for i in rows])
    truth = fitted.targets.of(data.test.state[:].astype(np.float64))[:, 20:]
    found = forecast(model, fitted, z, data.test.control[:], data.test.law[:], 20, 44, run.history)
    gap = errors(Guess(fitted.targets, found["predicted"][0][:, 1:], truth, fitted.std))["position_l2"]
    assert gap[:, -1].mean() == pytest.approx(card.subset_errors["position_l2, h = 44"], rel=1e-3)
    assert gap.mean() == pytest.approx(card.subset_errors["position_l2, mean"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.opengl
def test_on_all_test_episodes_it_is_as_good_as_its_card(tmp_path: Path) -> None:
    data = open_dataset(collect(dataset("approach_ball", "mini"), tmp_path / "approach_ball-mini", workers=2))
    place = evaluate(zoo.copy(NAME, tmp_path / "zoo"), data, default_forecast(data.settings))
    rows = read_table(place / run_folder.EPISODES)
    kept = (rows["source"] == "predicted") & (rows["horizon"] == 44)
    assert rows["position_l2"][kept].mean() == pytest.approx(model_card(NAME).errors["position_l2, h = 44"], rel=1e-4)


def test_a_command_works_on_a_copy_that_is_kept(tmp_path: Path) -> None:
    first = zoo.copy(NAME, tmp_path)
    (first / "mine").write_text("what a command left")
    assert zoo.copy(NAME, tmp_path) == first == tmp_path / NAME
    assert (first / "mine").is_file()
    assert not (MODELS / NAME / "mine").exists()
    assert load_run(first)[0].name == "approach_ball_gru"
    assert not list(tmp_path.glob(".*")), "nothing half copied is left"


def test_what_is_in_the_way_of_a_copy_stays(tmp_path: Path) -> None:
    shutil.copytree(MODELS / "approach_ball_lewm", tmp_path / NAME)
    with pytest.raises(InputError, match="holds another run"):
        zoo.copy(NAME, tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / NAME).write_text("a file")
    with pytest.raises(InputError, match="in the way"):
        zoo.copy(NAME, tmp_path / "other")
    assert (tmp_path / "other" / NAME).read_text() == "a file"


def test_the_command_lists_and_shows_cards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo"]) == 0
    listed = capsys.readouterr().out
    assert all(f"zoo:{name} " in listed for name in zoo.names())
    assert main(["zoo", NAME, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[NAME]["errors"] == model_card(NAME).errors
    assert main(["zoo", "nobody"]) == 3
    assert "unknown model of the zoo 'nobody'" in capsys.readouterr().err


def test_a_card_is_found_by_the_name_that_the_list_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", NAME]) == 0
    shown = capsys.readouterr().out
    assert main(["zoo", f"zoo:{NAME}"]) == 0
    assert capsys.readouterr().out == shown


def test_nobody_is_sent_to_make_a_dataset_in_which_nothing_can_be_driven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate-policy", "zoo:square_lewm"]) == 3
    assert "nothing can be planned in square" in capsys.readouterr().err


def test_an_unknown_model_in_the_place_of_a_run_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["evaluate", "zoo:approach_bal_lewm"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert "did you mean approach_ball_lewm?" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", [NAME, f"zoo:{NAME}"])
def test_a_model_in_the_place_of_a_dataset_is_pointed_to_the_viewer(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["preview", name]) == 3
    assert (
        f"{name} is a model of the zoo, not a dataset; to look at it, type: sgjepa view zoo:{NAME}"
        in capsys.readouterr().err
    )
