"""The study of planning: its analysis where the answer is known, and small but whole."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.answers import cells
from fixtures.datasets import small

from sgjepa.data.collect import collect
from sgjepa.envs.spec import Measure
from sgjepa.evaluation.latent_errors import LatentErrors
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.engine import Request, trainings_of
from sgjepa.experiments.planning import EXPERIMENT, METHODS, arms, summary
from sgjepa.planning.cem import Search
from sgjepa.planning.receding_horizon import PlannerConfig
from sgjepa.policies.files import Driver
from sgjepa.policies.goal_tasks import Cases
from sgjepa.results.table import Results
from sgjepa.results.trials import Driven, Latency, Trial

CASES = 50


def trial(label: str, seed: int, solved: np.ndarray) -> Trial:
    driver = Driver(label, label, seed, {"plans": True}, f"{label}{seed}")
    about = SimpleNamespace(
        settings=SimpleNamespace(driver=driver, how={"search": "cem"}, split="test"),
        dataset="reacher-mini",
        played=SimpleNamespace(world="reacher"),
        laws={},
        measures=(Measure("success", "it was reached"),),
    )
    return Trial(Path(label), about, {"episode": np.arange(CASES), "success": solved.astype(float)})  # type: ignore[arg-type]


def driven(solved: Mapping[str, Sequence[np.ndarray]]) -> Evidence:
    """By method, of each training."""
    arms = {}
    for method, trainings in solved.items():
        label = f"SG-JEPA ({method}), planned by CEM"
        arms[label] = Driven(tuple((trial(label, seed, one),) for seed, one in enumerate(trainings)))
        arms[label].__dict__["latency"] = Latency(0.5, 0.6, 10)  # in place of the file
    return Evidence([], {"reacher": Results.of_driven(arms)}, Path())


def first(count: int) -> np.ndarray:
    return np.arange(CASES) < count


def test_a_difference_of_nothing_is_no_material_loss_and_one_of_30_points_is() -> None:
    solved = {"Transformer": [first(45)] * 3, "GRU": [first(45), first(44), first(45)], "SSM": [first(30)] * 3}
    found = summary(driven(solved))
    assert [claim.verdict for claim in found.claims] == ["holds", "does not hold"]
    assert found.claims[0].interval.mean == pytest.approx(-2 / 3)
    assert found.claims[1].interval.mean == pytest.approx(-30)
    assert "no material loss" in found.words[0]
    assert "a material loss" in found.words[1]
    assert cells(found)[0] == ("reacher", "SG-JEPA (Transformer)", "3", cells(found)[0][3], "", "", "0.50", "100")
    assert cells(found)[0][3].startswith("90.0 (")


def test_one_training_decides_nothing() -> None:
    found = summary(driven({"Transformer": [first(45)], "GRU": [first(10)]}))
    assert [claim.verdict for claim in found.claims] == ["not decided"]
    assert "not decided with one training each" in found.words[0]


def test_errors_of_latents_are_shares_of_the_variance() -> None:
    of = driven({"GRU": [first(45)]})
    weights = of.results.driven(of.results.arms[0]).first.driver.weights
    errors = LatentErrors(np.full((4, 5), 0.02), np.full((4, 5), 0.1), variance=0.2, clips=8)
    (row,) = cells(summary(replace(of, latents={weights: errors})))
    assert row[4:6] == ("10.0 (10.0 to 10.0)", "50.0")


def test_both_benchmarks_are_asked_with_every_predictor() -> None:
    assert {arm.name for arm in trainings_of(arms("mini"))} == {f"{w}_{m}" for w in ("reacher", "cube") for m in METHODS}


@pytest.mark.slow
@pytest.mark.opengl
def test_the_study_small_but_whole_and_once_more(tmp_path: Path) -> None:
    settings = small("reacher", image_size=64)
    few = replace(settings, train=replace(settings.train, episodes=12), test=replace(settings.test, episodes=6))
    collect(few, tmp_path / "datasets" / "reacher-mini", workers=2)
    search = PlannerConfig(horizon=2, execute=2, search=Search(candidates=6, iterations=2, elites=2))
    few = [replace(arm, cases=Cases(count=2), config=search) for arm in arms("mini")]
    study = replace(EXPERIMENT, arms=lambda _: few)
    asked = Request("mini", tmp_path / "out", tmp_path / "datasets", 1, 2, only=["reacher_gru", "reacher_transformer"])
    page = study.run(asked)
    with (page.parent / "tables/finding.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = ["random controls", "planned in the true simulator", "SG-JEPA (Transformer)", "SG-JEPA (GRU)"]
    assert [row["predictor"] for row in rows] == names
    assert "SG-JEPA (GRU) minus SG-JEPA (Transformer)" in (page.parent / "answer.txt").read_text()
    assert (tmp_path / "out/report-reacher/index.html").is_file()
    trials = sorted((tmp_path / "out").rglob("controls.parquet"))
    before = [path.stat().st_mtime_ns for path in trials]
    assert len(trials) == 4
    study.run(asked)
    assert [path.stat().st_mtime_ns for path in trials] == before, "nothing is planned twice"
