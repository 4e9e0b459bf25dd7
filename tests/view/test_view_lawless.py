"""The viewer in a world without a law: nothing to move, all else is there."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fixtures.browser import Browser
from fixtures.datasets import small
from fixtures.runs import RUN
from fixtures.viewer import READY, needs_browser, running

from sgjepa import cli
from sgjepa.data.collect import collect
from sgjepa.data.store import open_dataset
from sgjepa.evaluation.probes import ProbeConfig, fit_probe
from sgjepa.training.world_model import train
from sgjepa.view.request import Request
from sgjepa.view.viewer import open_viewer

pytestmark = [
    pytest.mark.opengl,
    pytest.mark.skipif(importlib.util.find_spec("dm_control") is None, reason="reacher needs the extra `conventional`"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run of Reacher, with a decoder and a probe."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("lawless")
    settings = small("reacher")
    few = replace(settings, train=replace(settings.train, episodes=6), test=replace(settings.test, episodes=1))
    data = collect(few, place / "datasets" / "reacher", workers=1)
    model = replace(RUN.model, controls=10, laws=0)
    updates = replace(RUN.train, epochs=1, updates=2, decoder=True, decoder_width=16)
    made = replace(RUN, name="reacher_gru", data=("reacher",), model=model, train=updates)
    folder = train(made, place / "reacher_gru-tiny", data.parent)
    fit_probe(folder, open_dataset(data), ProbeConfig(window=4, hidden=(16,), epochs=1, windows=100))
    return folder


def test_simulation_and_rollout_have_a_ring_and_nothing_is_explained(run: Path) -> None:
    viewer = open_viewer([run])
    (scene,) = viewer.about()["scenes"]
    assert scene["laws"] == []
    heads = [m.header for m in viewer.answer(Request(1, "reacher", 3, {}, {}, (run.name,))) if m]
    assert [head["kind"] for head in heads] == ["simulation", "rollout", "answered", "finished"]
    assert len(heads[0]["outline"]) == 64
    assert len(heads[1]["outline"]) == 64 - scene["models"][0]["context"]
    assert {"position_l2", "latent_mse"} <= set(heads[1]["errors"])
    viewer.close()


@needs_browser
def test_the_page_has_a_launch_and_no_law(run: Path, tmp_path: Path) -> None:
    with running([run], tmp_path) as (_, port), Browser() as chromium:
        for width in (1280, 390):
            tab = chromium.open(f"http://127.0.0.1:{port}/", width, 844)
            tab.wait(READY, 60)
            assert tab.run("document.querySelector('h1').textContent") == "Compare the rollouts with the simulation"
            assert tab.run(
                "document.querySelector('.laws').hidden && document.querySelector('#law-fit').offsetParent === null"
            )
            assert tab.run("document.querySelector('#error-curve path') !== null")
            assert tab.run("document.querySelector('.panel:nth-child(2) .note').textContent") == "no law varies here"
            tab.run("scrub.value = 40, scrub.dispatchEvent(new Event('input'))")
            assert tab.run("document.querySelectorAll('.panel:nth-child(2) polygon:not([points=\"\"])').length") == 2
            picture = "document.querySelector('.panel:nth-child(1) canvas').toDataURL()"
            before = tab.run(picture)
            tab.key("t")  # there is no law to give
            tab.key("n")
            tab.wait(f"{READY} && {picture} !== {before!r}", 60)
            assert tab.run("document.querySelector('#seed').value") == "1"
            assert tab.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            assert tab.complaints == []
            tab.close()


@needs_browser
def test_its_export_opens_from_a_file(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["view", str(run), "--export", str(tmp_path / "out"), "--seeds", "2"]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert len(re.findall(r"webp", " ".join(path.name for path in (page.parent / "frames").iterdir()))) == 4
    with Browser() as chromium:
        tab = chromium.open(page.as_uri())
        tab.wait(READY)
        assert tab.complaints == []
        tab.close()
