"""What every figure of the report shares: colours, one panel per picture, lines with bands, legends below."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from sgjepa.core.plotting import RC
from sgjepa.report import blocks
from sgjepa.report.words import measured

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


def axis_name(metric: str) -> str:
    """A metric with its unit."""
    return measured(metric)
