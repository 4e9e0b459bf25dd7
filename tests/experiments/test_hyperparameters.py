"""The grid that chooses the mini settings leaves no method weak: the same settings are tried for all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from sgjepa.experiments import hyperparameters_reacher
from sgjepa.experiments.hyperparameters import EXPERIMENT, GRID, WEIGHTS, Choice
from sgjepa.recipes.training import TUNED, recipe


def test_sg_jepa_and_lewm_are_tried_with_the_same_settings() -> None:
    tried = {method: {(c.weight, c.residual, c.dropout) for c in GRID if c.method == method} for method in ("gru", "lewm")}
    assert tried["gru"] == tried["lewm"] == set(product(WEIGHTS, (False, True), (0.1, 0.0)))
    assert len(WEIGHTS) >= 5
    assert max(Counter(GRID).values()) == 1
    assert EXPERIMENT.split == "validation", "test episodes choose nothing"


def test_a_planner_has_a_grid_in_its_own_world() -> None:
    runs = [arm.run for arm in hyperparameters_reacher.EXPERIMENT.arms("mini")]
    assert {run.data for run in runs} == {("reacher-mini",)}
    assert {(run.loss.sigreg, run.model.residual) for run in runs} == set(product(WEIGHTS, (False, True)))
    assert hyperparameters_reacher.EXPERIMENT.split == "validation"


@pytest.mark.parametrize("choice", GRID, ids=lambda choice: choice.name("x"))
def test_a_choice_changes_nothing_else(choice: Choice) -> None:
    plain, run = recipe(f"approach_ball_{choice.method}", "mini"), choice.run("mini")
    assert run.model.residual == choice.residual
    dropped = run.model.dropout if choice.method == "dino" else run.model.predictor.dropout
    assert (dropped, run.loss.sigreg) == (choice.dropout, choice.weight)
    assert replace(run, name=plain.name, model=plain.model, loss=plain.loss) == plain


@pytest.mark.parametrize(("size", "family"), [(size, family) for size in TUNED for family in TUNED[size]])
def test_what_the_recipes_take_is_on_the_grid(size: str, family: str) -> None:
    chosen = TUNED[size][family]
    method = {"sg_jepa": "gru"}.get(family, family)
    assert Choice(method, chosen.sigreg, chosen.residual, chosen.dropout) in GRID
