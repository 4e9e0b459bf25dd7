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


PACKAGE = ROOT / "src" / "sgjepa"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ROOMS = "|".join(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
EXAMPLES = {"src/sgjepa/experiments/NAME.py", "src/sgjepa/experiments/rollout_steps.py", "docs/results/claims/NAME.json"}
_FILE = re.compile(r"(?<![\w/.<>-])((?:src|tests|docs|benchmarks|scripts)/[\w/-]+\.(?:py|md|json|csv|ipynb))\b")
_MODULE = re.compile(rf"(?<![\w/.-])((?:{ROOMS})/[\w/]+\.py)\b")
_DOTTED = re.compile(r"\bsgjepa(?:\.[a-z]\w*)+")
_IMPORTED = re.compile(r"from (sgjepa(?:\.\w+)*) import (\w+)")  # also in the code that a string holds


@pytest.mark.parametrize("page", [*PAGES, *SOURCES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_and_module_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = {name for name in _FILE.findall(text) if not (ROOT / name).exists()} - EXAMPLES
    missing |= {name for name in _MODULE.findall(text) if not (PACKAGE / name).exists()}
    named = [*_DOTTED.findall(text), *(".".join(parts) for parts in _IMPORTED.findall(text))]
    missing |= {name for name in named if not is_known(name)}
    assert missing == set()


def is_known(name: str) -> bool:
    """Whether a dotted name is a module of the package, or a word in the innermost module that it begins with."""
    if name in ("sgjepa.plugins", "sgjepa.register_"):  # a group of entry points, a family of names
        return True
    *outer, last = name.split(".")
    path = ROOT / "src" / Path(*outer)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if (path / last).is_dir() or (path / f"{last}.py").exists():
        return True
    if not file.is_file():  # an attribute of an attribute
        return len(outer) > 1 and is_known(".".join(outer))
    return re.search(rf"\b{last}\b", file.read_text(encoding="utf-8")) is not None


def test_a_name_that_is_gone_is_noticed() -> None:
    assert is_known("sgjepa.envs.render.opengl")
    assert is_known("sgjepa.Dataset.open")
    assert not is_known("sgjepa.envs.render.gl")
    assert not is_known("sgjepa.control.plan")


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
