"""The figures against laws: the error by each law, the map over two of them, and what a wrong law does."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from sgjepa.core.methods import GREY, styles
from sgjepa.core.plotting import TRAINING, line
from sgjepa.data.probe_targets import METRICS
from sgjepa.report.panels import Picture, axis_name, legend, panel, plain_log
from sgjepa.report.words import capital
from sgjepa.results.counterfactual import Counterfactual
from sgjepa.results.gather import MAIN, REFERENCES, Axis, Results

LAW_STYLES = [("#2c1d6b", "o"), ("#b12a6c", "s"), ("#e08a1e", "^"), ("#555a60", "D")]  # of true laws: no method has them


def error_by_law(results: Results, metric: str, law: Axis) -> list[Picture]:
    """At the last horizon, with the density of the training laws behind it; over whatever the other laws are."""
    found: list[Picture] = []
    look = styles([method.label for method in results.methods])
    alt = f"{axis_name(metric)} at h = {results.last} by {law.name}; the training {law.several} are shaded"
    with panel(found, f"{metric}_by_{law.name}", alt) as axis:
        values = np.array(law.values)
        pad = 0.03 * (values[-1] - values[0])
        low, high = values[0] - pad, values[-1] + pad
        curves = [list(method.by_law(metric, results.last, [law.name]).values()) for method in results.methods]
        stay = list(results.baseline.by_law(metric, results.last, [law.name], "stay").values())
        top = max(one.high for curve in [*curves, stay] for one in curve if np.isfinite(one.high))
        shade(axis, law, low, high, top * 1.06)
        for method, curve in zip(results.methods, curves, strict=True):
            colour, marker = look[method.label]
            line(axis, values, curve, colour, method.label, marker, 2)
        if np.isfinite(stay[0].mean):
            means = [one.mean for one in stay]
            axis.plot(values, means, color=GREY, linewidth=1.1, linestyle="--", label=REFERENCES["stay"])
        axis.set(
            title=f"{capital(METRICS[metric])} at h = {results.last}",
            xlabel=name_of(law),
            ylabel=axis_name(metric),
            ylim=(0, top * 1.06),
            xlim=(low, high),
        )
        handles = [
            *axis.get_legend_handles_labels()[0],
            Patch(color=TRAINING, alpha=0.55, label=f"training {law.several}"),
        ]
        if metric == MAIN and results.coverage and results.axes == (law,):
            column = results.baseline.first.laws.index(law.name)
            right = axis.twinx()
            far = {point[column]: value for point, value in results.coverage.items()}
            right.plot(list(far), list(far.values()), color="#333333", linewidth=1, linestyle="-.")
            right.set(ylabel="coverage L_law (log scale)")
            plain_log(right)
            right.spines["right"].set_visible(True)
            handles.append(Line2D([], [], color="#333333", linewidth=1, linestyle="-.", label="coverage L_law, right axis"))
        legend(axis, handles)
    return found


def error_map(results: Results, metric: str, one: Axis, other: Axis) -> list[Picture]:
    """At the last horizon over the plane of two laws, a panel per method, all with one scale; the frame: in distribution."""
    found: list[Picture] = []
    maps = []
    for method in results.methods:
        errors = method.by_law(metric, results.last, [one.name, other.name])
        # a pair of values that no episode has stays empty
        maps.append(np.array([[_mean(errors.get((x, y))) for x in one.values] for y in other.values]))  # (y, x)
    top = max(float(np.nanmax(shown)) for shown in maps)
    for number, (method, shown) in enumerate(zip(results.methods, maps, strict=True), start=1):
        alt = f"{axis_name(metric)} of {method.label} at h = {results.last} over {one.name} and {other.name}"
        name = f"{metric}_over_{one.name}_and_{other.name}_{number}"
        with panel(found, name, alt, raster=True) as axis:
            mesh = axis.pcolormesh(_edges(one), _edges(other), shown, cmap="viridis", vmin=0, vmax=top)
            (left, right), (bottom, upper) = one.training.bounds, other.training.bounds
            frame = Rectangle((left, bottom), right - left, upper - bottom, fill=False, edgecolor="white", linewidth=1.8)
            axis.add_patch(frame)
            axis.grid(visible=False)
            axis.set(title=method.label, xlabel=name_of(one), ylabel=name_of(other))
            axis.figure.colorbar(mesh, ax=axis, label=axis_name(metric))
    return found


def _mean(found: Any) -> float:
    return float("nan") if found is None else float(found.mean)


def _edges(law: Axis) -> np.ndarray:
    """Between neighbouring values, and as far beyond the ends."""
    values = np.array(law.values)
    middle = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])


def name_of(law: Axis) -> str:
    """A law with its symbol and unit, as an axis is called."""
    symbol = "" if law.symbol == law.name else f" {law.symbol}"
    return f"{law.name}{symbol} ({law.unit})"


def shade(axis: Any, law: Axis, low: float, high: float, top: float) -> None:
    """The density of the training laws as a fading background, as in the paper; dotted: the ends of "in distribution"."""
    fine = np.linspace(low, high, 400)
    image = np.zeros((1, len(fine), 4))
    image[..., :3] = to_rgb(TRAINING)
    image[..., 3] = 0.55 * law.training.density(fine)
    axis.imshow(image, extent=(low, high, 0, top), aspect="auto", zorder=0.5, interpolation="bilinear")
    for end in law.training.bounds:
        if low < end < high:
            axis.axvline(end, color="#b5a900", linewidth=0.8, linestyle=":", zorder=0.6)


def counterfactual(law: Axis, one: Counterfactual, number: int) -> list[Picture]:
    """Mean NMSE over horizons against the law that was fed in, a curve for each true law; a ring marks the true one."""
    found: list[Picture] = []
    alt = f"{one.label}: NMSE over horizons against the {law.name} fed in, a curve for each true one"
    with panel(found, f"counterfactual_{number}", alt) as axis:
        for i, true in enumerate(one.true):
            colour, marker = LAW_STYLES[i % len(LAW_STYLES)]
            given = one.given(true)
            line(axis, given, [one.area[true, g] for g in given], colour, f"true {law.symbol} = {true:g}", marker, 1)
            axis.plot(
                true, one.area[true, true].mean, "o", color=colour, markersize=12, fillstyle="none", markeredgewidth=1.6
            )
        axis.set(title=one.label, xlabel=f"{law.name} fed in ({law.unit})", ylabel="mean NMSE over horizons")
        legend(axis)
    return found
