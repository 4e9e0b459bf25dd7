"""The figures, one panel each, so that a phone can stack them. Every function returns what was drawn under a file's name."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from sgjepa.core.stats import Interval
from sgjepa.report.words import place, table_number
from sgjepa.results.counterfactual import Counterfactual
from sgjepa.results.gather import MAIN, METRICS, REFERENCES, Results, unit
from sgjepa.results.summary import Method, ratio
from sgjepa.results.training import TERMS, curves

# Okabe and Ito's colours, which people with any common colour vision can tell apart; a marker says the same without colour
_STYLES = {
    "SG-JEPA (GRU)": ("#0072B2", "o"),
    "SG-JEPA (SSM)": ("#009E73", "s"),
    "SG-JEPA (Transformer)": ("#56B4E9", "^"),
    "LeWM": ("#D55E00", "D"),
    "DINO-WM": ("#CC79A7", "v"),
}
_MORE = [("#E69F00", "P"), ("#000000", "X"), ("#8C6D31", "<"), ("#5E4FA2", ">"), ("#7F7F7F", "*"), ("#66A61E", "p")]
_LAWS = [("#2c1d6b", "o"), ("#b12a6c", "s"), ("#e08a1e", "^"), ("#555a60", "D")]  # of true laws: no method has them
_GREY, _INK, _TRAINING = "#6b6f76", "#22252a", "#F0E442"
_RC: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9aa0a6",
    "axes.labelcolor": _INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#e8eaed",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "xtick.color": "#555a60",
    "ytick.color": "#555a60",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "sgjepa",  # the same numbers give the same bytes
}


@dataclass(frozen=True)
class Picture:
    """name: of its files. alt: what it shows, in words. raster: the page shows the PNG, not the SVG."""

    name: str
    alt: str
    svg: bytes
    png: bytes
    raster: bool = False


def styles(labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method: the paper's methods always have the same ones."""
    found: dict[str, tuple[str, str]] = {}
    spare = iter(_MORE * len(labels))
    for label in labels:
        usual = _STYLES.get(label) or next((s for name, s in _STYLES.items() if label.startswith(f"{name},")), None)
        found[label] = usual if usual and usual not in found.values() else next(spare)
    return found


@contextmanager
def _panel(
    pictures: list[Picture], name: str, alt: str, size: tuple[float, float] = (5.2, 3.9), **how: Any
) -> Iterator[Any]:
    """An axis to draw on; closing it makes the files' bytes."""
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=size, dpi=144, layout="constrained")
        canvas: Any = FigureCanvasAgg(figure)
        yield figure.add_subplot()
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once; savefig would do it again for each file
        png, svg = io.BytesIO(), io.BytesIO()
        canvas.print_png(png, metadata={"Software": None})
        vector: Any = FigureCanvasSVG(figure)
        vector.print_svg(svg, metadata={"Date": None})
    pictures.append(Picture(name, alt, svg.getvalue(), png.getvalue(), **how))


def _legend(axis: Any, handles: list[Any] | None = None) -> None:
    """Below the axis, in two columns: nothing of the data is covered."""
    found = handles if handles is not None else axis.get_legend_handles_labels()[0]
    axis.figure.legend(handles=found, loc="outside lower center", ncols=2, handlelength=2.2, columnspacing=1.6)


def _line(axis: Any, x: Any, intervals: Sequence[Interval], colour: str, label: str, marker: str, every: int) -> None:
    mean, low, high = (np.array([getattr(one, part) for one in intervals]) for part in ("mean", "low", "high"))
    axis.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
    axis.plot(x, mean, color=colour, label=label, marker=marker, markevery=every, markersize=4.5, linewidth=2)


def _axis_name(metric: str) -> str:
    name = METRICS[metric]
    return f"{name[0].upper()}{name[1:]}" + (f" ({unit(metric)})" if unit(metric) else "")


def error_by_horizon(results: Results, metric: str) -> list[Picture]:
    """A panel for each region, with the same scale."""
    found: list[Picture] = []
    look = styles([method.label for method in results.methods])
    steps = np.arange(1, results.last + 1)
    shown = [region for region in results.regions if region != "all"] or ["all"]
    top = max(
        one.high
        for region in shown
        for method in results.methods
        for source in ("predicted", "stay")
        for one in method.by_horizon(metric, source, region)
        if np.isfinite(one.high)
    )
    for region in shown:
        where = place(results, region)
        alt = f"{_axis_name(metric)} by horizon, {where}, for {', '.join(m.label for m in results.methods)}"
        with _panel(found, f"{metric}_by_horizon_{region}", alt) as axis:
            for method in results.methods:
                colour, marker = look[method.label]
                intervals = method.by_horizon(metric, region=region)
                _line(axis, steps, intervals, colour, method.label, marker, max(1, len(steps) // 8))
                perfect = [one.mean for one in method.by_horizon(metric, "simulator", region)]
                if np.isfinite(perfect[-1]):
                    axis.plot(steps, perfect, color=colour, linewidth=0.9, linestyle=(0, (1, 1.4)))
            stay = [one.mean for one in results.baseline.by_horizon(metric, "stay", region)]
            handles = axis.get_legend_handles_labels()[0]
            if np.isfinite(stay[-1]):
                handles += axis.plot(steps, stay, color=_GREY, linewidth=1.1, linestyle="--", label=REFERENCES["stay"])
                handles.append(
                    Line2D([], [], color=_GREY, linewidth=0.9, linestyle=(0, (1, 1.4)), label="simulator, same colour")
                )
            axis.set(title=_capital(where), xlabel="horizon h (steps)", ylabel=_axis_name(metric), ylim=(0, top * 1.04))
            axis.set_xlim(1, results.last)
            axis.set_xticks(results.horizons)
            _legend(axis, handles)
    return found


def references(results: Results, metric: str) -> list[Picture]:
    """A panel for each method: its rollout among everything that puts it in scale."""
    found: list[Picture] = []
    look = styles([method.label for method in results.methods])
    dashes = {"stay": "--", "constant_velocity": (0, (4, 1, 1, 1)), "simulator": (0, (1, 1.4)), "one_step": "-", "true": "-"}
    greys = {"stay": _GREY, "constant_velocity": _GREY, "simulator": _INK, "one_step": "#E69F00", "true": "#b9bec5"}
    steps = np.arange(1, results.last + 1)
    top = max(
        one.high
        for method in results.methods
        for source in ("predicted", "stay", "simulator")
        for one in method.by_horizon(metric, source)
    )
    for number, method in enumerate(results.methods, start=1):
        alt = f"{_axis_name(metric)} of {method.label} by horizon, beside {', '.join(REFERENCES.values())}"
        with _panel(found, f"references_{number}", alt) as axis:
            colour, marker = look[method.label]
            _line(axis, steps, method.by_horizon(metric), colour, "rollout", marker, max(1, len(steps) // 8))
            for source, name in REFERENCES.items():
                values = [one.mean for one in method.by_horizon(metric, source)]
                axis.plot(steps, values, color=greys[source], linewidth=1.2, linestyle=dashes[source], label=name)
            axis.set(title=method.label, xlabel="horizon h (steps)", ylabel=_axis_name(metric), ylim=(0, top * 1.1))
            axis.set_xlim(1, results.last)
            axis.set_xticks(results.horizons)
            _legend(axis)
    return found


def error_by_law(results: Results, metric: str) -> list[Picture]:
    """At the last horizon, with the density of the training laws behind it."""
    found: list[Picture] = []
    look = styles([method.label for method in results.methods])
    law = f"{results.law_name} {results.symbol} ({results.unit})"
    alt = f"{_axis_name(metric)} at h = {results.last} by {results.law_name}; the training {results.laws} are shaded"
    with _panel(found, f"{metric}_by_{results.law_name}", alt) as axis:
        values = results.values
        pad = 0.03 * (values[-1] - values[0]) or 1.0
        low, high = values[0] - pad, values[-1] + pad
        curves_ = [(method, method.by_law(metric, results.last)) for method in results.methods]
        stay = results.baseline.by_law(metric, results.last, "stay")
        top = max(one.high for _, curve in [*curves_, (None, stay)] for one in curve.values() if np.isfinite(one.high))
        _shade(axis, results, low, high, top * 1.06)
        for method, curve in curves_:
            colour, marker = look[method.label]
            _line(axis, list(curve), list(curve.values()), colour, method.label, marker, 2)
        if np.isfinite(next(iter(stay.values())).mean):
            means = [one.mean for one in stay.values()]
            axis.plot(list(stay), means, color=_GREY, linewidth=1.1, linestyle="--", label=REFERENCES["stay"])
        axis.set(
            title=f"{_capital(METRICS[metric])} at h = {results.last}",
            xlabel=law,
            ylabel=_axis_name(metric),
            ylim=(0, top * 1.06),
            xlim=(low, high),
        )
        handles = [
            *axis.get_legend_handles_labels()[0],
            Patch(color=_TRAINING, alpha=0.55, label=f"training {results.laws}"),
        ]
        if metric == MAIN and results.coverage:
            right = axis.twinx()
            right.plot(list(results.coverage), list(results.coverage.values()), color="#333333", linewidth=1, linestyle="-.")
            right.set(ylabel="coverage L_law (log scale)", yscale="log")
            right.spines["right"].set_visible(True)
            handles.append(Line2D([], [], color="#333333", linewidth=1, linestyle="-.", label="coverage L_law, right axis"))
        _legend(axis, handles)
    return found


def _shade(axis: Any, results: Results, low: float, high: float, top: float) -> None:
    """The density of the training laws as a fading background, as in the paper; dotted: the ends of "in distribution"."""
    fine = np.linspace(low, high, 400)
    rgb = to_rgb(_TRAINING)
    image = np.zeros((1, len(fine), 4))
    image[..., :3] = rgb
    image[..., 3] = 0.55 * results.density(fine)
    axis.imshow(image, extent=(low, high, 0, top), aspect="auto", zorder=0.5, interpolation="bilinear")
    for end in results.bounds():
        if low < end < high:
            axis.axvline(end, color="#b5a900", linewidth=0.8, linestyle=":", zorder=0.6)


def bars(results: Results, region: str) -> list[Picture]:
    """Errors at the last horizon divided by the baseline's; its own stand below each group."""
    found: list[Picture] = []
    look = styles([method.label for method in results.methods])
    metrics = [m for m in results.metrics if m in ("position_l2", "velocity_l2", "rotation_turns", "nmse")]
    base = results.baseline
    alt = f"Errors at h = {results.last} relative to {base.label}, {place(results, region)}"
    with _panel(found, f"relative_{region}", alt) as axis:
        width = 0.8 / len(results.methods)
        names = []
        for m, metric in enumerate(metrics):
            own = base.stack(metric, region=region)[:, :, -1].mean()
            stay = base.stack(metric, "stay", region)[:, :, -1].mean()
            short = METRICS[metric].removeprefix("cumulative ").removesuffix(" error")
            names.append(f"{short}\n{table_number(own, metric)} {unit(metric)}")
            for i, method in enumerate(results.methods):
                colour, _ = look[method.label]
                one = ratio(method, base, metric, region)[-1]
                x = m + (i - (len(results.methods) - 1) / 2) * width
                label = method.label if m == 0 else None
                axis.bar(x, one.mean, width * 0.9, color=colour, label=label, alpha=0.9)
                if method is not base:
                    errors = [[one.mean - one.low], [one.high - one.mean]]
                    axis.errorbar(x, one.mean, errors, color=_INK, linewidth=1.1, capsize=2.5)
            name = REFERENCES["stay"] if m == 0 else None
            axis.plot([m - 0.44, m + 0.44], [stay / own] * 2, color=_GREY, linewidth=1.4, linestyle="--", label=name)
        axis.axhline(1, color=_INK, linewidth=0.8)
        axis.set_xticks(range(len(metrics)), names)
        axis.grid(axis="x", visible=False)
        axis.set(title=_capital(place(results, region)), ylabel=f"error relative to {base.label}")
        _legend(axis)
    return found


def training_curves(methods: Sequence[Method]) -> list[Picture]:
    """The prediction term, SIGReg and the rank of the latents, by update; one line per training seed."""
    found: list[Picture] = []
    look = styles([method.label for method in methods])
    for term, title in TERMS.items():
        drawn = [(method, curves(method, term)) for method in methods]
        drawn = [(method, lines) for method, lines in drawn if lines]
        if not drawn:
            continue
        alt = f"{title}, by update, for {', '.join(method.label for method, _ in drawn)}"
        with _panel(found, f"training_{term}", alt) as axis:
            for method, lines in drawn:
                colour, marker = look[method.label]
                for i, line in enumerate(lines):
                    label = method.label if i == 0 else None
                    every = max(1, len(line) // 8)
                    axis.plot(*line.T, color=colour, marker=marker, markevery=every, markersize=4, label=label, alpha=0.85)
            if term == "rank":
                axis.set_ylim(bottom=0)
            else:
                axis.set_yscale("log")
                plain = FuncFormatter(lambda value, _: f"{value:g}")
                axis.yaxis.set_major_formatter(plain)
                axis.yaxis.set_minor_formatter(plain if np.ptp(np.log10(axis.get_ylim())) < 1 else NullFormatter())
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set(title=_capital(title), xlabel="update")
            _legend(axis)
    return found


def counterfactual(results: Results, one: Counterfactual, number: int) -> list[Picture]:
    """Mean NMSE over horizons against the law that was fed in, a curve for each true law; a ring marks the true one."""
    found: list[Picture] = []
    alt = f"{one.label}: NMSE over horizons against the {results.law_name} fed in, a curve for each true one"
    with _panel(found, f"counterfactual_{number}", alt) as axis:
        for i, true in enumerate(one.true):
            colour, marker = _LAWS[i % len(_LAWS)]
            given = one.given(true)
            _line(axis, given, [one.area[true, g] for g in given], colour, f"true {results.symbol} = {true:g}", marker, 1)
            axis.plot(
                true, one.area[true, true].mean, "o", color=colour, markersize=12, fillstyle="none", markeredgewidth=1.6
            )
        axis.set(title=one.label, xlabel=f"{results.law_name} fed in ({results.unit})", ylabel="mean NMSE over horizons")
        _legend(axis)
    return found


def strips(label: str, number: int, arrays: dict[str, np.ndarray], symbol: str, unit_: str) -> list[Picture]:
    """Truth above, decoded prediction below, for each episode kept."""
    found: list[Picture] = []
    truth, decoded, horizon = arrays["truth"], arrays["decoded"], arrays["horizon"]
    count, n, height, width, _ = truth.shape
    gap = max(1, height // 16)
    sheet = np.full((count * (2 * height + 3 * gap) - 2 * gap, n * (width + gap) - gap, 3), 255, np.uint8)
    middles, names = [], []
    for s in range(count):
        top = s * (2 * height + 3 * gap)
        for i in range(n):
            left = i * (width + gap)
            sheet[top : top + height, left : left + width] = truth[s, i]
            sheet[top + height + gap // 2 : top + 2 * height + gap // 2, left : left + width] = decoded[s, i]
        middles.append(top + height)
        where = "in" if arrays["inside"][s] else "out of"
        names.append(f"{symbol} = {float(arrays['law'][s]):g} {unit_}\n{where} distribution")
    alt = f"Decoded rollouts of {label}: truth above, prediction below, at h = {', '.join(str(h) for h in horizon)}"
    size = (1.9 + 0.95 * n, 0.7 + 2.1 * count)
    with _panel(found, f"strips_{number}", alt, size, raster=True) as axis:
        axis.imshow(sheet, interpolation="nearest")
        axis.set_xticks([i * (width + gap) + width / 2 for i in range(n)], [f"h = {h}" for h in horizon])
        axis.set_yticks(middles, names)
        axis.tick_params(length=0)
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
        axis.set_title(f"{label}: truth above, decoded prediction below")
    return found


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
