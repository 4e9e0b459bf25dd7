"""Which evaluated runs are compared, which are trainings of one arm, and what tells arms apart."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from fixtures.evaluated import EVALUATION, RECORD, copy_of

from sgjepa.core import files
from sgjepa.core.errors import InputError
from sgjepa.core.stats import bootstrap, bootstrap_difference
from sgjepa.report.forecast import report
from sgjepa.results.claims import verdict
from sgjepa.results.counterfactual import area, counterfactuals
from sgjepa.results.selection import About
from sgjepa.results.table import Results


@pytest.fixture
def runs(evaluated_runs: list[Path]) -> list[Path]:
    return evaluated_runs


def folders(results: Results) -> set[str]:
    """The evaluations that were read."""
    return {run.folder.name for arm in results.arms for run in results.evaluations(arm)}


# --- which evaluation ----------------------------------------------------------------------------------------------


def _another(run: Path, differs: str) -> None:
    """A second evaluation of the run, with settings that are not the usual ones."""
    place = Path(shutil.copytree(run / "evaluations" / "square-test", run / "evaluations" / f"square-test-{differs}"))
    about = files.read_json(place / RECORD)
    files.write_json(place / RECORD, about | {"differs": differs})


def test_the_usual_evaluation_is_reported_unless_another_is_asked_for(runs: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(run, tmp_path / run.name)) for run in runs[1:]]
    for copy in copies:
        _another(copy, "linear4")
        _another(copy, "context30")
    assert folders(Results.of_runs(copies)) == {"square-test"}
    linear = Results.of_runs(copies, data="square-test-linear4")
    assert folders(linear) == {"square-test-linear4"}
    assert counterfactuals(Results.of_runs(copies))
    assert counterfactuals(linear) == [], "the counterfactual was read by the usual probe"
    shutil.rmtree(copies[0] / EVALUATION)
    with pytest.raises(InputError, match="as square-test-context30, square-test-linear4; choose one with --data"):
        Results.of_runs(copies)
    shutil.rmtree(copies[1] / "evaluations" / "square-test-context30")
    assert folders(Results.of_runs(copies)) == {"square-test-linear4"}, "the only one that they share"


def test_a_damaged_evaluation_beside_the_one_that_is_reported_does_no_harm(runs: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(run, tmp_path / run.name)) for run in runs[1:]]
    for copy in copies:
        _another(copy, "linear4")
        (copy / "evaluations" / "square-test-linear4" / "episodes.parquet").write_bytes(b"lost")
    assert folders(Results.of_runs(copies)) == {"square-test"}
    (copies[0] / "evaluations" / "square-test-linear4" / RECORD).write_text("lost")
    assert folders(Results.of_runs(copies, data="square-test")) == {"square-test"}
    with pytest.raises(InputError, match=r"square-test-linear4/artifact\.json"):
        Results.of_runs(copies)  # whether it is the usual one cannot be known


# --- which trainings belong together -------------------------------------------------------------------------------


def test_runs_in_folders_of_one_name_are_told_apart(runs: list[Path], tmp_path: Path) -> None:
    """Other settings under the same folder name: another method, with a label and a cost of its own."""
    loss = files.read_json(runs[0] / RECORD)["config"]["loss"]
    several = (("one", 3), ("two", 4))
    copies = [copy_of(runs[0], tmp_path / name / "run", config={"loss": loss | {"steps": n}}) for name, n in several]
    arms = Results.of_runs(copies).arms
    assert len(set(arms)) == 2
    assert all(str(copy) in arm for copy, arm in zip(copies, arms, strict=True))
    assert report(copies, tmp_path / "out").is_file()


def test_warm_starts_are_pooled_over_seeds_and_not_with_others(runs: list[Path], tmp_path: Path) -> None:
    starts = ("runs/old-seed0", "runs/old-seed1", None)
    copies = [copy_of(runs[0], tmp_path / str(seed), seed, {"init": start}) for seed, start in enumerate(starts)]
    results = Results.of_runs(copies)
    assert [len(results.seeds(arm)) for arm in results.arms] == [2, 1]


def test_trainings_that_were_continued_are_another_method_than_those_without_a_break(
    runs: list[Path], tmp_path: Path
) -> None:
    leg = {"step": 30, "epochs": 1, "updates": 30}
    copies = [copy_of(runs[0], tmp_path / str(n), n, continued=legs) for n, legs in enumerate(([], [leg], [leg]))]
    results = Results.of_runs(copies)
    once, longer = results.arms
    assert [len(results.seeds(arm)) for arm in (once, longer)] == [1, 2]
    assert longer == f"{once}, continued after 30 updates"


# --- counterfactuals -----------------------------------------------------------------------------------------------


def test_a_counterfactual_of_another_model_is_not_taken(runs: list[Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(runs[0], tmp_path / "copy"))
    assert len(counterfactuals(Results.of_runs([copy]))) == 1
    record = copy / "counterfactual" / "square-test" / RECORD
    about = files.read_json(record)
    about["settings"]["model"] = "0" * 64
    files.write_json(record, about)
    assert counterfactuals(Results.of_runs([copy])) == []


def test_area_is_the_papers_trapezoid() -> None:
    horizons = np.array([1, 3, 5, 9, 20, 32, 44], float)
    nmse = np.random.default_rng(0).random((1, 7))
    plain = sum((horizons[i + 1] - horizons[i]) / 2 * (nmse[0, i] + nmse[0, i + 1]) for i in range(6)) / 43
    assert area(nmse, horizons)[0] == pytest.approx(plain)


# --- marks and intervals -------------------------------------------------------------------------------------------


def of(**errors: np.ndarray) -> Results:
    """Arms with given errors (episodes,) at one horizon, one training each."""
    arms = []
    for arm, values in errors.items():
        n = len(values)
        table = {
            "source": np.full(n, "predicted"),
            "episode": np.arange(n),
            "horizon": np.ones(n, int),
            "position_l2": values,
        }
        arms.append(Results.of(arm, 0, table, About()))
    return sum(arms[1:], start=arms[0])


def test_best_and_second_are_marked_and_ties_share_the_mark() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, (4, 200))
    good, same, middle, bad = (mean + some for mean, some in zip((1, 1.001, 2, 3), noise, strict=True))
    three = of(bad=bad, good=good, middle=middle)
    assert three.marks("position_l2", 1) == {"bad": "", "good": "best", "middle": "second"}
    four = of(same=same, bad=bad, good=good, middle=middle)
    assert four.marks("position_l2", 1) == {"same": "best", "bad": "", "good": "best", "middle": "second"}
    assert of(good=good).marks("position_l2", 1) == {"good": ""}, "alone, nothing is best"


def test_pairing_tells_apart_what_overlapping_intervals_do_not() -> None:
    hard = np.random.default_rng(0).uniform(0, 5, 300)  # episodes differ much more than methods do
    one, other = hard, hard + 0.1
    a, b = bootstrap(one[:, None])[0], bootstrap(other[:, None])[0]
    assert a.high > b.low
    assert verdict(bootstrap_difference(one[:, None], other[:, None])[0]) == "better"


def test_a_second_training_that_went_otherwise_widens_a_comparison() -> None:
    """One seed against two that disagree: averaging the two first would claim too much."""
    one = np.full((1, 100, 1), 1.0)
    two = np.stack([np.full((100, 1), 0.8), np.full((100, 1), 2.0)])
    assert verdict(bootstrap_difference(one, two)[0]) == "undecided"


def test_an_interval_from_five_episodes_does_cover_less_often_than_it_says() -> None:
    columns = np.random.default_rng(0).normal(size=(5, 500))  # 500 experiments of 5 episodes with mean 0
    assert np.mean([one.low <= 0 <= one.high for one in bootstrap(columns, resamples=1000)]) < 0.9
