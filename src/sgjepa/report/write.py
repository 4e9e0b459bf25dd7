"""From runs to a folder: index.html, figures/ and tables/. Made again from scratch each time, and swapped in whole."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sgjepa.core import artifact
from sgjepa.core.errors import InputError, one_line
from sgjepa.core.run_folder import STRIPS
from sgjepa.core.tables import to_csv
from sgjepa.report import law_figures, tables, words
from sgjepa.report import method_figures as figures
from sgjepa.report.blocks import plain
from sgjepa.report.content import Content, Finding
from sgjepa.report.page import ANSWER, FIGURES, PAGE, TABLES, comparison
from sgjepa.report.panels import Picture
from sgjepa.results.counterfactual import Counterfactual, counterfactuals
from sgjepa.results.gather import MAIN, Results, gather
from sgjepa.results.training import cost

MADE_BY = "sgjepa report"


def report(runs: Sequence[Path], out: Path, baseline: str | None = None, data: str | None = None) -> Path:
    """Write the report of these runs to the folder `out`; returns the page."""
    artifact.check_output(out, MADE_BY)
    return write_report(gather(runs, baseline, data), out)


def write_report(
    results: Results,
    out: Path,
    note: str = "",
    finding: Finding | None = None,
    made_by: str = MADE_BY,
    question: str = "",
) -> Path:
    """The same of results that were gathered before.

    note: what a reader must know about these runs. finding: what a study computed from them; it comes first, below the
    study's question. made_by: the command, for a folder's marker.
    """
    artifact.check_output(out, made_by)
    compared = tables.comparisons(results)
    changed = counterfactuals(results)
    shown = {region: tables.groups(results, region) for region in results.regions}
    costs = [cost(one) for method in results.methods for one in method.seeds]
    drawn = _pictures(results, changed)
    content = Content(results, shown, compared, changed, costs, artifact.provenance(), drawn, note, finding, question)
    records = {
        "errors": tables.table_records([group for groups in shown.values() for group in groups]),
        "by_horizon": tables.by_horizon(results),
        **{f"by_{axis.name}": tables.by_law(results, [axis.name]) for axis in results.axes},
        "by_laws": tables.by_law(results, results.baseline.first.laws) if len(results.axes) > 1 else [],
        "comparisons": tables.comparison_records(results, compared),
        "counterfactual": tables.counterfactual_records(changed),
        "finding": [dict(zip(finding.head, row, strict=True)) for row in finding.rows] if finding else [],
    }
    said = [*(finding.words if finding else ()), *words.answer(results)]
    written = {
        PAGE: comparison(content).encode(),
        ANSWER: "".join(f"{line}\n" for line in said).encode(),
        **{f"{TABLES}/{plain(name)}.csv": to_csv(rows).encode() for name, rows in records.items() if rows},
        **{name: text.encode() for name, text in (finding.more if finding else {}).items()},
    }
    for pictures in (*drawn.values(), finding.pictures if finding else ()):
        written |= picture_files(pictures)
    with artifact.output_folder(out, made_by, PAGE) as staged:
        for name, data_ in written.items():
            (staged / name).parent.mkdir(exist_ok=True)
            artifact.write_bytes(staged / name, data_)
    return out / PAGE


def picture_files(pictures: Sequence[Picture]) -> dict[str, bytes]:
    """Of a report's folder, by name."""
    kinds = ("svg", "png")
    return {f"{FIGURES}/{plain(one.name)}.{kind}": getattr(one, kind) for one in pictures for kind in kinds}


def _pictures(results: Results, changed: Sequence[Counterfactual]) -> dict[str, list[Picture]]:
    """By section of the page."""
    shown = [metric for metric in results.metrics if metric != "angle_deg"]  # the tables have it
    physical = [metric for metric in shown if metric not in ("nmse", "excess_nmse")]
    return {
        "horizon": [picture for metric in shown for picture in figures.error_by_horizon(results, metric)],
        "law": [
            picture
            for axis in results.axes
            for metric in [*physical, "nmse"]
            for picture in law_figures.error_by_law(results, metric, axis)
        ],
        "map": law_figures.error_map(results, MAIN, *results.axes[:2]) if len(results.axes) > 1 else [],
        "relative": [picture for region in results.regions for picture in figures.bars(results, region)]
        if results.others
        else [],
        "strips": _strips(results),
        "counterfactual": [
            picture
            for i, one in enumerate(changed, start=1)
            for axis in results.axes
            if axis.name == one.law
            for picture in law_figures.counterfactual(axis, one, i)
        ],
        "scale": figures.references(results, MAIN),
        "training": figures.training_curves(results.methods),
    }


def _strips(results: Results) -> list[Picture]:
    """Of each method's first seed that has them."""
    found = []
    for number, method in enumerate(results.methods, start=1):
        for one in method.seeds:
            path = one.folder / STRIPS
            if path.is_file():
                path = one.checked(STRIPS)
                try:
                    with np.load(path) as file:
                        arrays = {name: file[name] for name in ("truth", "decoded", "horizon", "law", "inside")}
                except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
                    raise InputError(f"{path} cannot be read as strips ({one_line(error, 80)})") from error
                found += figures.strips(results, method.label, number, arrays)
                break
    return found
