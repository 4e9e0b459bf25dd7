"""The figures by horizon, method and update, one panel each, so that a phone can stack them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sgjepa.core.methods import GREY, styles
from sgjepa.core.plotting import INK, line
from sgjepa.data.probe_targets import METRICS
from sgjepa.report.panels import Picture, axis_name, legend, panel, plain_log
from sgjepa.report.words import capital, place, table_number
from sgjepa.results.compare import Method, ratio
from sgjepa.results.gather import REFERENCES, Results, unit
from sgjepa.results.training import TERMS, curves


def error_by_horizon(results: Results, metric: str) -> list[Picture]:
    """A panel for each region, with the same scale."""
    found: list[Picture] = []
    look = styles([method.label for method in results.methods])
    steps = np.arange(1, results.last + 1)
    shown = [region for region in results.regions if region != "all"] or ["all"]
    drawn = [
        one
        for region in shown
        for method in results.methods
        for source in ("predicted", "stay")
        for one in method.by_horizon(metric, source, region)
        if np.isfinite(one.high)
    ]
    top = max(one.high for one in drawn)
    bottom = min(0.0, *(one.low for one in drawn))  # an excess over the probe's own error may be below zero
    for region in shown:
        where = place(results, region)
        alt = f"{axis_name(metric)} by horizon, {where}, for {', '.join(m.label for m in results.methods)}"
        with panel(found, f"{metric}_by_horizon_{region}", alt) as axis:
            for method in results.methods:
                colour, marker = look[method.label]
                intervals = method.by_horizon(metric, region=region)
                line(axis, steps, intervals, colour, method.label, marker, max(1, len(steps) // 8))
                perfect = [one.mean for one in method.by_horizon(metric, "simulator", region)]
                if np.isfinite(perfect[-1]):
                    axis.plot(steps, perfect, color=colour, linewidth=0.9, linestyle=(0, (1, 1.4)))
            stay = [one.mean for one in results.baseline.by_horizon(metric, "stay", region)]
            handles = axis.get_legend_handles_labels()[0]
            if np.isfinite(stay[-1]):
                handles += axis.plot(steps, stay, color=GREY, linewidth=1.1, linestyle="--", label=REFERENCES["stay"])
                handles.append(
                    Line2D([], [], color=GREY, linewidth=0.9, linestyle=(0, (1, 1.4)), label="simulator, same colour")
                )
            axis.set(title=capital(where), xlabel="horizon h (steps)", ylabel=axis_name(metric))
            axis.set_ylim(bottom * 1.04, top * 1.04)
            axis.set_xlim(1, results.last)
            axis.set_xticks(results.horizons)
            legend(axis, handles)
    return found


def references(results: Results, metric: str) -> list[Picture]:
    """A panel for each method: its rollout among everything that puts it in scale."""
    found: list[Picture] = []
    look = styles([method.label for method in results.methods])
    dashes = {"stay": "--", "constant_velocity": (0, (4, 1, 1, 1)), "simulator": (0, (1, 1.4)), "one_step": "-", "true": "-"}
    greys = {"stay": GREY, "constant_velocity": GREY, "simulator": INK, "one_step": "#E69F00", "true": "#b9bec5"}
    steps = np.arange(1, results.last + 1)
    top = max(
        one.high
        for method in results.methods
        for source in ("predicted", "stay", "simulator")
        for one in method.by_horizon(metric, source)
    )
    for number, method in enumerate(results.methods, start=1):
        alt = f"{axis_name(metric)} of {method.label} by horizon, beside {', '.join(REFERENCES.values())}"
        with panel(found, f"references_{number}", alt) as axis:
            colour, marker = look[method.label]
            line(axis, steps, method.by_horizon(metric), colour, "rollout", marker, max(1, len(steps) // 8))
            for source, name in REFERENCES.items():
                values = [one.mean for one in method.by_horizon(metric, source)]
                axis.plot(steps, values, color=greys[source], linewidth=1.2, linestyle=dashes[source], label=name)
            axis.set(title=method.label, xlabel="horizon h (steps)", ylabel=axis_name(metric), ylim=(0, top * 1.1))
            axis.set_xlim(1, results.last)
            axis.set_xticks(results.horizons)
            legend(axis)
    return found


def bars(results: Results, region: str) -> list[Picture]:
    """Errors at the last horizon divided by the baseline's; its own stand below each group."""
    found: list[Picture] = []
    look = styles([method.label for method in results.methods])
    metrics = [m for m in results.metrics if m in ("position_l2", "velocity_l2", "rotation_turns", "nmse")]
    base = results.baseline
    alt = f"Errors at h = {results.last} relative to {base.label}, {place(results, region)}"
    with panel(found, f"relative_{region}", alt) as axis:
        width = 0.8 / len(results.methods)
        names = []
        for m, metric in enumerate(metrics):
            own = base.stack(metric, region=region)[:, :, -1].mean()
            stay = base.stack(metric, "stay", region)[:, :, -1].mean()
            short = METRICS[metric].removeprefix("cumulative ").removesuffix(" error")
            names.append(f"{short}\n{table_number(own, metric)} {unit(metric)}")
            for i, method in enumerate(results.methods):
                colour, _ = look[method.label]
                one = ratio(method, base, metric, [results.last], region)[results.last]
                x = m + (i - (len(results.methods) - 1) / 2) * width
                label = method.label if m == 0 else None
                axis.bar(x, one.mean, width * 0.9, color=colour, label=label, alpha=0.9)
                if method is not base:
                    errors = [[one.mean - one.low], [one.high - one.mean]]
                    axis.errorbar(x, one.mean, errors, color=INK, linewidth=1.1, capsize=2.5)
            name = REFERENCES["stay"] if m == 0 else None
            axis.plot([m - 0.44, m + 0.44], [stay / own] * 2, color=GREY, linewidth=1.4, linestyle="--", label=name)
        axis.axhline(1, color=INK, linewidth=0.8)
        axis.set_xticks(range(len(metrics)), names)
        axis.grid(axis="x", visible=False)
        axis.set(title=capital(place(results, region)), ylabel=f"error relative to {base.label}")
        legend(axis)
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
        with panel(found, f"training_{term}", alt) as axis:
            for method, lines in drawn:
                colour, marker = look[method.label]
                for i, line in enumerate(lines):
                    label = method.label if i == 0 else None
                    every = max(1, len(line) // 8)
                    axis.plot(*line.T, color=colour, marker=marker, markevery=every, markersize=4, label=label, alpha=0.85)
            if term == "rank":
                axis.set_ylim(bottom=0)
            else:
                plain_log(axis)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set(title=capital(title), xlabel="update")
            legend(axis)
    return found


def strips(results: Results, label: str, number: int, arrays: dict[str, np.ndarray]) -> list[Picture]:
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
        names.append(_beside(results, np.atleast_1d(arrays["law"][s]).tolist(), bool(arrays["inside"][s])))
    alt = f"Decoded rollouts of {label}: truth above, prediction below, at h = {', '.join(str(h) for h in horizon)}"
    size = (1.9 + 0.95 * n, 0.7 + 2.1 * count)
    with panel(found, f"strips_{number}", alt, size, raster=True, wide=True) as axis:
        axis.imshow(sheet, interpolation="nearest")
        axis.set_xticks([i * (width + gap) + width / 2 for i in range(n)], [f"h = {h}" for h in horizon])
        axis.set_yticks(middles, names)
        axis.tick_params(length=0)
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
        axis.set_title(f"{label}: truth above, decoded prediction below")
    return found


def _beside(results: Results, law: list[float], inside: bool) -> str:
    """What stands beside a strip: its laws, and where they lie."""
    values = dict(zip(results.baseline.first.laws, law, strict=True))
    lines = [f"{axis.symbol} = {values[axis.name]:g} {axis.unit}" for axis in results.axes]
    return "\n".join([*lines, f"{'in' if inside else 'out of'} distribution"] if lines else ["truth, prediction"])
