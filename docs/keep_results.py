"""Keep what a study found beside the documents: its claims, its own tables and figures, as small files.

    python docs/keep_results.py studies/factorial-mini studies/counterfactual-mini
    python docs/keep_results.py studies/worlds --name predictors-mini-worlds
    sgjepa claims --results docs/results/claims

writes docs/results/claims/NAME.json and docs/results/studies/NAME/; a name is STUDY-SIZE, unless another part of a study has
to stand beside it. Folders of the machine are left out.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgjepa.core import config, files
from sgjepa.results.claims import read_claims

RESULTS = Path(__file__).parent / "results"
OF_PAGES = ("figures/success_by_*.png", "tables/by_plan.csv", "tables/differences.csv")  # of each world
SHARED = {"by_gravity.csv", "by_horizon.csv", "counterfactual.csv"}  # tables that every report has; large


def told(provenance: dict[str, Any]) -> dict[str, Any]:
    """Without the folders of the machine it was made on."""
    words = provenance["command"].replace("__main__.py", "sgjepa").split()
    return {**provenance, "command": " ".join(Path(word).name if word.startswith("/") else word for word in words)}


def keep(study: Path, name: str | None = None) -> None:
    """One study's results."""
    report = study / "report"
    (found,) = read_claims([report])
    name = name or f"{found.study}-{found.size}"
    place = RESULTS / "studies" / name
    place.mkdir(parents=True, exist_ok=True)
    (RESULTS / "claims").mkdir(exist_ok=True)
    kept = config.to_dict(replace(found, provenance=told(found.provenance)))
    files.write_json(RESULTS / "claims" / f"{name}.json", kept)
    for table in sorted((report / "tables").glob("*.csv")):
        if table.name not in SHARED or table.stem == found.study:
            shutil.copyfile(table, place / table.name)
    for figure in sorted((report / "figures").glob(f"{found.study}*.png")):
        shutil.copyfile(figure, place / figure.name)
    pages = sorted(study.glob("report-*"))  # of its worlds, where it has several or might
    for page in pages:
        head = f"{page.name.removeprefix('report-')}_" if len(pages) > 1 else ""
        for one in sorted(one for pattern in OF_PAGES for one in page.glob(pattern)):
            shutil.copyfile(one, place / f"{head}{one.name}")
    print(f"{place}: {', '.join(path.name for path in sorted(place.iterdir()))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path, nargs="+", metavar="STUDY", help="a study's folder")
    parser.add_argument("--name", help="instead of STUDY-SIZE, for one study")
    options = parser.parse_args()
    if options.name and len(options.studies) > 1:
        parser.error("--name is for one study")
    for folder in options.studies:
        keep(folder, options.name)
