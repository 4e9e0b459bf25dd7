"""Settings of the small policy: one thing at a time, on the true state, on episodes that nothing learned from."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.datasets import small

from sgjepa.core import config
from sgjepa.core.errors import InputError
from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset, split_episodes
from sgjepa.experiments.arms import Policy
from sgjepa.experiments.engine import Request, actors_of, selected
from sgjepa.experiments.hyperparameters_policy import EXPERIMENT, RECIPE, grid
from sgjepa.policies.files import WEIGHTS, read_policy, read_trial
from sgjepa.recipes.policies import SIZES

DATA = "arm_catcher_ball-mini"


def leaves(tree: object, path: str = "") -> dict[str, object]:
    if isinstance(tree, dict):
        return {name: leaf for key, value in tree.items() for name, leaf in leaves(value, f"{path}.{key}").items()}
    return {path: tree}


@pytest.mark.parametrize(
    ("size", "name"), [(size, name) for size in SIZES for name in grid(size, "arm_paddle_ball") if name != RECIPE]
)
def test_a_setting_differs_from_the_recipe_in_one_thing(size: str, name: str) -> None:
    usual, other = (leaves(config.to_dict(grid(size, "arm_paddle_ball")[one])) for one in (RECIPE, name))
    changed = {key for key in usual if usual[key] != other[key]}
    if name == "twice_noise_steps" and usual[".diffusion.sampler"] == "ddpm":
        changed.discard(".diffusion.sampled")  # it takes every step
    assert len(changed) == 1


def test_only_chooses_settings_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    request = Request("mini", tmp_path, tmp_path, only=["*_state_half_width"])
    arms = selected(EXPERIMENT, request)
    assert [arm.data for arm in arms] == ["arm_catcher_ball-mini", "arm_paddle_ball-mini", "franka_basket-mini"]
    assert len(actors_of(arms, [], request, seeds=2)) == 6
    assert all(isinstance(arm, Policy) and arm.model is None and arm.held_out for arm in arms)
    with pytest.raises(InputError, match="unknown arm 'square_state_recipe'"):
        selected(EXPERIMENT, replace(request, only=["square_state_recipe"]))


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies")
    settings = small("arm_catcher_ball", image_size=16)
    few = replace(settings, train=replace(settings.train, episodes=20), test=replace(settings.test, episodes=2))
    collect(few, folder / DATA, workers=2)
    return folder


@pytest.mark.slow
def test_settings_are_evaluated_on_held_out_episodes(datasets: Path, tmp_path: Path) -> None:
    only = ["arm_catcher_ball_state_recipe", "arm_catcher_ball_state_half_updates"]
    page = EXPERIMENT.run(Request("mini", tmp_path, datasets, updates=4, only=only))
    with (page.parent / "tables/hyperparameters_policy.csv").open() as file:
        rows = {row["setting"]: row for row in csv.DictReader(file)}
    held_out = split_episodes(open_dataset(datasets / DATA).train.episodes)[1]
    assert set(rows) == {"recipe", "half_updates"}
    assert {int(row["episodes"]) for row in rows.values()} == {len(held_out)}
    policies = tmp_path / "policies"
    assert read_policy(policies / "arm_catcher_ball_state_half_updates-mini-seed0").settings.config["updates"] == 2
    (first, *_) = (policies / "arm_catcher_ball_state_recipe-mini-seed0/control").iterdir()
    assert read_trial(first)[1]["episode"].tolist() == held_out.tolist()
    assert "succeeds most often" in (page.parent / "answer.txt").read_text()


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_too_and_what_they_learned_is_saved(datasets: Path, tmp_path: Path) -> None:
    only = ["--only", "arm_catcher_ball_state_recipe", "--workers", "1", "--datasets", str(datasets)]
    command = [sys.executable, "-m", "sgjepa", "study", "hyperparameters_policy", *only, "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    folder = tmp_path / "out/policies/arm_catcher_ball_state_recipe-mini-seed0"
    while not (folder / "rows.jsonl").is_file():
        time.sleep(0.1)
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command again to go on" in said
    assert any((folder / "checkpoints").iterdir())
    assert not (folder / WEIGHTS).is_file()
