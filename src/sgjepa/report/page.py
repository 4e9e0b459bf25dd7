"""The page: one self-contained HTML file with its style and pictures, which opens from disk.

Its contents may come from untrusted files: every text is escaped, and the page's policy forbids scripts and requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from sgjepa.core import artifact
from sgjepa.core.provenance import provenance
from sgjepa.core.tables import to_csv
from sgjepa.report.blocks import Block, Data, Figure, Film, Link, Section, Table, Text, blocks_html, cell_html, html, plain

STYLE = Path(__file__).with_name("page.css")
MORE = "More results"
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
PAGE, ANSWER, FIGURES, TABLES, FILMS = "index.html", "answer.txt", "figures", "tables", "films"


@dataclass(frozen=True)
class Page:
    """A page. title: the question. answer: sentences, the first of them large. facts: short, in a row.

    origin: blocks on provenance. about: one or two sentences on the method. subject: added to the title of the tab.
    """

    title: str
    answer: Sequence[str]
    facts: Sequence[str | Link]
    sections: Sequence[Section]
    origin: Sequence[Block] = ()
    about: str = ""
    subject: str = ""

    @property
    def html(self) -> str:
        """The HTML file: header, sections that are not empty, and provenance."""
        parts = [(section, body) for section in self.sections if (body := section.html)]
        links = "".join(_link(section.anchor, section.title) for section, _ in parts if not section.folded)
        main = "".join(
            f'<section id="{escape(section.anchor)}"><h2>{escape(section.title)}</h2>{body}</section>\n'
            for section, body in parts
            if not section.folded
        )
        folded = "".join(
            f'<details id="{escape(section.anchor)}"><summary><h3>{escape(section.title)}</h3></summary>{body}</details>\n'
            for section, body in parts
            if section.folded
        )
        if folded:
            links += _link("more", MORE)
            main += f'<section id="more"><h2>{MORE}</h2>{folded}</section>\n'
        return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(f"{self.title} {self.subject}".strip())}</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>{escape(self.title)}</h1>
{self._head}
<nav aria-label="Sections">{links}{_link("origin", "Provenance")}</nav>
</header>
<main>
{main}</main>
<footer id="origin">
<h2>Provenance</h2>{blocks_html(self.origin)}
</footer>
</body>
</html>
"""

    @property
    def _head(self) -> str:
        first, *others = [html(sentence) for sentence in self.answer] or [""]
        answer = f'<p class="answer">{first}</p>' if first else ""
        answer += f"<p>{' '.join(others)}</p>" if others else ""
        about = Text(self.about, quiet=True).html if self.about else ""
        facts = "".join(f"<li>{cell_html(fact)}</li>" for fact in self.facts)
        return answer + about + (f'<ul class="facts">{facts}</ul>' if facts else "")

    @property
    def files(self) -> dict[str, bytes]:
        """The contents of all files, by name in the page's folder."""
        files = {PAGE: self.html.encode(), ANSWER: "".join(f"{line}\n" for line in self.answer).encode()}
        for block in [*(block for section in self.sections for block in section.blocks), *self.origin]:
            if isinstance(block, Figure):
                files |= {f"{FIGURES}/{plain(block.name)}.{kind}": getattr(block, kind) for kind in ("svg", "png")}
            elif isinstance(block, Film):
                files[f"{FILMS}/{plain(block.name)}.webp"] = block.webp
            elif isinstance(block, (Table, Data)) and block.name and block.csv:
                files[f"{TABLES}/{plain(block.name)}.csv"] = to_csv(block.csv).encode()
        return files


def _link(anchor: str, title: str) -> str:
    return f'<a href="#{escape(anchor)}">{escape(title)}</a>'


def write_page(page: Page, folder: Path, made_by: str) -> Path:
    """Write the page and its files to a folder, atomically; returns the page's path.

    made_by: the command, whose earlier page it may replace.
    """
    files = page.files
    with artifact.artifact(folder, {}, made_by, replace=True) as new:
        for name, content in files.items():
            (new.path / name).parent.mkdir(exist_ok=True)
            (new.path / name).write_bytes(content)
    return folder / PAGE


def overview_page(
    question: str, claim: str, answer: Sequence[str], sections: Sequence[Section], pages: Mapping[str, Path], out: Path
) -> Page:
    """The page of an experiment in several worlds.

    claim: the paper's claim. answer: verdicts, a sentence each. pages: by world. out: the page's folder.
    """
    links = [Link(world.replace("_", " "), _relative(page, out)) for world, page in pages.items()]
    return Page(question, answer, links, sections, this_page(), about=claim)


def _relative(page: Path, out: Path) -> str:
    """The address of a page from another folder, relative for pages of one experiment."""
    return f"../{page.parent.name}/{page.name}" if page.parent.parent == out.parent else page.as_posix()


def this_page(contents: str = "") -> list[Text]:
    """The provenance of the page that is being written. contents: of its folder."""
    made = provenance()
    line = Text(f"This page: {made['command']}, commit {commit(made)}, {made['made']}.")
    return [line, Text(f"In the same folder: {contents}.")] if contents else [line]


def commit(provenance: Mapping[str, Any]) -> str:
    """Ten characters of a commit, and "+" if the code was edited."""
    known = provenance.get("commit")
    return "not recorded" if not known else str(known)[:10] + ("+" if str(known).endswith("+") else "")
