"""The study of control, small but whole: a world model, policies on it and on the state, trials, a page over all."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.datasets import small

from sgjepa.data.collect import collect
from sgjepa.envs import ENVS
from sgjepa.experiments import control, control_pose
from sgjepa.experiments.asked import Asked
from sgjepa.experiments.chains import Chain
from sgjepa.policies.files import read_policy

DATA = "arm_catcher_ball-mini"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("control")
    settings = small("arm_catcher_ball", image_size=64)
    few = replace(settings, train=replace(settings.train, episodes=12), test=replace(settings.test, episodes=3))
    collect(few, folder / "datasets" / DATA, workers=2)
    control.STUDY.run(asked(folder, "out"))
    return folder


def asked(folder: Path, out: str) -> Asked:
    """Both studies share their world models."""
    few = ["arm_catcher_ball_gru"]
    return Asked("mini", folder / out, folder / "datasets", seeds=1, updates=2, only=few, runs=folder / "runs")


@pytest.mark.slow
def test_policies_differ_in_nothing_but_what_they_look_at(place: Path) -> None:
    found = {path.name.removesuffix("-mini-seed0"): read_policy(path) for path in (place / "out/policies").iterdir()}
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
    assert set(policies[3:]) == {"SG-JEPA (GRU)", "SG-JEPA (GRU), not told the law", "arm's pose alone", "true state"}
    assert "on SG-JEPA's features a policy succeeds" in (page.parent / "answer.txt").read_text()
    own = place / "out/report-arm_catcher_ball/index.html"
    assert own.is_file()
    assert f'href="../{own.parent.name}/index.html"' in page.read_text()


@pytest.mark.slow
def test_the_same_world_models_serve_policies_that_are_told_their_pose(place: Path) -> None:
    models = "runs/*/model.safetensors"
    before = {path: path.stat().st_mtime_ns for path in place.glob(models)}
    page = control_pose.STUDY.run(asked(place, "pose"))
    assert before
    assert {path: path.stat().st_mtime_ns for path in place.glob(models)} == before
    with (page.parent / "tables/finding.csv").open() as file:
        rows = {row["policy"]: row for row in csv.DictReader(file)}
    assert list(rows)[3:] == ["SG-JEPA (GRU), told its pose", "arm's pose alone", "true state"]
    assert not rows["SG-JEPA (GRU), told its pose"]["paper, all (%)"], "the paper has no such policy"
    assert "on SG-JEPA's features a policy, told its pose, succeeds" in (page.parent / "answer.txt").read_text()


def test_a_policy_differs_from_another_in_its_name_or_in_nothing(tmp_path: Path) -> None:
    """Policies of both studies in one folder would not be taken for one another; without features they are the same."""
    cell = next(cell for cell in control.models("mini") if cell.run.name == "arm_catcher_ball_gru")
    chain = Chain(cell.run, tmp_path, 1, cell=cell.run.name)
    one, other = (
        study.pupils(chain, tmp_path / "run", asked(tmp_path, "out")) for study in (control.STUDY, control_pose.STUDY)
    )
    by_folder = {pupil.folder.name: pupil for pupil in (*one, *other)}
    assert len(by_folder) == len(one) + len(other) - 2
    assert all(by_folder[pupil.folder.name] == pupil for pupil in (*one, *other))
    assert [(pupil.run is None, pupil.pose) for pupil in other] == [(False, True), (True, True), (True, False)]
    assert all(pupil.settings.law for pupil in other)


def test_every_world_with_a_task_is_asked() -> None:
    worlds = [world for world, env in ENVS.items() if env.env_spec.has_task and env.env_spec.nominal_law]
    for size, methods in (("mini", {"gru", "lewm", "dino"}), ("paper", {"gru", "lewm", "dino", "ssm"})):
        names = {cell.run.name for cell in control.models(size)}
        assert names == {f"{world}_{method}" for world in worlds for method in methods}


def test_a_foreign_encoder_is_looked_through_by_policies_of_all_seeds() -> None:
    """Its features do not depend on what its world model learned; each of ours has one of its own."""
    cells = [cell for cell in control.models("mini") if cell.run.name.startswith("arm_catcher_ball_")]
    chains = [
        Chain(replace(cell.run, seed=seed), Path(f"{cell.run.name}-{seed}"), 1, cell=cell.run.name)
        for seed in range(3)
        for cell in cells
    ]
    eyes = {chain.folder.name: eye.folder.name for chain, eye in control.eyes_of(chains).items()}
    for method in ("gru", "lewm"):
        assert all(eyes[f"arm_catcher_ball_{method}-{seed}"] == f"arm_catcher_ball_{method}-{seed}" for seed in range(3))
    assert {eyes[f"arm_catcher_ball_dino-{seed}"] for seed in range(3)} == {"arm_catcher_ball_dino-0"}
    assert len(control.looked_through(chains)) == 3 + 3 + 1
    trained = {cell.run.name.removeprefix("arm_catcher_ball_"): cell.run.train for cell in cells}
    assert (trained["dino"].epochs, trained["dino"].updates) == (1, 1)
    assert trained["gru"] == trained["lewm"] != trained["dino"]
