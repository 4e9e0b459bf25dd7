"""A study over several worlds: a page for each, and one over all that says where there is room to show something."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.datasets import small
from fixtures.tiny import tiny

from sgjepa.data.collect import collect
from sgjepa.experiments import predictors
from sgjepa.experiments.engine import Request

WORLDS = ("square", "approach_ball")


def read(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.opengl
@pytest.mark.slow
def test_the_room_is_between_staying_put_and_the_simulator(tmp_path: Path) -> None:
    for world in WORLDS:
        settings = small(world, image_size=64)
        few = replace(settings, train=replace(settings.train, episodes=12), test=replace(settings.test, episodes=13))
        collect(few, tmp_path / "datasets" / f"{world}-mini", workers=1)
    names = [f"{world}_{method}" for world in WORLDS for method in ("gru", "lewm")]
    cells = [cell for cell in predictors.arms("mini") if cell.run.name in names]
    assert sorted(cell.run.name for cell in cells) == sorted(names)
    study = tiny(replace(predictors.EXPERIMENT, arms=lambda _: cells))
    page = study.run(Request("mini", tmp_path / "out", tmp_path / "datasets", seeds=1, updates=1, runs=tmp_path / "runs"))
    for world in WORLDS:
        own = tmp_path / "out" / f"report-{world}" / "index.html"
        assert own.is_file()
        assert f'href="../{own.parent.name}/index.html"' in page.read_text()
    shown = {"horizon": "44", "metric": "position_l2", "region": "all"}
    records = [r for r in read(page.parent / "tables/worlds.csv") if shown.items() <= r.items()]
    errors = {(r["world"], r["method"], r["source"]): float(r["mean"]) for r in records}
    rows = {row["world"]: row for row in read(page.parent / "tables/finding.csv")}
    for world in WORLDS:
        row = rows[world.replace("_", " ")]
        stay, simulator = (errors[world, "SG-JEPA (GRU)", source] for source in ("stay", "simulator"))
        assert float(row["room"].split(" ")[0]) == pytest.approx(100 * (1 - simulator / stay), abs=0.6)
        assert float(row["stays put (m)"]) == pytest.approx(stay, abs=1e-3)
        ratio = errors[world, "SG-JEPA (GRU)", "predicted"] / errors[world, "LeWM", "predicted"]
        assert float(row["SG-JEPA (GRU) / LeWM"].split(" ")[0]) == pytest.approx(ratio, abs=0.006)
    assert (page.parent / "figures/predictors_worlds.png").is_file()
    answer = (page.parent / "answer.txt").read_text()
    assert answer.startswith("There is room for a difference at the last horizon in ")
    alone = tiny(replace(study, arms=lambda _: [cell for cell in cells if cell.run.name == names[1]]))
    page = alone.run(Request("mini", tmp_path / "alone", tmp_path / "datasets", seeds=1, updates=1, runs=tmp_path / "runs"))
    (row,) = read(page.parent / "tables/finding.csv")
    assert row["LeWM (m)"], "a world without SG-JEPA is told about too"
    assert row["SG-JEPA (GRU) / LeWM"] == ""
