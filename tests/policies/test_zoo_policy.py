"""A policy of the zoo: rounded with the run that it sees through, tied to that, measured as it is, and it drives."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.browser import Browser
from fixtures.driven import CATCHER, Driven, driven
from fixtures.driving import opened
from fixtures.viewer import needs_browser, running

from sgjepa import cli, zoo
from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.models.weights import load_tensors, save_tensors
from sgjepa.policies.files import RECORD, WEIGHTS, read_policy, read_trial
from sgjepa.policies.learned import load_policy
from sgjepa.results.success import Opening
from sgjepa.view.policy_scene import open_policy

__all__ = ["driven"]  # a fixture
pytestmark = pytest.mark.opengl
DOCS = Path(__file__).parents[2] / "docs"
NAME = "catcher"


@pytest.fixture(scope="module")
def models(driven: Driven, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zoo with one policy, made by the script itself."""
    place = tmp_path_factory.mktemp("models")
    command = [str(DOCS / "make_zoo.py"), NAME, str(driven.policy), "--datasets", str(driven.dataset.path.parent)]
    command += ["--about", "a tiny policy", "--into", str(place), "--blind", str(driven.policy)]
    subprocess.run([sys.executable, *command], check=True, capture_output=True, cwd=DOCS.parent)
    return place


@pytest.fixture(autouse=True)
def _that_zoo(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "_MODELS", models)


def card() -> zoo.PolicyCard:
    found = zoo.read_card(NAME)
    assert isinstance(found, zoo.PolicyCard)
    return found


def test_it_lies_there_in_half_precision_with_what_it_sees_through(driven: Driven, models: Path) -> None:
    there = {path.relative_to(models / NAME).as_posix() for path in (models / NAME).rglob("*") if path.is_file()}
    assert there == {RECORD, WEIGHTS, "run/artifact.json", "run/model.safetensors", zoo.CARD}
    for mine, its in ((WEIGHTS, driven.policy / WEIGHTS), ("run/model.safetensors", driven.run / run_folder.MODEL)):
        full, half = load_tensors(its), load_tensors(models / NAME / mine)
        assert card().full_precision[mine] == files.file_digest(its)
        for name, value in full.items():
            assert half[name].dtype == (torch.float16 if value.is_floating_point() else value.dtype)
            torch.testing.assert_close(half[name].to(value.dtype), value, rtol=1e-3, atol=1e-6)
    said = "".join((models / NAME / name).read_text() for name in (RECORD, "run/artifact.json", zoo.CARD))
    assert str(driven.place) not in said, "nothing of the machine that it was made on"


def test_its_card_says_what_it_is_and_how_often_it_succeeds(driven: Driven) -> None:
    found, there = card(), read_policy(driven.policy).settings
    assert (found.world, found.source, found.seed, found.conditioned) == (CATCHER, driven.run.name, 0, True)
    assert found.data == there.data
    assert set(found.success.regions) == {"all", "in", "out"}
    assert found.success.regions["all"].episodes == 12
    assert found.success.regions["in"].episodes + found.success.regions["out"].episodes == 12
    laws = [share.law for share in found.success.by_law["gravity"]]
    assert laws == sorted(set(read_trial(driven.trial)[1]["law.gravity"].tolist()))
    assert all(0 <= one.low <= one.mean <= one.high <= 1 for one in found.success.by_law["gravity"])


def test_it_is_tied_to_the_rounded_weights_that_it_sees_through(driven: Driven, tmp_path: Path) -> None:
    copy = zoo.copy(NAME, tmp_path)
    assert load_policy(copy).observes == ("frame",)
    with pytest.raises(InputError, match="other weights"):
        load_policy(copy, run=driven.run)  # those in full precision are others
    model = copy / "run" / run_folder.MODEL
    tensors = load_tensors(model)
    first = next(name for name, value in tensors.items() if value.is_floating_point())
    save_tensors(model, {**tensors, first: tensors[first] + 1})
    with pytest.raises(InputError, match="damaged"):
        load_policy(copy)
    about = run_folder.about(copy / "run")
    artifact.write_record(copy / "run", replace(about, files={run_folder.MODEL: files.file_digest(model)}))
    with pytest.raises(InputError, match="other weights"):
        load_policy(copy)


def test_control_takes_it_by_name_and_finds_the_numbers_of_its_card(
    driven: Driven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").symlink_to(driven.dataset.path.parent)
    assert cli.main(["evaluate-policy", f"zoo:{NAME}", "--workers", "1"]) == 0
    assert "% of all episodes" in capsys.readouterr().out
    _, rows = read_trial(tmp_path / "zoo" / NAME / "trials" / "caught-seed0")
    assert np.mean(rows["success"]) == pytest.approx(card().success.regions["all"].mean)


def test_the_viewer_shows_what_its_card_says() -> None:
    policy = open_policy(zoo.folder_of(NAME), NAME)
    assert policy.success == card().success
    assert policy.blind_success == card().blind_success
    assert card().blind_success is not None
    assert policy.opening == card().opening
    assert policy.label == "SG-JEPA (GRU)"


@needs_browser
def test_its_page_begins_where_the_card_says_with_a_line_for_the_blind_arm(models: Path, tmp_path: Path) -> None:
    """The tiny policy need not succeed, so its card is told a launch; the line is that of the card's trials."""
    place = Path(shutil.copytree(models / NAME, tmp_path / NAME))
    files.write_json(place / zoo.CARD, config.to_dict(replace(card(), opening=Opening(3, {"gravity": 6.0}, 2))))
    with running([place], tmp_path) as (_, port), Browser() as chromium:
        tab = opened(chromium, port)
        assert [tab.run(f"document.querySelector('#{name}').value") for name in ("seed", "sampling")] == ["3", "2"]
        assert tab.run("document.querySelector('#law output').textContent").startswith("g = 6 ")
        assert "begins with a success of SG-JEPA (GRU), selected and not typical" in tab.run("task.textContent")
        blind = card().blind_success
        assert blind
        share = f"{100 * blind.regions['all'].mean:.0f}"
        assert tab.run("document.querySelector('#success text.blind').textContent") == f"blind baseline {share} %"
        assert "observes nothing else" in tab.run("document.querySelector('#success-rates li:last-child').textContent")
        inside = """(() => { const own = document.querySelector('#success line.blind').getBoundingClientRect();
          const grid = [...document.querySelectorAll('#success .grid')].map((one) => one.getBoundingClientRect());
          const ends = grid.map((one) => one.y), [low, high] = [Math.min(...ends) - 1, Math.max(...ends) + 1];
          return own.left >= grid[0].left - 1 && own.right <= grid[0].right + 1 && own.y >= low && own.y <= high; })()"""
        assert tab.run(inside)
        assert tab.complaints == []
        tab.close()


def test_the_command_shows_its_card_and_other_commands_say_that_it_is_no_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["zoo"]) == 0
    assert "a tiny policy" in capsys.readouterr().out
    assert cli.main(["zoo", NAME]) == 0
    shown = capsys.readouterr().out
    assert "out of distribution" in shown
    assert "12 episodes)" in shown
    with pytest.raises(SystemExit):
        cli.main(["evaluate", f"zoo:{NAME}"])
    error = capsys.readouterr().err
    assert f"zoo:{NAME} is a policy, not a run" in error
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
