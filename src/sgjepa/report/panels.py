"""What every figure of the report shares: colours, one panel per picture, lines with bands, legends below."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from sgjepa.core.plotting import RC
from sgjepa.data.probe_targets import METRICS
from sgjepa.report import blocks
from sgjepa.results.gather import unit

Picture = blocks.Figure


@contextmanager
def panel(pictures: list[Picture], name: str, alt: str, size: tuple[float, float] = (5.2, 3.9), **how: Any) -> Iterator[Any]:
    """An axis to draw on; closing it makes the files' bytes."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=size, dpi=144, layout="constrained")
        canvas: Any = FigureCanvasAgg(figure)
        axis = figure.add_subplot()
        yield axis
        axis.set_title(textwrap.fill(axis.get_title(loc="left"), int(8.8 * size[0])))  # so many letters fit into an inch
        layout: Any = figure.get_layout_engine()
        layout.execute(figure)  # once; each of the files would do it again
        figure.set_layout_engine("none")
        png, svg = io.BytesIO(), io.BytesIO()
        canvas.print_png(png, metadata={"Software": None})
        vector: Any = FigureCanvasSVG(figure)
        vector.print_svg(svg, metadata={"Date": None})
    pictures.append(Picture(name, alt, svg.getvalue(), png.getvalue(), **how))


def legend(axis: Any, handles: list[Any] | None = None) -> None:
    """Below the axis, in two columns: nothing of the data is covered."""
    found = handles if handles is not None else axis.get_legend_handles_labels()[0]
    axis.figure.legend(handles=found, loc="outside lower center", ncols=2, handlelength=2.2, columnspacing=1.6)


def plain_log(axis: Any) -> None:
    """A logarithmic scale whose numbers are written out; those between powers of ten only where there is no room for two."""
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(plain)
    axis.yaxis.set_minor_formatter(plain if np.ptp(np.log10(axis.get_ylim())) < 1 else NullFormatter())


def axis_name(metric: str) -> str:
    """A metric with its unit, as an axis is called."""
    name = METRICS[metric]
    return f"{name[0].upper()}{name[1:]}" + (f" ({unit(metric)})" if unit(metric) else "")
