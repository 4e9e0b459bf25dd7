"""Laws are vectors, or absent: one way from data to report for two laws at once, and for a world that has none."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.datasets import small
from fixtures.runs import RUN

from sgjepa import cli, laws
from sgjepa.core.errors import InputError
from sgjepa.core.tables import read_table, select
from sgjepa.data.collect import collect
from sgjepa.data.config import Part
from sgjepa.data.preview import preview
from sgjepa.data.store import Dataset, open_dataset
from sgjepa.envs import ENVS, planar
from sgjepa.evaluation.counterfactual import CounterfactualConfig, counterfactual
from sgjepa.evaluation.coverage import coverage_curve, examine, in_words
from sgjepa.evaluation.evaluate import ForecastConfig, evaluate
from sgjepa.evaluation.metrics import Guess, errors
from sgjepa.evaluation.probes import ProbeConfig
from sgjepa.laws import ClippedNormal, Grid, in_distribution
from sgjepa.report.forecast import report
from sgjepa.results.evaluations import load_evaluations
from sgjepa.results.table import Results
from sgjepa.theory import coverage as theory
from sgjepa.training.world_model import train

SHORT = ForecastConfig(probe=ProbeConfig(window=10, hidden=(16,), epochs=1, windows=300))
TRAIN = {"gravity": ClippedNormal(4.0, 0.5, 0.1), "gravity_x": ClippedNormal(0.0, 0.5, -5.0)}
TEST = {"gravity": Grid((-2.0, 4.0, 10.0)), "gravity_x": Grid((-3.0, 0.0, 3.0))}


@pytest.fixture(scope="module")
def tilted(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The square under two laws: nine pairs of test values, each twice."""
    settings = replace(small(), train=Part(20, TRAIN), test=Part(18, TEST))
    return open_dataset(collect(settings, tmp_path_factory.mktemp("tilted") / "tilted", workers=1))


@pytest.fixture(scope="module")
def run(tilted: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    short = replace(
        RUN,
        name="square_gru",
        data=("tilted",),
        model=replace(RUN.model, laws=2),
        train=replace(RUN.train, epochs=1, frames=64, decoder=True, decoder_width=8),
    )
    folder = train(short, tmp_path_factory.mktemp("runs") / "gru", tilted.path.parent)
    evaluate(folder, tilted, SHORT)
    counterfactual(folder, tilted, CounterfactualConfig(forecast=SHORT))
    return folder


def test_both_laws_act_in_the_data(tilted: Dataset) -> None:
    """Between the kick and the first wall both velocities change evenly, by the episode's own laws."""
    assert tilted.test.laws == ("gravity", "gravity_x")
    assert np.unique(tilted.test.law, axis=0).shape == (9, 2)
    for episode in range(18):
        g, g_x = tilted.test.law[episode]
        vx, vz = tilted.test.state[episode, 1:3, 2], tilted.test.state[episode, 1:3, 3]
        assert np.diff(vx)[0] == pytest.approx(g_x / 16, abs=1e-4)
        assert np.diff(vz)[0] == pytest.approx(-g / 16, abs=1e-4)


def test_an_episode_lies_in_distribution_if_every_law_does(run: Path) -> None:
    (found,) = load_evaluations(run)
    assert found.law.shape == (18, 2)
    assert np.unique(found.law[in_distribution(found.samplers, found.law)], axis=0).tolist() == [[4.0, 0.0]]
    assert (~in_distribution(found.samplers, found.law)).sum() == 16


def test_coverage_of_two_laws_is_one_plus_their_distance(tilted: Dataset) -> None:
    """In the affine basis: 1 + (g - mean)' C^-1 (g - mean), with the covariance of the training laws."""
    training = tilted.train.law.astype(float)
    points = np.array([[4.0, 0.0], [10.0, 0.0], [10.0, 3.0]])
    gap = points - training.mean(axis=0)
    wanted = 1 + np.einsum("ki,ij,kj->k", gap, np.linalg.inv(np.cov(training.T, bias=True)), gap)
    names = tilted.train.laws
    np.testing.assert_allclose(coverage_curve(training, points, names=names), wanted, rtol=1e-6)
    home = coverage_curve(training, training, "quadratic", names)
    assert home.mean() == pytest.approx(theory.Monomials(2, 2).m), "over the training laws, the number of terms: 6"
    far = examine(tilted, {"gravity": [4.0], "gravity_x": [6.0]})["laws"][0]
    assert far["verdict"] == "far outside"
    assert "gravity_x" in in_words(far)
    with pytest.raises(InputError, match=r"has no law 'wind'; its laws are gravity, gravity_x"):
        examine(tilted, {"wind": [1.0]})


def test_monomials_of_one_law_are_its_powers() -> None:
    g = np.linspace(-3, 5, 7)
    for m in (1, 2, 3, 4):
        basis = theory.Monomials(laws=1, degree=m - 1)
        assert np.allclose(basis(g[:, None]), theory.Powers(m)(g))
        assert basis.m == m


def test_each_law_is_told_wrongly_in_turn(run: Path, tilted: Dataset) -> None:
    told = read_table(run / "counterfactual" / "tilted" / "counterfactual.parquet")
    assert np.unique(told["law"]).tolist() == ["gravity", "gravity_x"]
    usual = read_table(run / "evaluations" / "tilted-test" / "episodes.parquet")
    for name in tilted.test.laws:
        right = select(told, **{"law": name, "law.true": TEST[name].values[1], "law.given": TEST[name].values[1]})
        chosen = (usual["source"] == "predicted") & np.isclose(usual[f"law.{name}"], TEST[name].values[1])
        assert np.allclose(right["nmse"], usual["nmse"][chosen], atol=1e-5), "the other law is told as it is"


def test_the_report_maps_the_error_over_the_plane_of_two_laws(run: Path, tmp_path: Path) -> None:
    page = report([run], tmp_path / "report").read_text()
    assert "Does it stay right when gravity and gravity_x change?" in page
    names = {path.name for path in (tmp_path / "report/figures").iterdir()}
    assert "position_l2_over_gravity_and_gravity_x_1.png" in names
    assert {"position_l2_by_gravity.svg", "position_l2_by_gravity_x.svg", "strips_1.png"} <= names
    with (tmp_path / "report/tables/by_laws.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "position_l2"]
    assert len(rows) == 9
    table = select(read_table(run / "evaluations" / "tilted-test" / "episodes.parquet"), source="predicted", horizon=44)
    for row in rows:
        chosen = (table["law.gravity"] == float(row["law.gravity"])) & (
            table["law.gravity_x"] == float(row["law.gravity_x"])
        )
        assert float(row["mean"]) == pytest.approx(table["position_l2"][chosen].mean())
        assert float(row["L_law"]) >= 1
    assert [axis.trained for axis in Results.of_runs([run]).axes] == ["g = 4 ± 0.5 m/s²", "g_x = 0 ± 0.5 m/s²"]


def test_two_laws_need_nothing_but_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From `sgjepa data --law --train-law` to the report: the recipe's model takes the second law by itself."""
    monkeypatch.chdir(tmp_path)
    few = ["--train-episodes", "24", "--test-episodes", "18", "--workers", "1", "--out", "datasets/tilted"]
    asked = ["--law", "gravity=2,4,6", "--law", "gravity_x=-2,0,2", "--train-law", "gravity_x=0:0.5"]
    assert cli.main(["data", "square", *few, *asked]) == 0
    assert "gravity_x" in capsys.readouterr().out
    found = open_dataset(tmp_path / "datasets/tilted").settings.train.laws
    assert found["gravity_x"] == ClippedNormal(0.0, 0.5, -1000.0)
    assert found["gravity"] == ClippedNormal(4.0, 0.5, 0.1), "the recipe's own"
    assert cli.main(["train", "square_gru", "--data", "tilted", "--updates", "1", "--out", "runs/tilted"]) == 0
    assert cli.main(["evaluate", "runs/tilted", "--probe", "linear"]) == 0
    assert cli.main(["coverage", "datasets/tilted", "--law", "gravity=4,8", "--law", "gravity_x=3"]) == 0
    assert cli.main(["report", "runs/tilted"]) == 0
    assert list((tmp_path / "report/figures").glob("position_l2_over_gravity_and_gravity_x_1.*"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--law", "gravity_x=1"], "law 'gravity_x' is given for one split alone; add --train-law gravity_x=MEAN:STD"),
        (["--train-law", "gravity_x=0:1"], "law 'gravity_x' is given for one split alone; add --law gravity_x="),
        (["--train-law", "gravity=4:0"], "the standard deviation must be positive"),
        (["--train-law", "gravity=four:1"], "law 'gravity' must be a finite number in m/s^2, got 'four'"),
        (["--train-law", "wind=1:2", "--law", "wind=1"], "unknown law 'wind'"),
    ],
)
def test_laws_that_make_no_sense_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    assert cli.main(["data", "square", "--out", str(tmp_path / "d"), *arguments]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


# --- states --------------------------------------------------------------------------------------------------------


def test_the_errors_follow_from_the_states(run: Path) -> None:
    """states.parquet holds what every source said and what was recorded, so nobody has to run the model again."""
    (found,) = load_evaluations(run)
    truth, std = found.states("recorded").astype(float), found.about.target_std
    for source in ("predicted", "one_step", "simulator", "stay"):
        guess = Guess(found.targets, found.states(source).astype(float), truth, std)
        for metric, values in errors(guess).items():
            assert np.allclose(values, found.values(metric, source), atol=2e-2 if metric == "angle_deg" else 1e-3), metric
    assert found.targets.to_state(truth)["x"].shape == (18, 44)
    with pytest.raises(InputError, match="unknown source"):
        found.states("dreamed")


def test_recorded_states_are_the_datasets(run: Path, tilted: Dataset) -> None:
    (found,) = load_evaluations(run)
    assert np.allclose(found.states("recorded"), found.targets.of(tilted.test.state[:, 20:]), atol=1e-5)


# --- without laws --------------------------------------------------------------------------------------------------


class Lawless(planar.Square):
    """Always the same gravity, which is nobody's parameter."""

    env_spec = replace(planar.Square.env_spec, name="lawless", gym_id="sgjepa/Lawless-v0", nominal_law={})

    def _build(self) -> None:
        super()._build()
        laws.LAWS["gravity"].apply(self.model, 4.0)

    def phys(self) -> np.ndarray:
        return np.zeros(len(self.env_spec.phys))


@pytest.fixture
def lawless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setitem(ENVS, "lawless", Lawless)
    settings = replace(small(), world="lawless", train=Part(20, {}), test=Part(12, {}))
    return open_dataset(collect(settings, tmp_path / "data" / "lawless", workers=1))


def test_a_world_without_laws_goes_all_the_way(lawless: Dataset, tmp_path: Path) -> None:
    assert lawless.test.laws == ()
    assert lawless.test.law.shape == (12, 0)
    short = replace(
        RUN,
        name="lawless_gru",
        data=("lawless",),
        model=replace(RUN.model, laws=0),
        train=replace(RUN.train, epochs=1, frames=64, decoder=True, decoder_width=8),
    )
    folder = train(short, tmp_path / "run", lawless.path.parent)
    evaluate(folder, lawless, SHORT)
    (found,) = load_evaluations(folder)
    assert found.laws == ()
    assert in_distribution(found.samplers, found.law).all(), "nothing is out of distribution where nothing varies"
    page = report([folder], tmp_path / "report").read_text()
    assert "Does it stay right for long?" in page
    assert 'id="law"' not in page
    assert "gravit" not in page
    assert preview(lawless, tmp_path / "preview")[0].is_file()
    with pytest.raises(InputError, match="has no law that varies"):
        counterfactual(folder, lawless, CounterfactualConfig(forecast=SHORT))
    with pytest.raises(InputError, match="has no laws: coverage is not defined"):
        examine(lawless)
