"""What the sweeps say of results whose answer is known."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from fixtures.answers import drawn, records, rows, table
from fixtures.synthetic import HORIZONS, LAWS, Made, evidence, flat

from sgjepa.core import artifact
from sgjepa.core.stats import Interval
from sgjepa.core.tables import join, write_table
from sgjepa.evaluation.records import CounterfactualRecord
from sgjepa.experiments import (
    EXPERIMENTS,
    ORDER,
    conditioning,
    counterfactual,
    coverage,
    discount,
    history_depth,
    history_rollout,
    learning_rate,
    optimiser,
    sigreg,
    sweep,
)
from sgjepa.experiments.answer import Answer, Evidence
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import Experiment
from sgjepa.experiments.sweep import Measured, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Number, Row, Text
from sgjepa.results.claims import CLAIMS, MIN_TRAININGS
from sgjepa.results.counterfactual import Counterfactual, errors_by_given
from sgjepa.results.paper_numbers import published_study

SWEEPS = (learning_rate, optimiser, sigreg, history_depth, history_rollout, discount)
OURS = (*SWEEPS, conditioning)


@pytest.fixture(autouse=True)
def _linear_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fitted: a linear probe's error is how far the setting lies from the learning rate 1e-3."""

    def nmse(of: Evidence, arm: str) -> np.ndarray:
        (x,) = (one.x for one in of.arms if isinstance(one, Setting) and one.name == of.results.name(arm))
        return np.full(len(of.results.seeds(arm)), abs(np.log(x / 1e-3)))

    monkeypatch.setattr(sweep, "linear_nmse", nmse)


def said(module: Any, of: Evidence) -> Answer:
    answer: Answer = module.EXPERIMENT.analyse(of)
    return answer


def ours(answer: Answer, source: str = "measured") -> list[dict[str, str]]:
    return [row for row in rows(answer) if row[""] == source]


def best(answer: Answer, column: str) -> set[str]:
    """The labels of the settings that are marked as best."""
    found = table(answer)
    place = list(found.columns).index(column)
    lines = [line for line in found.rows if isinstance(line, Row) and line.cells[0] == "measured"]
    return {str(line.cells[1]) for line in lines if isinstance(cell := line.cells[place], Number) and cell.mark == "best"}


def measured(of: Evidence, columns: Sequence[sweep.Column]) -> Measured:
    arms = {of.results.arm(one.name): one for one in of.arms if isinstance(one, Setting)}
    return {arm: (one, {c.head: c.values(of, arm) for c in columns}) for arm, one in arms.items()}


def test_the_learning_rate_with_the_lowest_loss_need_not_have_the_best_probe(tmp_path: Path) -> None:
    points = learning_rate.settings("mini")
    assert [point.x for point in points] == [2e-4, 6e-4, 1e-3, 2e-3, 4e-3, 1e-2]
    made = {p.name: Made(flat(0.5 if p.x == 1e-3 else 1.0), losses=(3.0, 3.0 - 100 * p.x)) for p in points}
    found = said(learning_rate, evidence(tmp_path, points, made))
    loss, probe, error = found.words
    assert loss == "Rate 0.01 has the lowest best validation loss: 2.000 (one training each: no verdict)."
    assert probe.startswith("Rate 0.001 has the lowest linear probe NMSE")
    assert error.startswith(
        f"Rate 0.001 has the lowest position error at h = {HORIZONS} (m): 0.500; all others are signific"
    )
    assert best(found, f"position error at h = {HORIZONS} (m)") == {"0.001"}
    assert Text(sweep.SINGLE_TRAINING_NOTE, quiet=True) in found.blocks
    assert drawn(found) == [f"learning_rate_{x}" for x in ("loss", "probes", "errors")]


def test_muon_is_below_adamw_where_its_losses_are(tmp_path: Path) -> None:
    points = optimiser.settings("mini")
    made = {
        p.name: Made(flat(1.0), losses=(4.0, 3.0, 2.0) if p.run.optim.kind == "muon" else (2.5, 2.7, 2.9), sigreg=(1.0,) * 3)
        for p in points
    }
    one = said(optimiser, evidence(tmp_path, points, made))
    for words, predictor in zip(one.words, optimiser.PREDICTORS.values(), strict=True):
        assert words.startswith(
            f"{predictor}: the lowest validation loss with Muon lies \N{MINUS SIGN}20.0, one training each"
        )
    shown = {(row["predictor"], row["optimiser"]): row for row in ours(one)}
    assert shown["GRU", "Muon"]["at epoch"] == "3"
    assert shown["GRU", "AdamW"]["at epoch"] == "1"
    paper = {(row["predictor"], row["optimiser"]): row for row in ours(one, "paper")}
    assert paper["SSM", "AdamW"]["best validation loss"] == "6.922"
    assert [(claim.claim, claim.verdict) for claim in one.claims] == [("muon", "not decided")] * 3, "one training each"
    three = said(optimiser, evidence(tmp_path / "three", points[:2], made, seeds=3))
    assert "\N{MINUS SIGN}20.0 (\N{MINUS SIGN}20.0 to \N{MINUS SIGN}20.0) %" in three.words[0]
    assert Text(sweep.SINGLE_TRAINING_NOTE, quiet=True) not in three.blocks
    (claim,) = three.claims
    assert claim.verdict == "not decided", "three trainings that agree to the last digit have no interval"
    made = {name: replace(one, stray=0.02) for name, one in made.items()}
    (claim,) = said(optimiser, evidence(tmp_path / "stray", points[:2], made, seeds=3)).claims
    assert (claim.verdict, claim.paper) == ("holds", "\N{MINUS SIGN}0.149 (square)")
    assert claim.interval.low < -0.2 < claim.interval.high


@pytest.mark.parametrize(
    ("ranks", "stray", "seeds", "verdict"),
    [
        ((10, 20, 30, 40, 50), 0.02, 3, "holds"),
        ((50, 40, 30, 20, 10), 0.02, 3, "does not hold"),
        ((21, 18, 22, 17, 21), 0.1, 3, "not decided"),
        ((10, 20, 30, 40, 35), 0.02, 3, "holds"),
        ((10, 20, 30, 40, 50), 0.02, 1, "not decided"),
    ],
)
def test_the_rank_is_judged_by_what_a_doubling_adds_over_trainings(
    ranks: tuple[float, ...], stray: float, seeds: int, verdict: str, tmp_path: Path
) -> None:
    points = sigreg.settings("mini")
    assert [p.x for p in points] == [0.01, 0.02, 0.045, 0.09, 0.18]
    made = {p.name: Made(flat(1.0), rank=rank, stray=stray) for p, rank in zip(points, ranks, strict=True)}
    of = evidence(tmp_path, points, made, seeds)
    found = said(sigreg, of)
    (claim,) = found.claims
    assert (claim.claim, claim.verdict, claim.seeds) == ("rank", verdict, seeds)
    slope = np.polyfit(np.log2([p.x for p in points[:4]]), ranks[:4], 1)[0]
    assert abs(claim.interval.mean - slope) < 20 * stray, "up to the recipe's weight, 0.09"
    assert sigreg.rank_claim(of, measured(replace(of, arms=points[:1]), sigreg.columns(of)[1:2])) == ()
    figures = [*(f"sigreg_{x}" for x in ("statistic", "rank", "probes")), *(f"nmse_by_gravity_h{h}" for h in (5, 20, 34))]
    assert drawn(found) == figures
    assert {row["effective rank"] for row in ours(found, "paper")} == {"138", "131"}


@pytest.mark.parametrize(
    ("times", "stray", "verdict"),
    [(0.7, 0.02, "holds"), (1.02, 0.002, "holds"), (1.2, 0.02, "does not hold"), (1.02, 0.1, "not decided")],
)
def test_a_length_is_enough_if_the_longer_one_is_certainly_not_better_by_more_than_the_margin(
    times: float, stray: float, verdict: str, tmp_path: Path
) -> None:
    points = [p for p in history_rollout.settings("mini") if p.values in {("10", "5", "0.09"), ("10", "10", "0.09")}]
    levels = {"5": times, "10": 1.0}
    made = {p.name: Made(flat(levels[p.values[1]]), stray=stray) for p in points}
    (claim,) = said(history_rollout, evidence(tmp_path, points, made, seeds=3)).claims
    assert (claim.claim, claim.verdict) == ("five_steps", verdict)
    assert claim.note == "weights 0.09 and 0.09, not chosen for these lengths"


def test_the_lowest_of_several_trainings_is_named_with_those_that_do_not_differ_from_it() -> None:
    def lowest(**values: list[float]) -> tuple[str, dict[str, str]]:
        column = sweep.Column("loss", lambda *_: np.empty(0))
        return sweep.lowest({name: np.array(some) for name, some in values.items()}, column)

    far, near, least = [3.0, 3.1, 2.9], [0.9, 1.3, 1.1], [1.0, 1.1, 0.9]
    words, marks = lowest(far=far, near=near, least=least)
    assert words == "Least has the lowest loss: 1.000; not significantly different: near."
    assert marks == {"least": "best", "near": "best"}
    assert lowest(far=far, least=least)[0].endswith("1.000; all others are significantly higher.")
    assert lowest(far=[3.0], least=[1.0]) == ("Least has the lowest loss: 1.000 (one training each: no verdict).", {})
    assert lowest(least=[1.0]) == ("Least has the lowest loss: 1.000.", {})


def test_a_discount_that_errs_least_is_named_with_those_that_do_not_differ_from_it(tmp_path: Path) -> None:
    points = discount.settings("mini")
    made = {p.name: Made(flat(0.6 if p.x in (0.95, 1.0) else 0.8)) for p in points}
    found = said(discount, evidence(tmp_path, points, made))
    assert found.words[0].startswith(f"Discount 0.95 has the lowest NMSE at h = {HORIZONS}: 0.6")
    assert found.words[0].endswith("not significantly different: discount 1.")
    assert best(found, f"NMSE at h = {HORIZONS}") == {"0.95", "1"}
    assert len(ours(found, "paper")) == 5
    assert len(records(found, "discount")) == 3 * len(points)


def test_history_and_depth_are_compared_at_one_horizon_with_true_latents_beside(tmp_path: Path) -> None:
    points = history_depth.settings("mini")
    assert {p.values for p in points} == {(str(h), str(d)) for h in (3, 5, 10, 15) for d in (1, 2, 3)}
    made = {p.name: Made(flat(0.4 if p.values[0] == "10" else 1.0), floor=0.3 if p.x == 15 else 0.01) for p in points}
    found = said(history_depth, evidence(tmp_path, points, made))
    assert found.words[0].startswith("H = 10, depth ")
    assert best(found, "position error (m)") == {"10"}
    shown = {(row["H"], row["depth"]): row for row in ours(found)}
    assert shown["15", "1"]["position error (m), true latents"].startswith("0.30")
    assert float(shown["10", "1"]["position error (m)"].split(" ")[0]) == pytest.approx(0.4 * 32 / HORIZONS, abs=2e-3)


def test_the_probe_chooses_the_weight_and_the_cost_is_told(tmp_path: Path) -> None:
    points = history_rollout.settings("mini")
    assert all(p.run.train.frames == 24 for p in points)
    made = {
        p.name: Made(
            flat(0.5 if p.values[:2] == ("10", "5") else 0.7),
            probe=0.01 if p.values[2] == "0.09" else 0.02,
            seconds=10.0 * int(p.values[1]),
            memory=0.25 * int(p.values[0]),
        )
        for p in points
    }
    of = evidence(tmp_path, points, made)
    found = said(history_rollout, of)
    values = measured(of, history_rollout.columns(of))
    chosen = [values[arm][0].values for arm in history_rollout.choices(values).values()]
    assert chosen == [(*length, "0.09") for length in (("10", "5"), ("10", "10"), ("15", "5"), ("15", "7"))]
    assert {claim.claim: claim.interval.mean for claim in found.claims} == {
        "five_steps": pytest.approx(0.5 / 0.7 - 1),
        "twenty_frames": pytest.approx(0.5 / 0.7 - 1),
    }
    numbers = next(iter(values.values()))[1]
    longer = [replace(points[0], values=(str(h), str(k), "0.09")) for h, k in history_rollout.LENGTHS["paper"]]
    lengths: dict[str, Any] = dict(zip(of.results.arms, ((setting, numbers) for setting in longer), strict=False))
    claims = history_rollout.length_claims(of, lengths, HORIZONS)
    assert [(one.claim, one.where) for one in claims] == [
        ("five_steps", "approach ball, H = 20, K = 5"),
        ("twenty_frames", "approach ball, H = 20, K = 10"),
    ], "the paper's lengths differ in one thing at a time there"
    few = dict(list(lengths.items())[2:])
    assert history_rollout.length_claims(of, few, HORIZONS) == (), "K = 10 against 20 is not the claim"
    assert {claim.note for claim in found.claims} == {"weights 0.09 and 0.09, chosen of 3 on validation frames"}
    often = evidence(tmp_path / "often", points, made, seeds=3)
    judged, unjudged = (said(history_rollout, one).words[1] for one in (often, of))
    assert judged.startswith("H = 10, K = 10, weight 0.09 is significantly worse than H = 10, K = 5, weight 0.09")
    # one training decides nothing
    assert unjudged.startswith("H = 10, K = 10, weight 0.09 minus H = 10, K = 5, weight 0.09"), (
        "one training decides nothing"
    )
    assert judged.endswith("in 2.00 times the training time.")
    assert {row["peak memory (GiB)"] for row in ours(found)} == {"2.50", "3.75"}
    assert drawn(found) == [f"history_rollout_{x}" for x in ("probe", "errors20", "errors32", "memory", "seconds")]


def test_the_share_of_the_gap_that_conditioning_closes(tmp_path: Path) -> None:
    points = conditioning.settings("mini")
    errors = {"GRU": 0.2, "AdaLN, gate 0": 1.0, "AdaLN, gate 0.1": 0.6}
    made = {p.name: Made(flat(errors.get(p.values[0], 1.2))) for p in points}
    found = said(conditioning, evidence(tmp_path, points, made, seeds=3))
    words = " ".join(found.words)
    assert "GRU has the lowest excess NMSE over all horizons" in words
    assert "all others are significantly higher" in words
    assert "Transformer, AdaLN, gate 0.1, the best on these episodes, closes 50 % of the gap" in words
    by_law = [row for row in records(found, "conditioning_by_law") if row["predictor"] == "Transformer, AdaLN, gate 0.1"]
    assert [row["verdict"] for row in by_law] == ["worse"] * len(LAWS)
    once = said(conditioning, evidence(tmp_path / "once", points, made))
    assert "Transformer, AdaLN, gate 0 minus GRU" in once.words[1]
    assert {row["verdict"] for row in records(once, "conditioning_by_law")} == {""}
    millions = [float(row["parameters (M)"].split(" ")[0]) for row in ours(found)]
    assert max(millions[1:]) / min(millions[1:]) < 1.05, "the Transformers are of one size"


def test_coverage_tells_where_the_error_is_large_only_if_it_does(tmp_path: Path) -> None:
    labels = {"gru": "follows", "lewm": "reverse", "transformer": "nothing"}
    arms = [Training(recipe(f"approach_ball_{name}", "mini"), label=label) for name, label in labels.items()]
    made = {
        arms[0].name: Made(lambda law, h: (1 + (law - 4) ** 2) * h),
        arms[1].name: Made(lambda law, h: h / (1 + (law - 4) ** 2)),
        arms[2].name: Made(lambda law, h: 0.0 * law + h),  # the same under every law
    }
    of = evidence(tmp_path, arms, made, seeds=3)
    found = coverage.analyse(of)
    words = " ".join(found.words)
    assert f"follows: the error at h = {HORIZONS} is larger where L_law is" in words
    assert f"reverse: the error at h = {HORIZONS} is smaller where L_law is larger" in words
    assert f"nothing: the error at h = {HORIZONS} is not significantly related to L_law" in words
    one = of.results.coverage_correlation("follows", "nmse", HORIZONS)
    assert one.mean > 0.95
    assert one.count == len(LAWS)
    assert records(found, "coverage")


@pytest.mark.parametrize("right", [True, False])
def test_a_model_uses_the_law_if_the_true_one_errs_least(tmp_path: Path, right: bool) -> None:
    run = recipe("approach_ball_gru", "mini")
    of = evidence(tmp_path, [Training(run, label="SG-JEPA (GRU)")], {run.name: Made(flat(1.0))}, seeds=3)
    given = (0.0, 2.0, 4.0, 6.0, 8.0)
    least = {true: true if right else 8.0 for true in (2.0, 4.0, 6.0)}
    area = {
        (t, g): Interval(1 + abs(g - least[t]), 0.9 + abs(g - least[t]), 1.1 + abs(g - least[t]), 50)
        for t in least
        for g in given
    }
    rise = {
        (t, g): Interval(a.mean - area[t, t].mean, a.low - area[t, t].mean, a.high - area[t, t].mean, 50)
        for (t, g), a in area.items()
    }
    told = {g: {1: Interval(0.1, 0.1, 0.1, 50), 44: area[4.0, g]} for g in given}
    one = Counterfactual("SG-JEPA (GRU)", "gravity", 3, (1, 44), area, rise)
    found = counterfactual.answer(of, [one], 4.0, told)
    assert [claim.verdict for claim in found.claims] == ["holds" if right else "does not hold"]
    hidden = replace(one, rise=rise | {(2.0, 0.0): Interval(-0.2, -0.3, -0.1, 50), (4.0, 0.0): Interval(0, -0.5, 0.5, 50)})
    (claim,) = counterfactual.true_law_claims(of, [hidden])
    assert claim.verdict == "does not hold", "a told law that certainly wins is not hidden by one that is less sure"
    assert claim.measured == found.claims[0].measured, "the pair stands in the note"
    every = (
        "SG-JEPA (GRU): the error is significantly larger with 12 of 12 wrong laws than with the true one, and grows in "
        "12 of 12 steps away from it."
    )
    assert (found.words[0] == every) == right
    assert len(records(found, "counterfactual_rise")) == 15
    assert drawn(found) == ["counterfactual_101", "counterfactual_by_horizon"]


@pytest.mark.parametrize("module", OURS, ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("size", ["mini", "small", "paper"])
def test_every_point_has_a_name_and_a_label_of_its_own(module: Any, size: str) -> None:
    points = module.settings(size)
    assert len({p.name for p in points}) == len({p.label for p in points}) == len({p.values for p in points}) == len(points)
    assert len({replace(p.run, name="") for p in points}) == len(points), "no training is compared with itself"
    paper = published_study(module.EXPERIMENT.name)
    assert paper is not None
    assert all(len(p.values) == len(paper.settings) for p in points) or not paper.rows


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("size", ["mini", "paper"])
def test_every_arm_has_a_name_of_its_own_and_needed_arms_are_arms(name: str, size: str) -> None:
    experiment = EXPERIMENTS[name]
    names = [arm.name for arm in experiment.arms(size)]
    assert len(set(names)) == len(names)
    assert names or size == "paper"
    assert all(set(needed) <= set(names) for needed in experiment.needs(size))


def test_the_papers_grids_are_the_papers() -> None:
    assert [p.x for p in learning_rate.settings("paper")] == [1e-5, 3e-5, 5e-5, 1e-4, 2e-4, 5e-4]
    assert [p.x for p in sigreg.settings("paper")] == [0.09, 0.18, 0.36, 0.72, 1.44]
    assert {p.values for p in history_rollout.settings("paper")} == {
        (h, k, w) for h, k in (("20", "5"), ("20", "10"), ("30", "10"), ("30", "20")) for w in ("0.18", "0.36", "0.72")
    }
    assert {p.run.model.history for p in history_depth.settings("paper")} == {5, 10, 20, 30}
    assert all(p.run.data == ("arm_catcher_ball-paper",) for p in discount.settings("paper"))
    for module in (learning_rate, optimiser):
        assert {p.run.train.patience for p in module.settings("paper")} == {3}


def test_sweeps_train_once_and_claims_three_times() -> None:
    claimed = {claim.study for claim in CLAIMS.values()}
    for module in SWEEPS:
        if module.EXPERIMENT.name not in claimed:
            assert set(module.EXPERIMENT.seeds.values()) == {1}
    for name in claimed:
        study = EXPERIMENTS[name]
        assert (study.seeds["mini"], study.seeds["small"]) == (MIN_TRAININGS, MIN_TRAININGS)


def test_all_goes_through_every_study_but_the_one_that_chose_the_recipes() -> None:
    assert set(EXPERIMENTS) - set(ORDER) == {"hyperparameters", "hyperparameters_reacher", "hyperparameters_policy"}
    assert next(iter(ORDER)) == "factorial"
    assert list(ORDER)[-2:] == ["proprioception", "perception_error"]
    assert all(isinstance(experiment, Experiment) and experiment.name == name for name, experiment in EXPERIMENTS.items())


def test_the_error_with_each_told_law_is_read_back_by_horizon(tmp_path: Path) -> None:
    run = recipe("approach_ball_gru", "mini")
    of = evidence(tmp_path, [Training(run, label="SG-JEPA (GRU)")], {run.name: Made(flat(1.0))}, seeds=2)
    evaluated = of.results.evaluations("SG-JEPA (GRU)")
    horizon = np.arange(1, 45, dtype=np.int16)
    for one in evaluated:
        place = one.run / "counterfactual" / one.folder.name
        parts = []
        for given in (2.0, 4.0, 6.0):
            size, episode = 2 * len(horizon), np.repeat([0, 1], len(horizon))
            error = np.tile(horizon * (1 + abs(given - 4.0)), 2) + episode
            columns = {"law.true": np.full(size, 4.0), "law.given": np.full(size, given), "horizon": np.tile(horizon, 2)}
            parts.append(
                {"law": np.full(size, "gravity"), "episode": episode, **columns, "nmse": error, "position_l2": error}
            )
        settings = {"model": "model", "data": "data", "config": {"forecast": {}}}
        key = {"settings": settings, "laws": ["gravity"]}
        with artifact.artifact(place, key, CounterfactualRecord.made_by) as new:
            write_table(new.path / "counterfactual.parquet", join(parts))
    told = errors_by_given(evaluated, "gravity", 4.0, "position_l2")
    assert {given: by_horizon[20].mean for given, by_horizon in told.items()} == {2.0: 60.5, 4.0: 20.5, 6.0: 60.5}
    assert list(told[4.0]) == [1, 3, 5, 9, 20, 32, 44]
    (words,) = counterfactual.analyse(of).words
    assert words.startswith("SG-JEPA (GRU): the error is significantly larger with 2 of 2 wrong laws")


@pytest.mark.parametrize("module", OURS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_declaration_of_a_sweep_has_at_most_forty_lines(module: ModuleType) -> None:
    """Constants, settings, columns and the experiment itself, without docstrings; further analyses are not counted."""
    lines = 0
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef) and node.name in ("settings", "columns"):
            lines += (node.end_lineno or 0) - node.body[1].lineno + 2  # with the signature
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            lines += (node.end_lineno or 0) - node.lineno + 1
    assert lines <= 40
