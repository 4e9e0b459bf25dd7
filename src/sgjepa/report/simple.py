"""Figures for a notebook: what `.plot()` of a forecast and of results returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from sgjepa.core.stats import Interval
from sgjepa.report.colours import GREY, styles
from sgjepa.report.panels import INK, RC, TRAINING, line


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
            if truth is not None:
                axis.plot(time, truth[name], color=INK, linewidth=2, label="truth")
            for called, values in imagined.items():
                axis.plot(time, values[name], color=looks[called][0], linewidth=1.8, label=called)
            axis.axvline(0.0, color=GREY, linewidth=0.8)
            axis.set(xlabel="time after the last true frame (s)", ylabel=f"{name} ({unit})" if unit else name)
            axis.legend()
    return figure


def _axis() -> tuple[Figure, Any]:
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    return figure, figure.add_subplot()
