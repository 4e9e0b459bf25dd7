"""What the sweeps say of results whose answer is known."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fixtures.synthetic import HORIZONS, LAWS, Made, done, flat

from sgjepa.core import artifact
from sgjepa.core.stats import Interval
from sgjepa.core.tables import join, write_table
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
from sgjepa.experiments.engine import Experiment
from sgjepa.experiments.sweep import Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.results.claims import CLAIMS, LEAST
from sgjepa.results.counterfactual import Counterfactual, told_by_horizon
from sgjepa.results.coverage import rank_with_coverage
from sgjepa.results.paper_numbers import published_study

SWEEPS = (learning_rate, optimiser, sigreg, history_depth, history_rollout, discount)
OURS = (*SWEEPS, conditioning)


def records(finding: Finding, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(finding.more[name])))


def labels(points: Sequence[Setting]) -> dict[str, str]:
    return {point.name: point.label for point in points}


def rows_of(finding: Finding, source: str = "ours") -> list[dict[str, str]]:
    return [dict(zip(finding.head, row, strict=True)) for row in finding.rows if row[0] == source]


def test_the_learning_rate_with_the_lowest_loss_need_not_have_the_best_probe(tmp_path: Path) -> None:
    points = learning_rate.points("mini")
    assert [point.x for point in points] == [2e-4, 6e-4, 1e-3, 2e-3, 4e-3, 1e-2]
    made = {p.name: Made(flat(0.5 if p.x == 1e-3 else 1.0), losses=(3.0, 3.0 - 100 * p.x)) for p in points}
    linear = {p.name: [abs(np.log(p.x / 1e-3))] for p in points}
    study = done(tmp_path, [p.run for p in points], made, labels(points))
    found = learning_rate.finding(study, linear)
    said = " ".join(found.words)
    assert "The lowest validation loss is that of rate 0.01: 2.000 (one training each)." in said
    assert "The lowest linear-probe NMSE is that of rate 0.001" in said
    assert "Loss and probe choose different rates." in said
    assert f"Rate 0.001 has the lowest position error at h = {HORIZONS}, 0.500 m; every other one is certainly worse" in said
    assert sweep.ONCE in found.words
    assert {picture.name for picture in found.pictures} == {f"learning_rate_{x}" for x in ("loss", "probes", "errors")}


def test_muon_is_below_adamw_where_its_losses_are(tmp_path: Path) -> None:
    points = optimiser.points("mini")
    made = {
        p.name: Made(flat(1.0), losses=(4.0, 3.0, 2.0) if p.run.optim.kind == "muon" else (2.5, 2.7, 2.9), sigreg=(1.0,) * 3)
        for p in points
    }
    one = optimiser.analyse(done(tmp_path, [p.run for p in points], made, labels(points)))
    for predictor in optimiser.PREDICTORS.values():
        said = (
            f"{predictor}: Muon reaches a validation loss of 2.000, AdamW 2.500 (\N{MINUS SIGN}20.0 %, one training each)."
        )
        assert said in one.words
    table = {(row["predictor"], row["optimiser"]): row for row in rows_of(one)}
    assert table["GRU", "Muon"]["at epoch"] == "3"
    assert table["GRU", "AdamW"]["at epoch"] == "1"
    paper = {(row["predictor"], row["optimiser"]): row for row in rows_of(one, "paper")}
    assert paper["SSM", "AdamW"]["best validation loss"] == "6.922"
    three = done(tmp_path / "three", [p.run for p in points[:2]], made, labels(points), seeds=3)
    said = optimiser.losses("GRU", *three.results.methods)
    assert said.endswith("(\N{MINUS SIGN}20.0 %, \N{MINUS SIGN}20.0 to \N{MINUS SIGN}20.0 over 3 trainings: certain).")
    assert sweep.once(three) == ()
    assert [(claim.claim, claim.verdict) for claim in one.claims] == [("muon", "not decided")] * 3, "one training each"
    (claim,) = optimiser.lower(three, "GRU", *three.results.methods)
    assert claim.verdict == "not decided", "three trainings that agree to the last digit have no interval"
    made = {name: replace(one, stray=0.02) for name, one in made.items()}
    stray = done(tmp_path / "stray", [p.run for p in points[:2]], made, labels(points), seeds=3)
    (claim,) = optimiser.lower(stray, "GRU", *stray.results.methods)
    assert (claim.verdict, claim.paper) == ("holds", "\N{MINUS SIGN}0.149 (square)")
    assert claim.ours.low < -0.2 < claim.ours.high


def test_the_rank_is_said_to_grow_with_the_weight_only_if_it_does(tmp_path: Path) -> None:
    points = sigreg.points("mini")
    assert [p.x for p in points] == [0.01, 0.02, 0.045, 0.09, 0.18]
    linear = {p.name: [p.x] for p in points}
    grows = {p.name: Made(flat(1.0), rank=1000 * p.x) for p in points}
    found = sigreg.finding(done(tmp_path, [p.run for p in points], grows, labels(points)), linear)
    assert found.words[0] == (
        "The effective rank is 10.0, 20.0, 45.0, 90.0 and 180.0 for the weights 0.01, 0.02, 0.045, 0.09 and 0.18, "
        "highest at 0.18 (one training each)."
    )
    peaks = {
        name: replace(one, rank=60.0 if name == points[2].name else 10.0 + i) for i, (name, one) in enumerate(grows.items())
    }
    study = done(tmp_path / "peak", [p.run for p in points], peaks, labels(points))
    said = sigreg.ranks(list(sweep.there(study, sigreg.points, ["mini"]).values()))
    assert "highest at 0.045 (one training each)" in said
    assert [claim.verdict for claim in found.claims] == ["not decided"], "one training each"
    by_law = records(found, sigreg.LAWS)
    assert len(by_law) == len(points) * len(LAWS) * 3
    assert {"sigreg_statistic", "sigreg_rank", "sigreg_probes"} <= {picture.name for picture in found.pictures}
    assert {row["effective rank"] for row in rows_of(found, "paper")} == {"138", "131"}


@pytest.mark.parametrize(
    ("ranks", "stray", "said", "verdict"),
    [
        ((10, 20, 30, 40, 50), 0.02, "it grows with the weight, by 9.", "holds"),
        ((50, 40, 30, 20, 10), 0.02, "it falls with the weight", "does not hold"),
        ((21, 18, 22, 17, 21), 0.1, "it neither grows nor falls for certain", "not decided"),
        ((10, 20, 30, 40, 35), 0.02, "and is highest at 0.09, certainly.", "holds"),
    ],
)
def test_the_rank_is_judged_by_what_a_doubling_adds_over_trainings(
    ranks: tuple[float, ...], stray: float, said: str, verdict: str, tmp_path: Path
) -> None:
    points = sigreg.points("mini")
    made = {p.name: Made(flat(1.0), rank=rank, stray=stray) for p, rank in zip(points, ranks, strict=True)}
    thrice = done(tmp_path, [p.run for p in points], made, labels(points), seeds=3)
    cells = list(sweep.there(thrice, sigreg.points, ["mini"]).values())
    assert said in sigreg.ranks(cells)
    (claim,) = sigreg.grows(thrice, cells)
    assert (claim.claim, claim.verdict, claim.seeds) == ("rank", verdict, 3)
    assert claim.ours.low < claim.ours.mean < claim.ours.high
    slope = np.polyfit(np.log2([p.x for p in points[:4]]), ranks[:4], 1)[0]
    assert abs(claim.ours.mean - slope) < 20 * stray, "up to the recipe's weight, 0.09"
    assert sigreg.grows(thrice, cells[:1]) == ()


@pytest.mark.parametrize(
    ("times", "stray", "verdict"),
    [(0.7, 0.02, "holds"), (1.02, 0.002, "holds"), (1.2, 0.02, "does not hold"), (1.02, 0.1, "not decided")],
)
def test_a_length_is_enough_if_the_longer_one_is_certainly_not_better_by_more_than_the_margin(
    times: float, stray: float, verdict: str, tmp_path: Path
) -> None:
    points = [p for p in history_rollout.points("mini") if p.values in {("10", "5", "0.09"), ("10", "10", "0.09")}]
    levels = {"5": times, "10": 1.0}
    made = {p.name: Made(flat(levels[p.values[1]]), stray=stray) for p in points}
    study = done(tmp_path, [p.run for p in points], made, labels(points), seeds=3)
    (claim,) = history_rollout.analyse(study).claims
    assert (claim.claim, claim.verdict) == ("five_steps", verdict)
    assert claim.note == "weights 0.09 and 0.09, not chosen for these lengths"


def test_the_lowest_of_several_trainings_is_named_with_those_that_cannot_be_told_apart() -> None:
    far, near, best = [3.0, 3.1, 2.9], [0.9, 1.3, 1.1], [1.0, 1.1, 0.9]
    said = sweep.lowest({"far": far, "near": near, "best": best}, "loss")
    assert said == "The lowest loss is that of best: 1.000; not to be told apart from it: near."
    assert sweep.lowest({"far": far, "best": best}, "loss").endswith("1.000; every other one is certainly higher.")
    assert (
        sweep.lowest({"far": [3.0], "best": [1.0]}, "loss") == "The lowest loss is that of best: 1.000 (one training each)."
    )
    assert sweep.lowest({"best": [1.0]}, "loss") == "The lowest loss is that of best: 1.000."


def test_a_discount_that_errs_least_is_named_with_those_that_cannot_be_told_apart(tmp_path: Path) -> None:
    points = discount.points("mini")
    made = {p.name: Made(flat(0.6 if p.x in (0.95, 1.0) else 0.8)) for p in points}
    found = discount.analyse(done(tmp_path, [p.run for p in points], made, labels(points)))
    nmse = next(words for words in found.words if "state NMSE" in words)
    assert nmse.startswith("Discount ")
    assert "not to be told apart from it: discount" in nmse
    assert "0.95" in nmse
    assert "discount 1 " in nmse or nmse.endswith("discount 1.")
    assert "0.98" not in nmse
    assert len(rows_of(found, "paper")) == 5


def test_history_and_depth_are_compared_at_one_horizon_with_true_latents_beside(tmp_path: Path) -> None:
    points = history_depth.points("mini")
    assert {p.values for p in points} == {(str(h), str(d)) for h in (3, 5, 10, 15) for d in (1, 2, 3)}
    made = {p.name: Made(flat(0.4 if p.values[0] == "10" else 1.0), floor=0.3 if p.x == 15 else 0.01) for p in points}
    found = history_depth.analyse(done(tmp_path, [p.run for p in points], made, labels(points)))
    assert found.words[0].startswith("H = 10, depth ")
    assert "At depth 2, H = 15, depth 2 is significantly worse than H = 10, depth 2: +0.5" in " ".join(found.words)
    table = {(row["H"], row["depth"]): row for row in rows_of(found)}
    assert table["15", "1"]["position error (m), true latents"].startswith("0.30")
    assert float(table["10", "1"]["position error (m)"].split(" ")[0]) == pytest.approx(0.4 * 32 / HORIZONS, abs=2e-3)


def test_the_probe_chooses_the_weight_and_the_cost_is_told(tmp_path: Path) -> None:
    points = history_rollout.points("mini")
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
    study = done(tmp_path, [p.run for p in points], made, labels(points))
    found = history_rollout.analyse(study)
    chosen = history_rollout.choices(list(sweep.there(study, history_rollout.points, history_rollout.SIZES).values()))
    assert {point.values for point, _ in chosen.values()} == {
        ("10", "5", "0.09"),
        ("10", "10", "0.09"),
        ("15", "5", "0.09"),
        ("15", "7", "0.09"),
    }
    assert {claim.claim: claim.ours.mean for claim in found.claims} == {
        "five_steps": pytest.approx(0.5 / 0.7 - 1),
        "twenty_frames": pytest.approx(0.5 / 0.7 - 1),
    }
    lengths = history_rollout.LENGTHS["paper"]
    point, method = chosen["10", "5"]
    longer = [(replace(point, values=(str(h), str(k), "0.09")), method) for h, k in lengths]
    claims = history_rollout.enough(longer, HORIZONS)
    assert [(one.claim, one.where) for one in claims] == [
        ("five_steps", "approach ball, H = 20, K = 5"),
        ("twenty_frames", "approach ball, H = 20, K = 10"),
    ], "the paper's lengths differ in one thing at a time there"
    assert history_rollout.enough(longer[2:], HORIZONS) == (), "K = 10 against 20 is not the claim"
    assert {claim.note for claim in found.claims} == {"weights 0.09 and 0.09, chosen of 3 on validation frames"}
    said = " ".join(found.words)
    assert "H = 10, K = 10, weight 0.09 is significantly worse than H = 10, K = 5, weight 0.09" in said
    assert "its training took 2.00 times as long" in said
    assert {row["peak memory (GiB)"] for row in rows_of(found)} == {"2.50", "3.75"}
    drawn = {picture.name for picture in found.pictures}
    assert drawn == {f"history_rollout_{x}" for x in ("probe", "errors", "memory", "seconds")}


def test_the_share_of_the_gap_that_conditioning_closes(tmp_path: Path) -> None:
    points = conditioning.points("mini")
    errors = {"GRU": 0.2, "AdaLN, gate 0": 1.0, "AdaLN, gate 0.1": 0.6}
    made = {p.name: Made(flat(errors.get(p.values[0], 1.2))) for p in points}
    found = conditioning.analyse(done(tmp_path, [p.run for p in points], made, labels(points), seeds=3))
    said = " ".join(found.words)
    assert "GRU has the lowest excess NMSE over all horizons" in said
    assert "every other one is certainly worse" in said
    assert "Transformer, AdaLN, gate 0.1, the best on these very episodes, closes 50 % of the gap between the usual" in said
    assert f"Transformer, AdaLN, gate 0.1 is certainly worse than the GRU at {len(LAWS)} of {len(LAWS)} gravities." in said
    millions = [float(row["parameters (M)"]) for row in rows_of(found)]
    assert max(millions[1:]) / min(millions[1:]) < 1.05, "the Transformers are of one size"


def test_coverage_tells_where_the_error_is_large_only_if_it_does(tmp_path: Path) -> None:
    recipes = [recipe(f"approach_ball_{name}", "mini") for name in ("gru", "lewm", "transformer")]
    labels = dict(zip((run.name for run in recipes), ("follows", "reverse", "nothing"), strict=True))
    made = {
        recipes[0].name: Made(lambda law, h: (1 + (law - 4) ** 2) * h),
        recipes[1].name: Made(lambda law, h: h / (1 + (law - 4) ** 2)),
        recipes[2].name: Made(lambda law, h: 0.0 * law + h),  # the same under every law
    }
    study = done(tmp_path, recipes, made, labels, seeds=3)
    found = coverage.analyse(study)
    said = " ".join(found.words)
    assert "follows: the error is larger where L_law is" in said
    assert "reverse: the error is smaller where L_law is larger" in said
    assert "nothing: L_law does not tell for certain" in said
    one = rank_with_coverage(study.results, study.results.methods[0], "nmse", HORIZONS)
    assert one.mean > 0.95
    assert one.count == len(LAWS)
    assert records(found, coverage.TABLE)


@pytest.mark.parametrize("right", [True, False])
def test_a_model_uses_the_law_if_the_true_one_errs_least(tmp_path: Path, right: bool) -> None:
    run = recipe("approach_ball_gru", "mini")
    study = done(tmp_path, [run], {run.name: Made(flat(1.0))}, {run.name: "SG-JEPA (GRU)"}, seeds=3)
    given = (0.0, 2.0, 4.0, 6.0, 8.0)
    best = {true: true if right else 8.0 for true in (2.0, 4.0, 6.0)}
    area = {
        (t, g): Interval(1 + abs(g - best[t]), 0.9 + abs(g - best[t]), 1.1 + abs(g - best[t]), 50)
        for t in best
        for g in given
    }
    rise = {
        (t, g): Interval(a.mean - area[t, t].mean, a.low - area[t, t].mean, a.high - area[t, t].mean, 50)
        for (t, g), a in area.items()
    }
    told = {g: {1: Interval(0.1, 0.1, 0.1, 50), 44: area[4.0, g]} for g in given}
    one = Counterfactual("SG-JEPA (GRU)", "gravity", 3, (1, 44), area, rise)
    found = counterfactual.finding(study, [one], 4.0, told)
    assert [claim.verdict for claim in found.claims] == ["holds" if right else "does not hold"]
    hidden = replace(one, rise=rise | {(2.0, 0.0): Interval(-0.2, -0.3, -0.1, 50), (4.0, 0.0): Interval(0, -0.5, 0.5, 50)})
    (claim,) = counterfactual.least(study, [hidden])
    assert claim.verdict == "does not hold", "a told law that certainly wins is not hidden by one that is less sure"
    assert claim.measured == found.claims[0].measured, "the pair stands in the note"
    every = "the error is significantly larger with 12 of 12 wrong values"
    assert (every in found.words[0]) == right
    steps = "SG-JEPA (GRU): of 12 steps of what is told away from the true law (2, 4 and 6), 12 make the mean error larger."
    assert (found.words[1] == steps) == right
    assert len(records(found, counterfactual.TABLE)) == 15
    lowest = "true law 4: the mean position error is lowest with the true law at {} of 2 horizons (h = 1 and 44)."
    assert found.words[2].endswith(lowest.format(1 if right else 0))
    assert {picture.name for picture in found.pictures} == {"counterfactual_101", "counterfactual_by_horizon"}


@pytest.mark.parametrize("module", OURS, ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("size", ["mini", "small", "paper"])
def test_every_point_has_a_name_and_a_label_of_its_own(module: object, size: str) -> None:
    points = module.points(size)
    assert len({p.name for p in points}) == len({p.label for p in points}) == len({p.values for p in points}) == len(points)
    assert len({replace(p.run, name="") for p in points}) == len(points), "no training is compared with itself"
    paper = published_study(module.EXPERIMENT.name)
    assert paper is not None
    assert all(len(p.values) == len(paper.settings) for p in points) or not paper.rows


def test_the_papers_grids_are_the_papers() -> None:
    assert [p.x for p in learning_rate.points("paper")] == [1e-5, 3e-5, 5e-5, 1e-4, 2e-4, 5e-4]
    assert [p.x for p in sigreg.points("paper")] == [0.09, 0.18, 0.36, 0.72, 1.44]
    assert {p.values for p in history_rollout.points("paper")} == {
        (h, k, w) for h, k in (("20", "5"), ("20", "10"), ("30", "10"), ("30", "20")) for w in ("0.18", "0.36", "0.72")
    }
    assert {p.run.model.history for p in history_depth.points("paper")} == {5, 10, 20, 30}
    assert all(p.run.data == ("arm_catcher_ball-paper",) for p in discount.points("paper"))
    for module in (learning_rate, optimiser):
        assert {p.run.train.patience for p in module.points("paper")} == {3}


def test_sweeps_train_once_and_claims_three_times() -> None:
    claimed = {claim.study for claim in CLAIMS.values()}
    for module in SWEEPS:
        if module.EXPERIMENT.name not in claimed:
            assert set(module.EXPERIMENT.seeds.values()) == {1}
    for name in claimed:
        study = EXPERIMENTS[name]
        assert (study.seeds["mini"], study.seeds["small"]) == (LEAST, LEAST)


def test_all_goes_through_every_study_but_the_one_that_chose_the_recipes() -> None:
    assert set(EXPERIMENTS) - set(ORDER) == {"hyperparameters", "hyperparameters_reacher", "hyperparameters_policy"}
    assert next(iter(ORDER)) == "factorial"
    assert list(ORDER)[-2:] == ["proprioception", "perception_error"]
    assert all(isinstance(experiment, Experiment) and experiment.name == name for name, experiment in EXPERIMENTS.items())


def test_the_error_with_each_told_law_is_read_back_by_horizon(tmp_path: Path) -> None:
    run = recipe("approach_ball_gru", "mini")
    study = done(tmp_path, [run], {run.name: Made(flat(1.0))}, {run.name: "SG-JEPA (GRU)"}, seeds=2)
    horizon = np.arange(1, 45, dtype=np.int16)
    for one in study.results.methods[0].seeds:
        place = one.run / "counterfactual" / one.folder.name
        place.mkdir(parents=True)
        parts = []
        for given in (2.0, 4.0, 6.0):
            size, episode = 2 * len(horizon), np.repeat([0, 1], len(horizon))
            error = np.tile(horizon * (1 + abs(given - 4.0)), 2) + episode
            columns = {"law.true": np.full(size, 4.0), "law.given": np.full(size, given), "horizon": np.tile(horizon, 2)}
            parts.append(
                {"law": np.full(size, "gravity"), "episode": episode, **columns, "nmse": error, "position_l2": error}
            )
        write_table(place / "counterfactual.parquet", join(parts))
        artifact.write_json(place / "artifact.json", {"settings": {"model": "model", "data": "data"}})
    told = told_by_horizon(study.results.methods[0], "gravity", 4.0, "position_l2")
    assert {given: by_horizon[20].mean for given, by_horizon in told.items()} == {2.0: 60.5, 4.0: 20.5, 6.0: 60.5}
    assert list(told[4.0]) == [1, 3, 5, 9, 20, 32, 44]
    said = counterfactual.analyse(study).words
    assert any("lowest with the true law at 7 of 7 horizons" in words for words in said)
    assert said[0].startswith("SG-JEPA (GRU): the error is significantly larger with 2 of 2 wrong values")
