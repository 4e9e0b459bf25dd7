"""The counterfactual figure as a list, until experiments call report/figures.py themselves."""

from __future__ import annotations

from sgjepa.report import figures
from sgjepa.report.blocks import Figure
from sgjepa.results.counterfactual import Counterfactual
from sgjepa.results.table import Axis


def counterfactual(law: Axis, one: Counterfactual, number: int) -> list[Figure]:
    """One figure."""
    curves = {true: [(given, one.area[true, given]) for given in one.given(true)] for true in one.true}
    return [figures.counterfactual(f"counterfactual_{number}", one.label, law, curves)]
