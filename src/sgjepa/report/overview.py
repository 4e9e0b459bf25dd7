"""The page of a study over several worlds: its table, and links to each world's own report."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from sgjepa.core import artifact
from sgjepa.core.tables import to_csv
from sgjepa.report import parts, sections
from sgjepa.report.content import Finding
from sgjepa.report.page import ANSWER, PAGE, TABLES, document
from sgjepa.report.write import picture_files


def overview(finding: Finding, question: str, claim: str, reports: Mapping[str, Path], out: Path, made_by: str) -> Path:
    """Write the page to the folder `out`; returns it. reports: the worlds' pages, by name."""
    links = "".join(
        f'<li><a href="{escape(_relative(place, out))}">{escape(world.replace("_", " "))}</a></li>'
        for world, place in reports.items()
    )
    made = artifact.provenance()
    facts = f'<p>{escape(claim)}</p><ul class="facts">{links}</ul>'
    foot = f"<h2>Where this comes from</h2><p>{escape(str(made['command']))}, commit {escape(parts.commit(made))}.</p>"
    shown = [sections.Section("finding", finding.title, sections.finding(finding))]
    texts = {
        PAGE: document(question, question, facts, shown, foot),
        ANSWER: "".join(f"{line}\n" for line in finding.words),
        f"{TABLES}/finding.csv": to_csv([dict(zip(finding.head, row, strict=True)) for row in finding.rows]),
        **finding.more,
    }
    written = {name: text.encode() for name, text in texts.items()} | picture_files(finding.pictures)
    with artifact.output_folder(out, made_by, PAGE) as staged:
        for name, content in written.items():
            (staged / name).parent.mkdir(exist_ok=True)
            artifact.write_bytes(staged / name, content)
    return out / PAGE


def _relative(page: Path, out: Path) -> str:
    """From the overview's folder; reports lie beside it."""
    return f"../{page.parent.name}/{page.name}" if page.parent.parent == out.parent else page.as_posix()
