"""The documents hang together: links lead somewhere, every stage is shown, and the paper is cited in one way."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from PIL import Image

from sgjepa import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), target


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


def test_the_list_of_commands_shows_every_stage_in_the_order_of_use() -> None:
    block = re.search(r"```bash\n(.*?)```", (ROOT / "docs" / "commands.md").read_text(), re.DOTALL)
    assert block
    shown = [line.split()[1] for line in block[1].splitlines()]
    assert list(dict.fromkeys(shown)) == list(cli.COMMANDS)


def test_the_citation_file_and_the_bibtex_name_the_same_paper() -> None:
    bibtex, cff = (ROOT / "README.md").read_text(), (ROOT / "CITATION.cff").read_text()
    names = re.findall(r"family-names: (.*)\n +given-names: (.*)", cff)
    assert f"author = {{{' and '.join(f'{last}, {first}' for last, first in names)}}}" in bibtex
    title = re.findall(r'^  title: "(.*)"$', cff, re.MULTILINE)
    assert [f"title  = {{{one}}}" in bibtex for one in title] == [True]


def test_the_tables_are_what_the_results_say() -> None:
    """`python docs/make_tables.py` would change nothing."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make_tables
    finally:
        sys.path.pop(0)
    named = [name for page in make_tables.PAGES for name in re.findall(r"<!-- table (\w+) -->", page.read_text())]
    assert set(named) == set(make_tables.TABLES), "every table stands somewhere, and none is unknown"
    for page in make_tables.PAGES:
        assert make_tables.filled(page.read_text()) == page.read_text(), page.name


def test_the_film_of_the_viewer_moves_and_is_quickly_loaded() -> None:
    """Made by `python docs/make_film.py`."""
    film = ROOT / "docs" / "images" / "viewer.webp"
    assert film.stat().st_size < 1_000_000
    with Image.open(film) as opened:
        assert getattr(opened, "n_frames", 1) > 20
