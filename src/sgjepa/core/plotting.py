"""The style of all figures, lines with interval bands, and the figures that `.plot()` returns."""

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
look = matplotlib.rc_context(RC)  # a decorator of functions that draw


def line(axis: Any, x: Any, intervals: Sequence[Interval], colour: str, label: str, marker: str, every: int = 0) -> None:
    """Draw means as a line with markers and intervals as a band. every: points per marker; 0 for about eight in all."""
    mean, low, high = (np.array([getattr(interval, part) for interval in intervals]) for part in ("mean", "low", "high"))
    axis.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
    every = every or max(1, len(intervals) // 8)
    axis.plot(x, mean, color=colour, label=label, marker=marker, markevery=every, markersize=4.5, linewidth=2)


@look
def curves(
    lines: Mapping[str, tuple[np.ndarray, Sequence[Interval]]], across: str, up: str, training: Sequence[float] | None = None
) -> Figure:
    """Means with bands, one line for each arm. training: the range of the horizontal axis that training covered."""
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    axis: Any = figure.add_subplot()
    for name, (colour, marker) in styles(list(lines)).items():
        line(axis, *lines[name], colour, name, marker)
    if training is not None:
        axis.axvspan(*training, color=TRAINING, alpha=0.25, linewidth=0, label="training laws")
    axis.set(xlabel=across, ylabel=up)
    axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    axis.legend()
    return figure


@look
def forecasts(
    names: Sequence[str],
    units: Sequence[str],
    time: np.ndarray,
    truth: Mapping[str, np.ndarray] | None,
    imagined: Mapping[str, Mapping[str, np.ndarray]],
) -> Figure:
    """Quantities against time, one panel each: the truth in black, every forecast in a colour of its own."""
    figure = Figure(figsize=(5.2 * len(names), 3.4), layout="constrained")
    colours = styles(list(imagined))
    for panel, (name, unit) in enumerate(zip(names, units, strict=True), start=1):
        axis = figure.add_subplot(1, len(names), panel)
        if truth is not None and name in truth:
            axis.plot(time, truth[name], color=INK, linewidth=2, label="truth")
        for forecast, values in imagined.items():
            axis.plot(time, values[name], color=colours[forecast][0], linewidth=1.8, label=forecast)
        axis.axvline(0.0, color=GREY, linewidth=0.8)
        axis.set(xlabel="time after the last true frame (s)", ylabel=f"{name} ({unit})" if unit else name)
    handles = {str(line.get_label()): line for axis in figure.axes for line in axis.get_legend_handles_labels()[0]}
    # above the panels, where no line is in its way
    figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=4)
    return figure
