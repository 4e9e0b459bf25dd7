"""The report of an experiment, until experiments build their pages themselves."""

from __future__ import annotations

from pathlib import Path

from sgjepa.report.content import Finding
from sgjepa.report.forecast import MADE_BY, forecast_page
from sgjepa.report.page import write_page
from sgjepa.results.gather import Results


def write_report(
    results: Results,
    out: Path,
    note: str = "",
    finding: Finding | None = None,
    made_by: str = MADE_BY,
    question: str = "",
) -> Path:
    """Write the page; returns it."""
    answer, lead = (finding.words, [finding.section]) if finding else ((), [])
    return write_page(forecast_page(results.as_table, note, question, answer, lead), out, made_by)
