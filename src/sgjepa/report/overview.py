"""The page of an experiment over several worlds, until experiments build their pages themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sgjepa.report.content import Finding
from sgjepa.report.page import overview_page, write_page


def overview(finding: Finding, question: str, claim: str, reports: Mapping[str, Path], out: Path, made_by: str) -> Path:
    """Write the page; returns it."""
    return write_page(overview_page(question, claim, finding.words, [finding.section], reports, out), out, made_by)
