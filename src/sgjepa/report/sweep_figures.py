"""The figures of studies, as lists: until the experiments call report/figures.py themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval
from sgjepa.evaluation.metrics import METRICS
from sgjepa.report import figures
from sgjepa.report.figures import PAPER as PAPER
from sgjepa.report.figures import alone as alone
from sgjepa.report.panels import Picture, axis_name
from sgjepa.results.compare import Method
from sgjepa.results.gather import Axis

Curve = Sequence[tuple[float, Interval]]


def against_setting(*settings: Any, **more: Any) -> list[Picture]:
    """No picture where no curve has a point."""
    drawn = figures.against_setting(*settings, **more)
    return [drawn] if drawn else []


def by_horizon(
    name: str, title: str, measured: str, curves: Mapping[str, Sequence[Interval]], ticks: Sequence[int], top: float = np.nan
) -> list[Picture]:
    """A line for each curve."""
    low, high = figures.limits(*curves.values())
    return [figures.by_horizon(name, title, measured, curves, ticks, scale=(low, high if np.isnan(top) else 1.04 * top))]


def by_law(methods: Sequence[Method], metric: str, horizon: int, law: Axis) -> list[Picture]:
    """A method's error for each value of a law at one horizon."""
    curves = {method.label: list(method.by_law(metric, horizon, [law.name]).values()) for method in methods}
    title = f"{METRICS[metric].label} at h = {horizon}"
    return [figures.by_law(f"{metric}_by_{law.name}_h{horizon}", title, axis_name(metric), law, curves)]
