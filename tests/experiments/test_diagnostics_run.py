"""The diagnostics from data to page at a tiny size: every cell is trained, frozen, warm-started and judged as it should be.

They are put to the square, whose pictures need no OpenGL, and share their trainings as `sgjepa study` does.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.tiny import tiny_run
from safetensors.numpy import load_file

from sgjepa.core import files
from sgjepa.core.run_folder import MODEL
from sgjepa.data.collect import collect
from sgjepa.data.config import DatasetConfig, Part
from sgjepa.experiments import crossover, history, local_gap, post_training, shapes
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment, Request, jobs_of
from sgjepa.experiments.frozen_encoder import name_of
from sgjepa.laws import Grid
from sgjepa.models.encoders.vit import ViT
from sgjepa.recipes.datasets import dataset, datasets_named
from sgjepa.results.claims import CLAIMS, read_claims
from sgjepa.training import checkpoint

SHAPES = ("square", "right_triangle", "pentagon", "house")


LAWS = {"gravity": Grid((1.0, 3.0, 4.0, 5.0, 7.0))}  # near and far, and none that post-training is given


def tiny(settings: DatasetConfig) -> DatasetConfig:
    return replace(
        settings, image_size=32, train=replace(settings.train, episodes=12), test=Part(len(LAWS["gravity"].values), LAWS)
    )


def shrunk(cell: Training) -> Training:
    """The same question to a tiny encoder, in batches of two."""
    run, seen = cell.run, ViT(width=16, depth=1, heads=2, patch=8, image_size=32)
    own = run.model.foreign_encoder is None
    model = replace(run.model, encoder=seen.wider() if run.name.endswith("small") else seen) if own else run.model
    return replace(cell, run=tiny_run(replace(run, model=model)))


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("datasets")
    for world in SHAPES:
        collect(tiny(dataset(world, "mini")), folder / f"{world}-mini", workers=1)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(autouse=True)
def _of_the_square(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORLDS, "mini", "square")


def answered(study: Experiment, out: Path, datasets: Path, runs: Path) -> Path:
    """Its report's folder, with one update of each training of a tiny model."""
    shortened = replace(study, probe="linear", arms=lambda size: [shrunk(cell) for cell in study.arms(size)])
    page = shortened.run(Request("mini", out, datasets, seeds=1, updates=1, workers=1, runs=runs))
    text = page.read_text()
    for name in {row.claim for record in read_claims([out]) for row in record.rows}:
        assert CLAIMS[name].statement.replace("'", "&#x27;") in text
    return page.parent


def folder_of(report: Path, runs: Path, cell: str) -> Path:
    about = files.read_json(report / "study.json")
    return runs / about["runs"][list(about["arms"]).index(cell)]


def table(report: Path, name: str) -> list[dict[str, str]]:
    with (report / name).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow  # its arms are built and its answer is computed by faster tests
def test_the_crossover_fits_fresh_predictors_to_frozen_encoders(datasets: Path, runs: Path, tmp_path: Path) -> None:
    report = answered(crossover.EXPERIMENT, tmp_path, datasets, runs)
    for predictor, source in crossover.PAIRS:
        fresh, leader = (
            load_file(folder_of(report, runs, name) / MODEL)
            for name in (name_of("square", predictor, source), f"square_{source}")
        )
        frozen = [key for key in fresh if key.startswith(("encoder.", "projector."))]
        assert frozen
        assert all((fresh[key] == leader[key]).all() for key in frozen)
    assert len(table(report, "tables/crossover.csv")) == (2 + 4 + 5) * 5
    (record,) = read_claims([tmp_path])
    assert record.command == "sgjepa study crossover --size mini --seeds 1 --updates 1"
    assert [(row.claim, row.verdict) for row in record.rows] == [("encoder", "not decided")] * 2, "one training each"


@pytest.mark.slow
def test_a_short_history_shares_the_whole_one_with_the_crossover(
    datasets: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SHORT", (4,))
    report = answered(history.EXPERIMENT, tmp_path, datasets, runs)
    cells = [shrunk(cell) for cell in crossover.arms("mini")]
    shared = jobs_of(crossover.EXPERIMENT, cells, Request("mini", runs, datasets, updates=1, runs=runs), seeds=1)
    assert {chain.folder.name for chain in shared} < set(files.read_json(report / "study.json")["runs"])
    run, _ = checkpoint.load_run(folder_of(report, runs, "square_transformer_on_gru_m4"))
    assert (run.history, run.train.skip) == (4, 6)
    assert {row["visible"] for row in table(report, "tables/history.csv")} == {"4"}


@pytest.mark.slow
def test_local_gap_compares_one_predictor_on_three_kinds_of_features(datasets: Path, runs: Path, tmp_path: Path) -> None:
    report = answered(local_gap.EXPERIMENT, tmp_path, datasets, runs)
    rows = table(report, "tables/local_gap.csv")
    assert {(row["features"], row["error"]) for row in rows} == {
        (features, error) for features in ("LeWM", "MobileNetV2") for error in ("local", "fed back")
    }
    first = [row for row in rows if row["horizon"] == "1" and row["features"] == "LeWM"]
    assert first[0]["mean"] == pytest.approx(first[1]["mean"]), "nothing is fed back before the first prediction"
    models = {
        name: checkpoint.load_run(folder_of(report, runs, name))[1] for name in ("square_gru_on_lewm", "square_dino_gru")
    }
    cores = [{key: value.shape for key, value in model.predictor.layers.state_dict().items()} for model in models.values()]
    assert cores[0] == cores[1], "layers of one size"
    assert (models["square_dino_gru"].latent_std != 1).all(), "fitted to the training episodes"


@pytest.mark.slow
def test_shapes_are_evaluated_on_the_house(datasets: Path, runs: Path, tmp_path: Path) -> None:
    report = answered(shapes.EXPERIMENT, tmp_path, datasets, runs)
    about = files.read_json(report / "study.json")
    assert len(about["runs"]) == 6
    for name in about["runs"]:
        assert [path.name.startswith("house-mini-test") for path in (runs / name / "evaluations").iterdir()] == [True]
    run, _ = checkpoint.load_run(folder_of(report, runs, "triangle_square_gru"))
    assert run.data == ("right_triangle-mini", "square-mini")
    rows = table(report, "tables/shapes.csv")
    assert len(rows) == 6 * 3 * len({row["h"] for row in rows})


@pytest.mark.slow
def test_post_training_starts_warm_and_is_evaluated_on_the_source(datasets: Path, runs: Path, tmp_path: Path) -> None:
    own = {name: tiny(settings) for name, settings in post_training.datasets("mini").items()}
    assert all(datasets_named([name]) is None for name in own), "not the name of a recipe"
    report = answered(replace(post_training.EXPERIMENT, datasets=lambda _: own), tmp_path, datasets, runs)
    run, model = checkpoint.load_run(folder_of(report, runs, "square_gru_mixed"))
    leader = folder_of(report, runs, "square_gru")
    assert (run.data, Path(run.init)) == (("square-sparse-mini", "square-replay-mini"), leader)
    _, before = checkpoint.load_run(leader)
    assert (model.law_mean == before.law_mean).all(), "it keeps the statistics it knows"
    assert {row["arm"] for row in table(report, "tables/post_training.csv")} == {"target", "mixed"}
    for name in files.read_json(report / "study.json")["runs"]:
        assert all(path.name.startswith("square-mini-test") for path in (runs / name / "evaluations").iterdir())
