"""BenchmarkEnv of a page: cells show what their numbers say, files hold the numbers in full, and no text becomes a tag."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from sgjepa.core.errors import InputError
from sgjepa.core.stats import Interval
from sgjepa.report.blocks import Code, Data, Figure, Film, Group, Label, Link, Number, Row, Section, Table, Text, Verdict
from sgjepa.report.blocks import cell_html as shown
from sgjepa.report.page import Page, write_page

MARKUP = "<script>alert(1)</script>\"'&"
GAP = Interval(-0.1234, -0.2, -0.05, 50)


def test_a_number_shows_its_interval_and_marks() -> None:
    assert shown(GAP) == "\N{MINUS SIGN}0.123<small>\N{MINUS SIGN}0.200 to \N{MINUS SIGN}0.050</small>"
    assert shown(Number(Interval(0.5, 0.4, 0.6, 9), 2)).endswith("0.40 to 0.60 \N{DAGGER}</small>"), "few episodes"
    assert shown(Number(Interval(0.5, 0.4, 0.6, 50), 1, scale=100)).startswith("50.0<small>40.0 to 60.0")
    assert shown(Number(Interval(0.5, 0.4, 0.6, 50), 1, signed=True)).startswith("+0.5")
    assert shown(Number(Interval(0.59, 0.5, 0.7, 50), change=True)).startswith("\N{MINUS SIGN}41 %<small>")
    assert shown(Number(GAP, mark="best")).startswith("<b>")
    assert shown(Number(GAP, mark="second")).startswith("<u>")
    assert shown(Number(GAP, verdict="better")).startswith('<span class="chip better">better</span>')
    assert shown(Verdict("not significant")) == '<span class="chip undecided">not significant</span>'
    nan = float("nan")
    assert shown(Interval(0.5, nan, nan, 0)) == "0.500", "the paper's numbers have no interval"
    assert shown(Interval(nan, nan, nan, 0)) == shown(None) == shown(nan) == "–"


def test_a_file_holds_the_numbers_in_full() -> None:
    rows = (Group("far"), (Label("ours", "#000"), Number(GAP)), Group("near"), ("theirs", None))
    first, second = Table(("method", "error"), rows).csv
    numbers = {"error": -0.1234, "error_low": -0.2, "error_high": -0.05, "error_episodes": 50}
    assert first == {"group": "far", "method": "ours", **numbers}
    assert second == {"group": "near", "method": "theirs", **dict.fromkeys(numbers, "")}


def page(words: str) -> Page:
    drawn = Figure(words, words, b"<svg/>", b"\x89PNG", caption=words)
    rows = (Group(words), Row((Label(words, "#000", words), Code(words)), "paper"), (Verdict(words, words), words))
    table = Table((words, words), rows, words, "../" + words)
    sections = [
        Section(words, [Text(words, code=words), drawn, Film(words, words, b"RIFF", words)]),
        Section("second", [table, Data("more", [{"a": 1.5}])], folded=True),
        Section("empty", [Table(("a",), ())]),
    ]
    return Page(words, [words, words], [words, Link(words, "../other/index.html")], sections, [Text(words)], words, words)


def test_no_text_becomes_a_tag_and_no_name_leads_elsewhere(tmp_path: Path) -> None:
    text = write_page(page(MARKUP), tmp_path / "out", "a test").read_text()
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 15
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_page_is_whole_with_its_files_beside_it(tmp_path: Path) -> None:
    out = write_page(page("words"), tmp_path / "out", "a test").parent
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file() and path.name[0] != "."}
    assert {"index.html", "answer.txt", "figures/words.svg", "figures/words.png", "films/words.webp"} < names
    assert {"tables/_words.csv", "tables/more.csv"} < names
    assert list(csv.DictReader((out / "tables" / "more.csv").open())) == [{"a": "1.5"}]
    text = (out / "index.html").read_text()
    assert 'id="words"' in text
    assert 'href="#more"' in text, "what is folded stands under one heading"
    assert ">empty<" not in text
    with pytest.raises(InputError, match="was made by `a test`, not by `another`"):
        write_page(page("words"), out, "another")
