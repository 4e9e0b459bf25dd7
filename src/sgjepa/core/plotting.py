"""The look of every figure, and the figures for a notebook: what `.plot()` of a forecast and of results returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from sgjepa.core.methods import GREY, styles
from sgjepa.core.stats import Interval

INK, TRAINING = "#22252a", "#F0E442"
RC: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9aa0a6",
    "axes.labelcolor": INK,
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
    "text.parse_math": False,  # a name may hold a dollar sign
    "svg.hashsalt": "sgjepa",  # the same numbers give the same bytes
}


def line(axis: Any, x: Any, intervals: Sequence[Interval], colour: str, label: str, marker: str, every: int) -> None:
    """Means as a line with markers, intervals as a band."""
    mean, low, high = (np.array([getattr(one, part) for one in intervals]) for part in ("mean", "low", "high"))
    axis.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
    axis.plot(x, mean, color=colour, label=label, marker=marker, markevery=every, markersize=4.5, linewidth=2)


def curves(
    lines: Mapping[str, tuple[np.ndarray, Sequence[Interval]]], across: str, up: str, training: Sequence[float] | None = None
) -> Figure:
    """Means with bands, a line for each arm. training: from where to where training drew what is across."""
    with matplotlib.rc_context(RC):
        figure, axis = _axis()
        for name, (colour, marker) in styles(list(lines)).items():
            x, intervals = lines[name]
            line(axis, x, intervals, colour, name, marker, max(1, len(x) // 8))
        if training is not None:
            axis.axvspan(*training, color=TRAINING, alpha=0.25, linewidth=0, label="training laws")
        axis.set(xlabel=across, ylabel=up)
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        axis.legend()
    return figure


def forecasts(
    names: Sequence[str],
    units: Sequence[str],
    time: np.ndarray,
    truth: Mapping[str, np.ndarray] | None,
    imagined: Mapping[str, Mapping[str, np.ndarray]],
) -> Figure:
    """Quantities against time, a panel each: the truth in black, every forecast in a colour of its own."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(5.2 * len(names), 3.4), layout="constrained")
        looks = styles(list(imagined))
        for place, (name, unit) in enumerate(zip(names, units, strict=True), start=1):
            axis = figure.add_subplot(1, len(names), place)
            if truth is not None and name in truth:
                axis.plot(time, truth[name], color=INK, linewidth=2, label="truth")
            for called, values in imagined.items():
                axis.plot(time, values[name], color=looks[called][0], linewidth=1.8, label=called)
            axis.axvline(0.0, color=GREY, linewidth=0.8)
            axis.set(xlabel="time after the last true frame (s)", ylabel=f"{name} ({unit})" if unit else name)
        shown = {str(line.get_label()): line for axis in figure.axes for line in axis.get_legend_handles_labels()[0]}
        # above the panels, where no line is in its way
        figure.legend(list(shown.values()), list(shown), loc="outside upper center", ncols=4)
    return figure


def _axis() -> tuple[Figure, Any]:
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    return figure, figure.add_subplot()
