"""The study of control, small but whole: a world model, policies on it and on the state, trials, a page over all."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.datasets import small

from sgjepa.data.collect import collect
from sgjepa.envs import ENVS
from sgjepa.experiments import control, proprioception
from sgjepa.experiments.arms import Policy
from sgjepa.experiments.engine import Request, actors_of, jobs_of, selected, trainings_of
from sgjepa.policies.files import read_policy

CATCHER = "arm_catcher_ball"
DATA = f"{CATCHER}-mini"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("control")
    settings = small("arm_catcher_ball", image_size=64)
    few = replace(settings, train=replace(settings.train, episodes=12), test=replace(settings.test, episodes=3))
    collect(few, folder / "datasets" / DATA, workers=2)
    control.EXPERIMENT.run(request(folder, "out"))
    return folder


def request(folder: Path, out: str) -> Request:
    """Both experiments share their world models."""
    few = [f"{CATCHER}_gru*", f"{CATCHER}_pose", f"{CATCHER}_state"]
    return Request("mini", folder / out, folder / "datasets", seeds=1, updates=2, only=few, runs=folder / "runs")


@pytest.mark.slow
def test_policies_differ_in_nothing_but_what_they_look_at(place: Path) -> None:
    found = {path.name.removesuffix("-mini-seed0"): read_policy(path) for path in (place / "out/policies").glob("*-seed0")}
    assert set(found) == {f"arm_catcher_ball_{name}" for name in ("gru", "gru_nolaw", "pose", "state")}
    configs = {name: dict(one.settings.config) for name, one in found.items()}
    assert [config.pop("law") for config in configs.values()].count(False) == 1
    assert all(config == next(iter(configs.values())) for config in configs.values())
    assert len({str(one.settings.data) for one in found.values()}) == 1
    assert (
        len({str(one.scaling.law) for one in found.values()})
        == len({str(one.scaling.control) for one in found.values()})
        == 1
    )


@pytest.mark.slow
def test_all_drive_the_same_episodes_and_are_on_one_page(place: Path) -> None:
    page = place / "out/report/index.html"
    with (page.parent / "tables/finding.csv").open() as file:
        rows = list(csv.DictReader(file))
    policies = [row["policy"] for row in rows]
    assert policies[:3] == ["demonstrator", "holding still", "random controls"]
    assert set(policies[3:]) == {"SG-JEPA (GRU)", "SG-JEPA (GRU), without the law", "arm's pose only", "true state"}
    assert "on SG-JEPA's features a policy succeeds" in (page.parent / "answer.txt").read_text()
    own = place / "out/report-arm_catcher_ball/index.html"
    assert own.is_file()
    assert f'href="../{own.parent.name}/index.html"' in page.read_text()


@pytest.mark.slow
def test_the_same_world_models_serve_policies_that_are_told_their_pose(place: Path) -> None:
    models = "runs/*/model.safetensors"
    before = {path: path.stat().st_mtime_ns for path in place.glob(models)}
    page = proprioception.EXPERIMENT.run(request(place, "pose"))
    assert before
    assert {path: path.stat().st_mtime_ns for path in place.glob(models)} == before
    with (page.parent / "tables/finding.csv").open() as file:
        rows = {row["policy"]: row for row in csv.DictReader(file)}
    assert list(rows)[3:] == ["SG-JEPA (GRU), with proprioception", "arm's pose only", "true state"]
    assert not rows["SG-JEPA (GRU), with proprioception"]["paper, all (%)"], "the paper has no such policy"
    assert "on SG-JEPA's features a policy, with proprioception, succeeds" in (page.parent / "answer.txt").read_text()


def test_a_policy_differs_from_another_in_its_name_or_in_nothing() -> None:
    """Policies of both experiments in one folder would not be taken for one another; without features they are the same."""
    one, other = (
        [arm for arm in experiment.arms("mini") if isinstance(arm, Policy) and arm.name.startswith(CATCHER)]
        for experiment in (control.EXPERIMENT, proprioception.EXPERIMENT)
    )
    by_name = {arm.name: arm for arm in (*one, *other)}
    assert len(by_name) == len(one) + len(other) - 2
    assert all(by_name[arm.name] == arm for arm in (*one, *other))
    robot = {arm.name.removeprefix(CATCHER): (arm.model is not None, arm.robot) for arm in other}
    on_features = dict.fromkeys(("_gru_pose", "_lewm_pose", "_dino_pose"), (True, True))
    assert robot == {**on_features, "_pose": (False, True), "_state": (False, False)}
    assert all(arm.config.law for arm in other)


def test_every_world_with_a_task_takes_part() -> None:
    worlds = [name for name, env in ENVS.items() if env.env_spec.has_task and env.env_spec.nominal_law]
    for size, methods in (("mini", {"gru", "lewm", "dino"}), ("paper", {"gru", "lewm", "dino", "ssm"})):
        names = {arm.name for arm in trainings_of(control.arms(size))}
        assert names == {f"{world}_{method}" for world in worlds for method in methods}


def test_a_foreign_encoder_serves_policies_of_all_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its features do not depend on what its world model learned; each of ours has one of its own."""
    monkeypatch.setattr("sgjepa.experiments.engine.total_updates", lambda *_: 1)
    asked = Request("mini", tmp_path, tmp_path, only=[f"{CATCHER}_*"])
    arms = selected(control.EXPERIMENT, asked)
    jobs = jobs_of(control.EXPERIMENT, arms, asked, seeds=3)
    trained = [(job.name.removeprefix(f"{CATCHER}_"), job.run.seed) for job in jobs]
    assert trained == [("gru", 0), ("lewm", 0), ("dino", 0), ("gru", 1), ("lewm", 1), ("gru", 2), ("lewm", 2)]
    folders = {(job.name, job.run.seed): job.folder for job in jobs}
    for actor in actors_of(arms, jobs, asked, seeds=3):
        if isinstance(actor.arm, Policy) and actor.arm.model is not None:
            seed = 0 if actor.arm.model.shared else actor.seed
            assert actor.model == folders[actor.arm.model.name, seed]
    train = {arm.name.removeprefix(f"{CATCHER}_"): arm.run.train for arm in trainings_of(arms)}
    assert (train["dino"].epochs, train["dino"].updates) == (1, 1)
    assert train["gru"] == train["lewm"] != train["dino"]
