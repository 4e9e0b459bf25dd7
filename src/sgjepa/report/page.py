"""The page: one HTML file with its style and pictures inside, so that it opens from disk and can be sent to somebody.

What it shows comes from files that somebody may have sent, too: every text is escaped, and the page forbids its reader's
browser to run a script or to fetch anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from sgjepa.core import artifact
from sgjepa.core.tables import to_csv
from sgjepa.report import blocks, origin, parts, sections, words
from sgjepa.report.blocks import Block, Data, Figure, Film, Link, Table, plain
from sgjepa.report.content import Content
from sgjepa.report.sections import Section
from sgjepa.report.words import count

STYLE = Path(__file__).with_name("page.css")
MORE = "Everything else that was measured"
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


PAGE, ANSWER, FIGURES, TABLES, FILMS = "index.html", "answer.txt", "figures", "tables", "films"


@dataclass(frozen=True)
class Page:
    """title: the question. answer: sentences, the first of them large. facts: short, in a row.

    about: how it was found out, in a sentence. subject: of the title in a browser's tab. origin: where all comes from.
    """

    title: str
    answer: Sequence[str]
    facts: Sequence[str | Link]
    sections: Sequence[blocks.Section]
    origin: Sequence[Block] = ()
    about: str = ""
    subject: str = ""

    @property
    def html(self) -> str:
        """The whole file."""
        shown = [Section(one.anchor, one.title, one.html, one.folded) for one in self.sections]
        answer = parts.answer(self.answer) if self.answer else ""
        about = blocks.Text(self.about, quiet=True).html if self.about else ""
        facts = "".join(f"<li>{blocks.cell_html(fact)}</li>" for fact in self.facts)
        facts = f'<ul class="facts">{facts}</ul>' if facts else ""
        foot = f"<h2>Where this comes from</h2>{blocks.blocks_html(self.origin)}"
        return document(f"{self.title} {self.subject}".strip(), self.title, f"{answer}{about}{facts}", shown, foot)

    @property
    def files(self) -> dict[str, bytes]:
        """Everything that is written, by its name in the page's folder."""
        found = {PAGE: self.html.encode(), ANSWER: "".join(f"{line}\n" for line in self.answer).encode()}
        for block in [*(block for one in self.sections for block in one.blocks), *self.origin]:
            if isinstance(block, Figure):
                found |= {f"{FIGURES}/{plain(block.name)}.{kind}": getattr(block, kind) for kind in ("svg", "png")}
            elif isinstance(block, Film):
                found[f"{FILMS}/{plain(block.name)}.webp"] = block.webp
            elif isinstance(block, (Table, Data)) and block.name and block.csv:
                found[f"{TABLES}/{plain(block.name)}.csv"] = to_csv(block.csv).encode()
        return found


def write_page(page: Page, folder: Path, made_by: str, known: Sequence[str] = ()) -> Path:
    """Write the page and what lies beside it to a folder, whole or not at all; returns the page.

    made_by: the command, whose earlier page it may replace. known: what else of ours may be there.
    """
    written = page.files
    with artifact.output_folder(folder, made_by, PAGE, known) as staged:
        for name, content in written.items():
            (staged / name).parent.mkdir(exist_ok=True)
            artifact.write_bytes(staged / name, content)
    return folder / PAGE


def comparison(content: Content) -> str:
    """The whole page of a comparison of world models."""
    results = content.results
    change = "changes" if len(results.axes) == 1 else "change"
    usual = f"Does it stay right when {results.changed} {change}?" if results.axes else "Does it stay right for long?"
    question = content.question or usual
    title = f"{question} {results.world.replace('_', ' ')}"
    return document(title, question, _facts(content), sections.sections(content), origin.origin(content))


def document(title: str, heading: str, facts: str, several: Sequence[Section], foot: str) -> str:
    """A page with its style: what it is about (HTML), the sections that have something to show, and where it comes from."""
    shown = [one for one in several if one.body and not one.folded]
    folded = [one for one in several if one.body and one.folded]
    links = "".join(f'<a href="#{one.name}">{escape(one.title)}</a>' for one in shown)
    body = "".join(f'<section id="{one.name}"><h2>{escape(one.title)}</h2>{one.body}</section>\n' for one in shown)
    if folded:
        links += f'<a href="#more">{MORE}</a>'
        inside = "".join(
            f'<details id="{one.name}"><summary><h3>{escape(one.title)}</h3></summary>{one.body}</details>\n'
            for one in folded
        )
        body += f'<section id="more"><h2>{MORE}</h2>{inside}</section>\n'
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>{escape(heading)}</h1>
{facts}
<nav aria-label="Sections">{links}<a href="#origin">Where this comes from</a></nav>
</header>
<main>
{body}</main>
<footer id="origin">
{foot}
</footer>
</body>
</html>
"""


def _facts(content: Content) -> str:
    """The answer, unless a study has its own, what was done to get it, and the settings."""
    results = content.results
    laws = []
    for axis in results.axes:
        low, high = axis.values[0], axis.values[-1]
        tested = f"tested at {len(axis.values)} {axis.several}, {low:g} to {high:g}".replace("-", "\N{MINUS SIGN}")
        laws += [f"trained at {axis.trained}", tested]
    seeds = sorted({len(method.seeds) for method in results.methods})
    seed_word = "seed" if seeds[-1] == 1 else "seeds"
    facts = [
        f"world: {results.world.replace('_', ' ')}",
        *laws,
        count(results.episodes("all"), "test episode"),
        f"{results.last} steps predicted",
        f"{'–'.join(str(n) for n in sorted({seeds[0], seeds[-1]}))} training {seed_word} per method",
        f"dataset {results.baseline.first.folder.name}",
    ]
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    narrow = f"trained on a narrow band of {results.changed}, " if results.axes else ""
    under = " under other laws" if results.axes else ""
    text = (
        f"The models were {narrow}shown true frames of held-out episodes{under}, and left to predict {results.last} steps "
        "on their own: a rollout. A probe reads where the object is from their latents."
    )
    said = "" if content.finding else parts.answer(words.answer(results))
    return f'{said}<p class="quiet">{escape(text)}</p><ul class="facts">{items}</ul>'
