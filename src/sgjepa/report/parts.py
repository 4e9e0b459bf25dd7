"""Pieces of the page: sentences, chips, cards, figures and tables as HTML."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape

from sgjepa.core.methods import styles
from sgjepa.core.stats import Interval
from sgjepa.report.panels import Picture
from sgjepa.report.tables import TITLES, Cell
from sgjepa.report.words import DAGGER, few, fixed, table_number
from sgjepa.results.compare import Method
from sgjepa.results.gather import Results, unit


def text(sentence: str) -> str:
    """Escaped; a number stays with its unit."""
    return re.sub(r"(?<=\d) (?=(%|m|m/s|turns)\b|%)", "&nbsp;", escape(sentence))


def answer(sentences: Sequence[str]) -> str:
    """The sentences that a page is for, the first of them large."""
    first, *others = sentences
    return f'<p class="answer">{text(first)}</p>' + (f"<p>{text(' '.join(others))}</p>" if others else "")


def number(value: object, form: str = "") -> str:
    """As it is written; what is not a number, in a file that somebody edited, as text."""
    return f"{value:{form}}" if isinstance(value, (int, float)) else escape(str(value))


def dot(results: Results, method: Method) -> str:
    """A method's colour."""
    colour = styles([one.label for one in results.methods])[method.label][0]
    return f'<span class="dot" style="--colour: {colour}"></span>'


def _ends(low: str, high: str, episodes: int) -> str:
    """An interval below a number, marked where it rests on few episodes."""
    return f"<small>{low} to {high}{f' {DAGGER}' if few(episodes) else ''}</small>"


def card(title: str, items: Iterable[str], colour: str) -> str:
    """Sentences (HTML) under a heading, with a method's colour at its side."""
    listed = "".join(f"<li>{item}</li>" for item in items)
    return f'<article class="card" style="--colour: {colour}"><h3>{escape(title)}</h3><ul>{listed}</ul></article>'


def chip(word: str) -> str:
    """A verdict, as a word and a colour."""
    return f'<span class="chip {word}">{word}</span>'


def figures(pictures: Sequence[Picture], caption: str) -> str:
    """Pictures side by side where there is room."""
    columns = "figures three" if len(pictures) == 3 else "figures"
    shown = "".join(figure(picture) for picture in pictures)
    return f'<p class="quiet">{text(caption)}</p><div class="{columns}">{shown}</div>'


def figure(picture: Picture) -> str:
    """One picture, inside the page."""
    kind, data = ("png", picture.png) if picture.raster else ("svg+xml", picture.svg)
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    wide = ' class="wide"' if picture.wide else ""
    return f'<figure{wide}><img src="{source}" alt="{escape(picture.alt)}"></figure>'


def percent(one: Interval) -> str:
    """A ratio as a change: "−41 %", with its interval."""

    def change(value: float) -> str:
        number = fixed(100 * (value - 1), 0)
        return number if number.startswith("\N{MINUS SIGN}") or number == "0" else f"+{number}"

    return f"{change(one.mean)} %{_ends(change(one.low), change(one.high), one.count)}"


def rise(one: Interval) -> str:
    """A difference with its sign, and its interval."""
    plus = "+" if one.mean > 0 else ""
    return f"{plus}{fixed(one.mean, 3)}{_ends(fixed(one.low, 3), fixed(one.high, 3), one.count)}"


def cell(found: Cell | None, metric: str) -> str:
    """A mean with its mark, and its interval below."""
    if found is None:
        return "<td>–</td>"
    one = found.interval
    mean = table_number(one.mean, metric)
    wrapped = {"best": f"<b>{mean}</b>", "second": f"<u>{mean}</u>", "": mean}[found.mark]
    known = one.low == one.low  # the paper gives no intervals
    small = _ends(table_number(one.low, metric), table_number(one.high, metric), one.count) if known else ""
    return f'<td class="{found.mark}">{wrapped}{small}</td>' if found.mark else f"<td>{wrapped}{small}</td>"


def commit(provenance: dict[str, object]) -> str:
    """Ten characters of it, and "+" if the code was edited."""
    found = provenance.get("commit")
    return "not recorded" if not found else str(found)[:10] + ("+" if str(found).endswith("+") else "")


def table(caption: str, head: str, body: str) -> str:
    """Wider than the screen, it scrolls inside its box; the caption stands outside."""
    rows = f'<table aria-label="{escape(caption)}"><thead>{head}</thead>{body}</table>'
    return f'<div class="table"><p class="caption">{text(caption)}</p><div class="scroll">{rows}</div></div>'


def span(metric: str, columns: int) -> str:
    """A table's line that names the metric below it."""
    name = TITLES[metric] + (f" ({unit(metric)})" if unit(metric) else "")
    return f'<tr><th colspan="{columns}">{escape(name)}</th></tr>'
