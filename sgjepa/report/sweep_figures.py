"""The figures of sweeps: a measurement against a setting, and errors by law for each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator

from sgjepa.core.stats import Interval
from sgjepa.report.colours import styles
from sgjepa.report.law_figures import name_of, shade
from sgjepa.report.panels import Picture, axis_name, capital, legend, line, panel
from sgjepa.results.compare import Method
from sgjepa.results.gather import METRICS, Axis

Curve = Sequence[tuple[float, Interval]]  # a setting's value and what was measured there


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

    names: of values that stand for something else, and have no line between them.
    """
    found: list[Picture] = []
    there = {label: sorted(curve) for label, curve in curves.items() if curve}
    if not there:
        return found
    look = styles(list(there))
    joined = {"linewidth": 2} if names is None else {"linestyle": "none"}
    with panel(found, name, f"{measured} against {setting}: {', '.join(there)}") as axis:
        for label, curve in there.items():
            x, mean = np.array([value for value, _ in curve]), np.array([one.mean for _, one in curve])
            ends = [[one.mean - one.low for _, one in curve], [one.high - one.mean for _, one in curve]]
            colour, marker = look[label]
            axis.errorbar(x, mean, np.maximum(ends, 0), color=colour, marker=marker, capsize=3, label=label, **joined)
        values = sorted({value for curve in there.values() for value, _ in curve})
        if log:
            axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(values))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticks(values, [(names or {}).get(value, f"{value:g}") for value in values])
        axis.set(title=capital(title), xlabel=setting, ylabel=measured)
        if len(there) > 1:
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
