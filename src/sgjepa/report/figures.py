"""Figures of pages, one panel each, drawn from intervals.

Curves are given by label, in the order of the legend; the paper's methods have fixed colours. References without training
are thin lines without a band.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from sgjepa.core.methods import GREY, styles
from sgjepa.core.plotting import INK, TRAINING, line, look
from sgjepa.core.stats import Interval
from sgjepa.report.blocks import Figure
from sgjepa.report.words import capital
from sgjepa.results.selection import Axis

Curve = Sequence[Interval]
Points = Sequence[tuple[float, Interval]]  # a setting's value and its measurement
Thin = tuple[Sequence[float], str, Any]  # values of a reference, its colour, its dashes
DASHED, DOTTED, SOLID, DASH_DOT = "--", (0, (1, 1.4)), "-", (0, (4, 1, 1, 1))
PAPER = "paper: "
HORIZON = "horizon h (steps)"
LAW_STYLES = [
    ("#2c1d6b", "o"),
    ("#b12a6c", "s"),
    ("#e08a1e", "^"),
    ("#555a60", "D"),
]  # of true laws; different from those of methods
_ASIDE = 0.12  # between the points of neighbouring curves


# --- shared parts --------------------------------------------------------------------------------------------------


def new_axis(size: tuple[float, float] = (5.2, 3.9)) -> Any:
    """An empty panel to draw on. size: in inches."""
    figure = matplotlib.figure.Figure(figsize=size, dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def finished(axis: Any, name: str, alt: str, **how: Any) -> Figure:
    """The panel as the bytes of its files. how: as a `Figure` takes it."""
    figure = axis.figure
    letters = int(8.8 * figure.get_figwidth())  # letters that fit into the width
    axis.set_title(textwrap.fill(axis.get_title(loc="left"), letters))
    figure.get_layout_engine().execute(figure)  # once instead of for each file
    figure.set_layout_engine("none")
    png, svg = io.BytesIO(), io.BytesIO()
    figure.canvas.print_png(png, metadata={"Software": None})
    vector: Any = FigureCanvasSVG(figure)
    vector.print_svg(svg, metadata={"Date": None})
    return Figure(name, alt, svg.getvalue(), png.getvalue(), **how)


def legend(axis: Any, handles: Sequence[Any] | None = None) -> None:
    """Draw a legend below the axis, in two columns. handles: its entries (default: all labelled lines)."""
    labelled = handles if handles is not None else axis.get_legend_handles_labels()[0]
    axis.figure.legend(handles=labelled, loc="outside lower center", ncols=2, handlelength=2.2, columnspacing=1.6)


def plain_log(axis: Any) -> None:
    """Set a logarithmic scale with plain numbers; minor ticks are labelled only below one decade."""
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(plain)
    axis.yaxis.set_minor_formatter(plain if np.ptp(np.log10(axis.get_ylim())) < 1 else NullFormatter())


def law_name(law: Axis) -> str:
    """The label of an axis of a law: name, symbol and unit."""
    symbol = "" if law.symbol == law.name else f" {law.symbol}"
    return f"{law.name}{symbol} ({law.unit})"


def limits(*curves: Iterable[Interval]) -> tuple[float, float]:
    """A common scale of several panels: from zero, or the lowest end of an interval, to the highest end."""
    ends = [
        end
        for curve in curves
        for interval in curve
        for end in (interval.mean, interval.low, interval.high)
        if np.isfinite(end)
    ]
    return min(0.0, *ends) * 1.04, max(0.0, *ends) * 1.04


def _thin(axis: Any, x: Any, lines: Mapping[str, Thin] | None) -> None:
    for label, (values, colour, dashes) in (lines or {}).items():
        axis.plot(x[: len(values)], values, color=colour, linewidth=1.2, linestyle=dashes, label=label)


def _shade(axis: Any, law: Axis, low: float, high: float, bottom: float, top: float) -> None:
    """Shade the density of the training laws, as in the paper, with dotted lines at the ends of "in distribution"."""
    image = np.zeros((1, 400, 4))
    image[..., :3] = to_rgb(TRAINING)
    image[..., 3] = 0.55 * law.training.density(np.linspace(low, high, 400))
    axis.imshow(image, extent=(low, high, bottom, top), aspect="auto", zorder=0.5, interpolation="bilinear")
    for end in law.training.bounds:
        if low < end < high:
            axis.axvline(end, color="#b5a900", linewidth=0.8, linestyle=":", zorder=0.6)


# --- curves --------------------------------------------------------------------------------------------------------


@look
def by_horizon(
    name: str,
    title: str,
    measured: str,
    curves: Mapping[str, Curve],
    ticks: Sequence[int],
    references: Mapping[str, Thin] | None = None,
    scale: tuple[float, float] | None = None,
) -> Figure:
    """A line for each curve over the horizons, 1 first. scale: of the axis, for panels that are compared.

    references: a label that begins with an underscore is not in the legend; one without values is only in the legend.
    """
    axis = new_axis()
    steps = np.arange(1, max(map(len, curves.values())) + 1)
    for label, (colour, marker) in styles(list(curves)).items():
        line(axis, steps[: len(curves[label])], curves[label], colour, label, marker)
    _thin(axis, steps, references)
    low, high = scale or limits(*curves.values())
    if low < 0:
        axis.axhline(0, color=INK, linewidth=0.8)
    axis.set(title=capital(title), xlabel=HORIZON, ylabel=measured, xlim=(1, max(steps)), ylim=(low, high))
    axis.set_xticks(ticks)
    if len(axis.get_legend_handles_labels()[0]) > 1:
        legend(axis)
    return finished(axis, name, f"{measured} by horizon, {title}: {', '.join(curves)}")


@look
def by_law(
    name: str,
    title: str,
    measured: str,
    law: Axis,
    curves: Mapping[str, Curve],
    references: Mapping[str, Thin] | None = None,
    scale: tuple[float, float] | None = None,
    coverage: Mapping[float, float] | None = None,
) -> Figure:
    """A line for each curve over the values of a law, with the density of the training laws behind it.

    coverage: L_law of each value, on a second axis at the right.
    """
    axis = new_axis()
    values = np.array(law.values)
    pad = 0.03 * (values[-1] - values[0])
    left, right = values[0] - pad, values[-1] + pad
    low, high = scale or limits(
        *curves.values(), *(map(without_interval, reference[0]) for reference in (references or {}).values())
    )
    _shade(axis, law, left, right, low, high)
    for label, (colour, marker) in styles(list(curves)).items():
        line(axis, values, curves[label], colour, label, marker, 1 if len(values) < 8 else 2)
    _thin(axis, values, references)
    axis.set(title=capital(title), xlabel=law_name(law), ylabel=measured, ylim=(low, high), xlim=(left, right))
    handles = [*axis.get_legend_handles_labels()[0], Patch(color=TRAINING, alpha=0.55, label=f"training {law.several}")]
    if coverage:
        style: dict[str, Any] = {"color": "#333333", "linewidth": 1, "linestyle": "-."}
        right_axis = axis.twinx()
        right_axis.plot(list(coverage), list(coverage.values()), **style)
        right_axis.set(ylabel="coverage L_law (log scale)")
        plain_log(right_axis)
        right_axis.spines["right"].set_visible(True)
        handles.append(Line2D([], [], label="coverage L_law, right axis", **style))
    legend(axis, handles)
    return finished(axis, name, f"{measured}, {title}, by {law.name}; the training {law.several} are shaded")


@look
def against_setting(
    name: str,
    title: str,
    setting: str,
    measured: str,
    curves: Mapping[str, Points],
    log: bool = False,
    names: Mapping[float, str] | None = None,
) -> Figure | None:
    """Lines over the values of a setting, with intervals as whiskers; None if no curve has a point.

    names: labels of the values if they are categories, which have no lines between them.
    A curve with the label of another one after PAPER is the paper's: hollow markers without intervals.
    """
    drawn = {label: sorted(curve, key=lambda point: point[0]) for label, curve in curves.items() if curve}
    if not drawn:
        return None
    colours = styles([label for label in drawn if not label.startswith(PAPER)])
    joined: dict[str, Any] = {"linewidth": 2} if names is None else {"linestyle": "none"}
    axis = new_axis()
    for number, (label, curve) in enumerate(drawn.items()):
        aside = 0.0 if names is None else _ASIDE * (number - (len(drawn) - 1) / 2)
        x, mean = np.array([value + aside for value, _ in curve]), np.array([interval.mean for _, interval in curve])
        ends = [
            [interval.mean - interval.low for _, interval in curve],
            [interval.high - interval.mean for _, interval in curve],
        ]
        colour, marker = colours[label.removeprefix(PAPER)]
        fill = "none" if label.startswith(PAPER) else "full"
        how = {"color": colour, "marker": marker, "fillstyle": fill, "capsize": 3, "label": label, **joined}
        axis.errorbar(x, mean, np.maximum(ends, 0), **how)
    values = sorted({value for curve in drawn.values() for value, _ in curve})
    if log:
        axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(values))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticks(values, [(names or {}).get(value, f"{value:g}") for value in values])
    axis.set(title=capital(title), xlabel=setting, ylabel=measured)
    if names is not None:
        axis.set_xlim(values[0] - 0.5, values[-1] + 0.5)
    if len(drawn) > 1:
        legend(axis)
    return finished(axis, name, f"{measured} against {setting}: {', '.join(drawn)}")


def without_interval(value: float) -> Interval:
    """An `Interval` for a number without an interval."""
    return Interval(value, np.nan, np.nan, 0)


@look
def counterfactual(name: str, title: str, law: Axis, curves: Mapping[float, Points]) -> Figure:
    """NMSE against the law that the model is given, a curve for each true law; a ring marks the true one."""
    axis = new_axis()
    for number, (true, points) in enumerate(curves.items()):
        colour, marker = LAW_STYLES[number % len(LAW_STYLES)]
        fed = [value for value, _ in points]
        line(axis, fed, [interval for _, interval in points], colour, f"true {law.symbol} = {true:g}", marker, 1)
        ring = {"color": colour, "markersize": 12, "fillstyle": "none", "markeredgewidth": 1.6}
        axis.plot(true, dict(points)[true].mean, "o", **ring)
    axis.set(title=title, xlabel=f"{law.name} given to the model ({law.unit})", ylabel="mean NMSE over horizons")
    legend(axis)
    return finished(axis, name, f"{title}: NMSE over horizons against the {law.name} given, a curve for each true one")


@look
def training(name: str, title: str, curves: Mapping[str, Sequence[np.ndarray]], log: bool = True) -> Figure:
    """A term by update, (n, 2) for each training of each method. log: a logarithmic scale, else one from zero."""
    axis = new_axis()
    for label, (colour, marker) in styles(list(curves)).items():
        for number, points in enumerate(curves[label]):
            how = {"color": colour, "marker": marker, "markevery": max(1, len(points) // 8), "markersize": 4}
            axis.plot(*points.T, label=label if number == 0 else None, alpha=0.85, **how)
    if log:
        plain_log(axis)
    else:
        axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set(title=capital(title), xlabel="update")
    legend(axis)
    return finished(axis, name, f"{title}, by update, for {', '.join(curves)}")


# --- bars, maps, pictures ------------------------------------------------------------------------------------------


@look
def bars(
    name: str, title: str, baseline: str, groups: Mapping[str, Mapping[str, Interval]], references: Mapping[str, float]
) -> Figure:
    """Ratios to a baseline as grouped bars, with whiskers. references: a dashed level across some of the groups."""
    axis = new_axis()
    labels = list(next(iter(groups.values())))
    width = 0.8 / len(labels)
    for x, (group, ratios) in enumerate(groups.items()):
        for number, (label, (colour, _)) in enumerate(styles(labels).items()):
            ratio, centre = ratios[label], x + (number - (len(labels) - 1) / 2) * width
            axis.bar(centre, ratio.mean, width * 0.9, color=colour, label=label if x == 0 else None, alpha=0.9)
            if label != baseline:
                errors = [[ratio.mean - ratio.low], [ratio.high - ratio.mean]]
                axis.errorbar(centre, ratio.mean, errors, color=INK, linewidth=1.1, capsize=2.5)
        if group in references:
            style = {
                "color": GREY,
                "linewidth": 1.4,
                "linestyle": DASHED,
                "label": "object stays put" if x == 0 else None,
            }
            axis.plot([x - 0.44, x + 0.44], [references[group]] * 2, **style)
    axis.axhline(1, color=INK, linewidth=0.8)
    axis.set_xticks(range(len(groups)), list(groups))
    axis.grid(axis="x", visible=False)
    axis.set(title=capital(title), ylabel=f"error relative to {baseline}")
    legend(axis)
    return finished(axis, name, f"Errors relative to {baseline}, {title}")


@look
def over_two_laws(name: str, title: str, measured: str, laws: tuple[Axis, Axis], values: np.ndarray, top: float) -> Figure:
    """A heat map over two laws, with a frame around "in distribution". values: (second, first law). top: of the scale."""
    first, second = laws
    axis = new_axis()
    mesh = axis.pcolormesh(_edges(first), _edges(second), values, cmap="viridis", vmin=0, vmax=top)
    (left, right), (bottom, upper) = first.training.bounds, second.training.bounds
    frame = Rectangle((left, bottom), right - left, upper - bottom, fill=False, edgecolor="white", linewidth=1.8)
    axis.add_patch(frame)
    axis.grid(visible=False)
    axis.set(title=title, xlabel=law_name(first), ylabel=law_name(second))
    axis.figure.colorbar(mesh, ax=axis, label=measured)
    return finished(axis, name, f"{measured} of {title} over {first.name} and {second.name}", raster=True)


def _edges(law: Axis) -> np.ndarray:
    """The cell edges of a law's values: midpoints, and as far beyond the ends."""
    values = np.array(law.values)
    middle = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])


@look
def strips(
    name: str, label: str, truth: np.ndarray, decoded: np.ndarray, steps: Sequence[int], notes: Sequence[str]
) -> Figure:
    """Truth above, decoded prediction below, (episodes, steps, height, width, 3) each. notes: labels of the episodes."""
    count, n, height, width, _ = truth.shape
    gap = max(1, height // 16)
    sheet = np.full((count * (2 * height + 3 * gap) - 2 * gap, n * (width + gap) - gap, 3), 255, np.uint8)
    tops = [episode * (2 * height + 3 * gap) for episode in range(count)]
    for episode, top in enumerate(tops):
        for i in range(n):
            left = i * (width + gap)
            sheet[top : top + height, left : left + width] = truth[episode, i]
            below = top + height + gap // 2
            sheet[below : below + height, left : left + width] = decoded[episode, i]
    axis = new_axis((1.9 + 0.95 * n, 0.7 + 2.1 * count))
    axis.imshow(sheet, interpolation="nearest")
    axis.set_xticks([i * (width + gap) + width / 2 for i in range(n)], [f"h = {h}" for h in steps])
    axis.set_yticks([top + height for top in tops], notes)
    axis.tick_params(length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.set_title(f"{label}: truth above, decoded prediction below")
    alt = f"Decoded rollouts of {label}: truth above, prediction below, at h = {', '.join(str(h) for h in steps)}"
    return finished(axis, name, alt, raster=True, wide=True)
