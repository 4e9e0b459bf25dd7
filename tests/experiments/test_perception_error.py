"""How well must a policy see? Places with errors that belong to their states, and the study over them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fixtures.datasets import small

from sgjepa import cli
from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect
from sgjepa.data.probe_targets import state_observations
from sgjepa.data.store import Dataset, open_dataset
from sgjepa.envs import get_env
from sgjepa.experiments.control import worlds
from sgjepa.experiments.engine import Request, actors_of
from sgjepa.experiments.perception_error import ERRORS, EXPERIMENT
from sgjepa.policies.features import open_features
from sgjepa.policies.files import read_policy
from sgjepa.policies.noisy_position import errors_of

CATCHER = "arm_catcher_ball"
WORLD = get_env(CATCHER).env_spec


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("sight") / "datasets" / f"{CATCHER}-mini"
    settings = small(CATCHER, image_size=16)
    few = replace(settings, train=replace(settings.train, episodes=20), test=replace(settings.test, episodes=4))
    collect(few, folder, workers=2)
    return open_dataset(folder)


def test_an_error_belongs_to_its_state() -> None:
    """The same state is seen alike whatever stands beside it; states that differ in the last bit are seen otherwise."""
    states = np.random.default_rng(0).normal(size=(4, 5, 7)).astype(np.float32)
    errors = errors_of(states, 3)
    assert errors.shape == (4, 5, 3)
    assert np.array_equal(errors_of(states[2, 3], 3), errors[2, 3])
    states[2, 3, 0] = np.nextafter(states[2, 3, 0], np.float32(9))
    assert not np.isclose(errors_of(states[2, 3], 3), errors[2, 3]).any()


def test_errors_are_normal_and_independent_along_a_path() -> None:
    """A ball that moves by a tenth of a millimetre between frames has errors with nothing in common."""
    path = np.zeros((20_000, 6), np.float32)
    path[:, 1] = 1 + 1e-4 * np.arange(len(path))
    errors = errors_of(path, 3)
    several = 4 / np.sqrt(len(path))  # standard deviations of a mean
    assert np.abs(errors.mean(axis=0)).max() < several
    np.testing.assert_allclose(errors.T @ errors / len(path), np.eye(3), atol=1.5 * several)
    assert np.abs((errors[1:] * errors[:-1]).mean(axis=0)).max() < several
    assert (np.abs(errors) < 1).mean() == pytest.approx(0.6827, abs=several)


def test_places_have_the_error_and_the_pose_has_none(dataset: Dataset) -> None:
    three, states = np.arange(3), state_observations(dataset.train)[:3]
    exact, blurred, twice = (open_features(None, WORLD, blur=blur) for blur in (0.0, 0.02, 0.04))
    pose = open_features(None, WORLD, pose=True)
    seen, far = exact.of_split(dataset.train, three), blurred.of_split(dataset.train, three)
    assert np.array_equal(seen[..., :3], states[..., :3]), "x, y, z come first"
    assert np.array_equal(seen[..., 3:], pose.of_split(dataset.train, three))
    assert np.array_equal(far[..., 3:], seen[..., 3:])
    off = far[..., :3] - seen[..., :3]
    assert off.std() == pytest.approx(0.02, rel=0.1)
    np.testing.assert_allclose(twice.of_split(dataset.train, three)[..., :3] - seen[..., :3], 2 * off, atol=1e-6)
    assert np.array_equal(blurred.of_observation({"state": states[:, 7]}), far[:, 7]), "in the loop as in training"


def test_speeds_and_spin_are_not_seen(dataset: Dataset) -> None:
    states = state_observations(dataset.train)[:3, 0]
    turned = states.copy()
    turned[:, 3 : len(WORLD.state)] += 1.0
    exact = open_features(None, WORLD, blur=0.0)
    assert np.array_equal(exact.of_observation({"state": states}), exact.of_observation({"state": turned}))


@pytest.mark.parametrize("name", worlds("mini"))
def test_every_world_with_a_task_shows_a_place(name: str) -> None:
    spec = get_env(name).env_spec
    assert open_features(None, spec, blur=0.01).width == 3 + len(spec.state_observation) - len(spec.state)


def test_what_cannot_be_is_refused_in_a_line(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="square has no robot"):
        open_features(None, get_env("square").env_spec, blur=0.01)
    for given in ("-0.01", "nan"):
        assert cli.main(["train-policy", "state", "--dataset", str(dataset.path), "--blur", given]) == 3
        assert "0 m or more" in capsys.readouterr().err
    assert cli.main(["train-policy", "pose", "--dataset", str(dataset.path), "--blur", "0.01"]) == 3
    assert "--blur goes with `state`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_trains_one_and_lets_it_drive(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--updates", "1", "--save-every", "1"]
    assert cli.main(["train-policy", "state", "--dataset", str(dataset.path), "--blur", "0.02", *few]) == 0
    folder = tmp_path / "policies" / f"{CATCHER}_state-mini-blur0.02-seed0"
    assert read_policy(folder).settings.source.blur == 0.02
    assert (
        cli.main(["train-policy", "state", "--dataset", str(dataset.path), "--blur", "0.04", "--out", str(folder), *few])
        == 3
    )
    assert "blur" in capsys.readouterr().err
    assert cli.main(["evaluate-policy", str(folder), "--dataset", str(dataset.path), "--workers", "1"]) == 0
    assert "position ± 20 mm" in capsys.readouterr().out


def test_policies_of_the_study_differ_in_nothing_but_what_they_see(tmp_path: Path) -> None:
    arms = [arm for arm in EXPERIMENT.arms("mini") if arm.name.startswith(CATCHER)]
    assert len(arms) == len(ERRORS) + 2
    assert len({arm.name for arm in arms}) == len(arms)
    errors = [(False, error) for error in ERRORS]
    assert {(arm.robot, arm.position_error) for arm in arms} == {(False, None), (True, None), *errors}
    assert len({arm.config for arm in arms}) == 1
    jobs = actors_of(arms, [], Request("mini", tmp_path / "out", tmp_path / "datasets"), seeds=2)
    assert len({job.folder for job in jobs}) == 2 * len(arms)
    assert {job.config.seed for job in jobs} == {0, 1}
    assert not any(arm.held_out or arm.model for arm in arms)


def test_the_study_ends_in_a_page_with_every_sight_on_one_scale(dataset: Dataset, tmp_path: Path) -> None:
    only = [f"{CATCHER}_{name}" for name in ("state", "place_0mm", "place_80mm", "pose")]
    page = EXPERIMENT.run(Request("mini", tmp_path / "out", dataset.path.parent, seeds=1, updates=1, only=only))
    with (page.parent / "tables/finding.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["sees"] for row in rows] == ["true state", "exact position", "position ± 80 mm", "arm's pose only"]
    assert {row["trainings"] for row in rows} == {"1"}
    said = (page.parent / "answer.txt").read_text()
    assert "with the ball's speeds besides its exact position a policy succeeds more often by" in said
    assert "1 training each: not decided" in said
    assert "ahead of a blind arm" in said
    assert (page.parent / "figures/perception_error.png").is_file()
    assert (page.parent / "claims.json").is_file()
