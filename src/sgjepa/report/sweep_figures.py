"""The figures of studies: a measurement against a setting, by horizon, and errors by law for each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator

from sgjepa.core.methods import styles
from sgjepa.core.plotting import INK, line
from sgjepa.core.stats import Interval
from sgjepa.data.probe_targets import METRICS
from sgjepa.report.law_figures import name_of, shade
from sgjepa.report.panels import Picture, axis_name, capital, legend, panel
from sgjepa.results.compare import Method
from sgjepa.results.gather import Axis

PAPER = "paper: "
_ASIDE = 0.12  # between curves that stand side by side
Curve = Sequence[tuple[float, Interval]]  # a setting's value and what was measured there


def alone(value: float) -> Interval:
    """A number without an interval."""
    return Interval(value, np.nan, np.nan, 0)


def against_setting(
    name: str,
    title: str,
    setting: str,
    measured: str,
    curves: Mapping[str, Curve],
    log: bool = False,
    names: Mapping[float, str] | None = None,
) -> list[Picture]:
    """Lines over the values of a setting, with intervals as whiskers; a curve without values is left out.

    names: of values that stand for something else, and have no line between them; curves then stand side by side.
    A curve called after another one, with PAPER before it, is the paper's: numbers alone, hollow.
    """
    found: list[Picture] = []
    there = {label: sorted(curve) for label, curve in curves.items() if curve}
    if not there:
        return found
    look = styles([label for label in there if not label.startswith(PAPER)])
    joined: dict[str, Any] = {"linewidth": 2} if names is None else {"linestyle": "none"}
    with panel(found, name, f"{measured} against {setting}: {', '.join(there)}") as axis:
        for number, (label, curve) in enumerate(there.items()):
            aside = 0.0 if names is None else _ASIDE * (number - (len(there) - 1) / 2)
            x, mean = np.array([value + aside for value, _ in curve]), np.array([one.mean for _, one in curve])
            ends = [[one.mean - one.low for _, one in curve], [one.high - one.mean for _, one in curve]]
            colour, marker = look[label.removeprefix(PAPER)]
            fill = "none" if label.startswith(PAPER) else "full"
            how = {"color": colour, "marker": marker, "fillstyle": fill, "capsize": 3, "label": label, **joined}
            axis.errorbar(x, mean, np.maximum(ends, 0), **how)
        values = sorted({value for curve in there.values() for value, _ in curve})
        if log:
            axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(values))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticks(values, [(names or {}).get(value, f"{value:g}") for value in values])
        axis.set(title=capital(title), xlabel=setting, ylabel=measured)
        if names is not None:
            axis.set_xlim(values[0] - 0.5, values[-1] + 0.5)
        if len(there) > 1:
            legend(axis)
    return found


def by_horizon(
    name: str, title: str, measured: str, curves: Mapping[str, Sequence[Interval]], ticks: Sequence[int], top: float = np.nan
) -> list[Picture]:
    """Lines over the horizons, 1 first, with intervals as bands; where some lie below zero, a line marks it.

    top: of the axis, for pictures that are compared.
    """
    found: list[Picture] = []
    look = styles(list(curves))
    with panel(found, name, f"{measured} by horizon: {', '.join(curves)}") as axis:
        for label, curve in curves.items():
            line(axis, np.arange(1, len(curve) + 1), curve, look[label][0], label, look[label][1], max(1, len(curve) // 8))
        if min(one.low for curve in curves.values() for one in curve) < 0:
            axis.axhline(0, color=INK, linewidth=0.8)
        else:
            axis.set_ylim(0, None if np.isnan(top) else 1.04 * top)
        axis.set(title=capital(title), xlabel="horizon h (steps)", ylabel=measured, xlim=(1, max(ticks)))
        axis.set_xticks(ticks)
        if len(curves) > 1:
            legend(axis)
    return found


def by_law(methods: Sequence[Method], metric: str, horizon: int, law: Axis) -> list[Picture]:
    """A method's error for each value of a law at one horizon; the training laws are shaded."""
    found: list[Picture] = []
    look = styles([method.label for method in methods])
    curves = [list(method.by_law(metric, horizon, [law.name]).values()) for method in methods]
    top = 1.06 * max(one.high for curve in curves for one in curve)
    values = np.array(law.values)
    with panel(found, f"{metric}_by_{law.name}_h{horizon}", f"{axis_name(metric)} at h = {horizon} by {law.name}") as axis:
        shade(axis, law, values[0], values[-1], top)
        for method, curve in zip(methods, curves, strict=True):
            line(axis, values, curve, look[method.label][0], method.label, look[method.label][1], 2)
        axis.set(title=f"{capital(METRICS[metric])} at h = {horizon}", xlabel=name_of(law), ylabel=axis_name(metric))
        axis.set(ylim=(0, top), xlim=(values[0], values[-1]))
        legend(axis)
    return found
