"""The page: one HTML file with its style and pictures inside, so that it opens from disk and can be sent to somebody.

What it shows comes from files that somebody may have sent, too: every text is escaped, and the page forbids its reader's
browser to run a script or to fetch anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from sgjepa.report import origin, parts, sections, words
from sgjepa.report.content import Content
from sgjepa.report.sections import Section
from sgjepa.report.words import count

STYLE = Path(__file__).with_name("page.css")
MORE = "Everything else that was measured"
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(content: Content) -> str:
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
