"""The Python in the documents runs, and whatever it defines is called on real small things.

README's runs in test_readme.py, the notebook's in test_notebook.py.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from fixtures import synthetic
from fixtures.runs import RUN

import sgjepa
from sgjepa import laws, zoo
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS
from sgjepa.experiments.engine import Experiment
from sgjepa.laws import in_distribution
from sgjepa.results.evaluations import load_evaluations
from sgjepa.training.world_model import train

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if _BLOCK.search(page.read_text())]


@dataclass(frozen=True)
class Real:
    """Small real things to call the documents' functions on. folder: the page's own, empty but for datasets/square-mini."""

    folder: Path
    finished: Path  # a dataset of the square
    runs: tuple[Path, Path]  # SG-JEPA and LeWM of a few updates, evaluated on it

    def lawless(self) -> Path:
        """A run of one epoch on recordings without a law."""
        split = open_dataset(self.finished).train
        frames, first = split.pixels(np.arange(10)), np.arange(10)
        place = self.folder / "datasets" / "lawless"
        sgjepa.Dataset.from_arrays(place, frames, split.control[first], split.state[first], world="square")
        run = replace(
            RUN, data=("lawless",), model=replace(RUN.model, laws=0), train=replace(RUN.train, epochs=1, frames=64)
        )
        return train(run, self.folder / "runs" / "lawless", self.folder / "datasets")


@pytest.fixture(scope="module")
def runs(evaluated_runs: list[Path]) -> tuple[Path, Path]:
    """An SG-JEPA and a LeWM."""
    return evaluated_runs[0], evaluated_runs[2]


# --- what is called once a page was read: its names, and real things ----------------------------------------------------


def _evaluate(names: dict[str, Any], real: Real) -> None:
    sg_jepa, lewm = real.runs
    first, second = (load_evaluations(run, "square-test")[0] for run in real.runs)
    errors = [one.values("position_l2")[(~in_distribution(one.samplers, one.law)), -1].mean() for one in (first, second)]
    assert names["closer"](sg_jepa, lewm) == pytest.approx(errors[1] - errors[0])
    assert names["closer"](lewm, sg_jepa) == pytest.approx(errors[0] - errors[1])
    imagined, true = names["where"](sg_jepa, 7)
    assert imagined.shape == true.shape == (44, 2)
    assert np.allclose(true, open_dataset(real.finished).test.state[7, 20:, :2], atol=1e-5)
    assert not np.allclose(imagined, true, atol=1e-2)


def _control(names: dict[str, Any], real: Real) -> None:
    seen = np.zeros((2, 64, 64, 3), np.uint8)
    controls = names["first_controls"](
        zoo.folder_of("arm_catcher_policy"), {"frame": seen}, np.full((2, 1), 9.8, np.float32)
    )
    assert controls.shape[0] == 2
    assert np.isfinite(controls).all()


def _planning(names: dict[str, Any], real: Real) -> None:
    frames = torch.zeros(2, 32, 32, 3, dtype=torch.uint8)
    plans = torch.randn(2, 5, 3, 2, generator=torch.Generator().manual_seed(0))
    costs = names["costs"](real.lawless(), frames, frames + 200, plans)
    assert costs.shape == (2, 5)
    assert (costs > 0).all()
    assert costs[0].std() > 0, "plans that differ cost the same"


def _studies(names: dict[str, Any], real: Real) -> None:
    study = names["EXPERIMENT"]
    assert isinstance(study, Experiment)
    arms = study.arms("mini")
    made = {arm.name: synthetic.Made(synthetic.flat(error)) for arm, error in zip(arms, (3.0, 1.0, 2.0), strict=True)}
    answer = study.analyse(synthetic.evidence(real.folder, arms, made))
    assert answer.words == ["square_gru_k5 errs least."]


def _add_a_model(names: dict[str, Any], real: Real) -> None:
    data = open_dataset(real.finished)
    model = names["ColoursConfig"](controls=2, laws=1).build()
    assert model.encoder_settings is None
    assert sgjepa.evaluate(model, data, probe="linear", history=10).metrics


def _add_an_environment(names: dict[str, Any], real: Real) -> None:
    env = names["Drop"]()
    env.reset(seed=0, options={"state": {"z": 1.5, "vz": -1.0}})
    assert env.state().tolist() == [1.5, -1.0]


CALLS: dict[str, Callable[[dict[str, Any], Real], None]] = {
    "evaluate.md": _evaluate,
    "control.md": _control,
    "planning.md": _planning,
    "studies.md": _studies,
    "add_a_model.md": _add_a_model,
    "add_an_environment.md": _add_an_environment,
}


@pytest.mark.opengl
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_document_runs_and_all_that_it_defines_is_called(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Path, runs: tuple[Path, Path]
) -> None:
    """BenchmarkEnv of one document share their names, as in a reader's session, and inherit no `__future__` from here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "square-mini").symlink_to(finished)
    names: dict[str, Any] = {"__name__": "document"}
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == str(page):
            called.add(frame.f_code)

    defined = []
    sys.setprofile(note)
    try:
        with mock.patch.dict(laws.LAWS), mock.patch.dict(ENVS):  # what a reader adds is not there for other tests
            for block in _BLOCK.findall(page.read_text()):
                code = compile(block, str(page), "exec", dont_inherit=True)
                functions = {node.name for node in ast.walk(ast.parse(block)) if isinstance(node, ast.FunctionDef)}
                defined += within(code, functions)
                exec(code, names)
            if page.name in CALLS:
                CALLS[page.name](names, Real(tmp_path, finished, runs))
    finally:
        sys.setprofile(None)
    assert [code.co_qualname for code in defined if code not in called] == [], "defined on the page, and never called"


def within(code: CodeType, names: set[str]) -> list[CodeType]:
    """The code of the functions of those names, methods too, at any depth."""
    found = []
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found += [inner] * (inner.co_name in names) + within(inner, names)
    return found
