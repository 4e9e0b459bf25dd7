"""The one table of results: what it says of arms with a known answer, and that a metric from outside is in it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fixtures.synthetic import EPISODES, HORIZONS, LAWS, Made, evaluation, flat

from sgjepa.core.errors import InputError
from sgjepa.core.stats import bootstrap
from sgjepa.evaluation.metrics import METRICS, Guess, Metric, errors
from sgjepa.results.claims import significant, verdict
from sgjepa.results.selection import MEAN
from sgjepa.results.table import Results

OURS, OTHER = "SG-JEPA (GRU)", "LeWM"


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Three trainings of two arms; one errs half as much as the other."""
    arms = {}
    for arm, error in ((OURS, 1.0), (OTHER, 2.0)):
        made = Made(flat(error), stray=0.1)
        arms[arm] = tuple(evaluation(tmp_path / f"{arm}-seed{seed}", arm, seed, made.of(arm, seed)) for seed in range(3))
    return Results.of_evaluations(arms)


def test_blocks_come_from_evaluations_and_from_long_rows_alike(results: Results) -> None:
    assert results.values(OURS).shape == (3, LAWS.size * EPISODES, HORIZONS)
    rows = results.to_arrow()
    assert len(rows) == 2 * 3 * LAWS.size * EPISODES * HORIZONS * len(results.metrics) * len(results.sources)
    again = Results(rows, results.about)
    for source in results.sources:
        assert (again.values(OTHER, "nmse", source) == results.values(OTHER, "nmse", source)).all()
    assert again.axes == results.axes
    assert again.curve(OURS) == results.curve(OURS)


def test_a_saved_table_knows_what_its_numbers_mean(results: Results, tmp_path: Path) -> None:
    again = Results.open(results.save(tmp_path / "results.parquet"))
    assert again.about == results.about
    assert again.regions == ("all", "in", "out")
    assert again.coverage == results.coverage


def test_each_question_is_the_bootstrap_of_its_values(results: Results) -> None:
    inside = results.region("in")
    values = {arm: results.values(arm)[:, inside] for arm in results.arms}
    assert results.curve(OURS, region="in") == bootstrap(np.ascontiguousarray(values[OURS]))
    gap, plain = results.gap(OURS, OTHER, region="in"), bootstrap(values[OURS] - values[OTHER])[-1]
    assert (gap.mean, gap.low, gap.high) == pytest.approx((plain.mean, plain.low, plain.high))
    assert results.difference(OURS, OTHER, horizons=[1, MEAN])[MEAN].mean < 0
    assert results.ratio(OURS, OTHER)[HORIZONS].mean == pytest.approx(0.5, rel=0.2)
    by_law = results.by_law(OURS)
    assert [law for (law,) in by_law] == LAWS.tolist()
    assert by_law[4.0,].count == EPISODES
    assert results.where(gravity=4.0).sum() == EPISODES
    assert results.mean(OURS)[HORIZONS] == results.curve(OURS)[-1]


def test_the_lowest_error_is_marked_and_a_verdict_needs_three_trainings(results: Results) -> None:
    assert results.baseline == OTHER
    assert results.subject == OURS
    assert results.marks(horizon=HORIZONS) == {OURS: "best", OTHER: "second"}
    assert verdict(results.gap(OURS, OTHER)) == "better"
    assert results.decides()
    (row,) = results.compare(horizons=[MEAN], regions=["all"]).rows
    assert row["verdict"] == "significantly lower"
    assert significant(row["difference"], trainings=2) == "too few trainings for a verdict"


def test_unknown_names_are_refused_with_what_there_is(results: Results) -> None:
    for wrong in (
        lambda: results.values("nobody"),
        lambda: results.values(OURS, "no_metric"),
        lambda: results.values(OURS, source="no_source"),
        lambda: results.region("nowhere"),
        lambda: results.where(no_law=1.0),
        lambda: results.arm("no_run"),
    ):
        with pytest.raises(InputError, match="unknown"):
            wrong()


def test_a_metric_from_outside_is_one_function_with_its_label_and_unit(results: Results) -> None:
    """It is measured, has a column of every table, and brings its own unit."""
    targets = results.evaluations(OURS)[0].targets

    def height(guess: Guess) -> np.ndarray:
        column = guess.targets.names.index("z")
        return np.abs(guess.states - guess.truth)[..., column]

    METRICS.register("height", Metric("height error", "m", height), __name__)
    try:
        truth = np.zeros((2, 3, len(targets.names)))
        measured = errors(Guess(targets, truth + 2.0, truth, [1.0] * len(targets.names)))
        assert (measured["height"] == 2.0).all()
        runs = {
            arm: tuple(replace(one, table={**one.table, "height": one.table["nmse"]}) for one in results.evaluations(arm))
            for arm in results.arms
        }
        more = Results.of_evaluations(runs)
        assert "height" in more.comparable
        assert "height (m)" in str(more.table("height", horizons=[1]))
    finally:
        del METRICS["height"]


def test_results_need_neither_torch_nor_a_simulator() -> None:
    modules = [path.stem for path in (Path(__file__).parents[2] / "src/sgjepa/results").glob("[!_]*.py")]
    imports = "; ".join(f"import sgjepa.results.{name}" for name in sorted(modules))
    code = f"import sys; sys.modules['torch'] = None; sys.modules['mujoco'] = None; {imports}"
    subprocess.run([sys.executable, "-c", code], check=True)
