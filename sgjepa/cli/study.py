"""`sgjepa study`: one question of the paper, from trainings to an answer."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from sgjepa.cli import shared

ABOUT = "answer one question of the paper: train and evaluate what it compares, then a report"
EXAMPLE = "sgjepa study factorial --size mini --seeds 3"


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument("study", nargs="?", help="its name; without one, all studies are listed with their questions")
    shared.size_flag(parser)
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="trainings of each cell (default: %(default)s)")
    parser.add_argument("--updates", type=int, metavar="N", help="of each training, instead of the recipe's own")
    shared.datasets_flag(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="runs and report (default: studies/STUDY-SIZE)")


def run(options: Namespace) -> None:
    """The study of that name, or the list of them."""
    shared.prepare_for_torch()
    from sgjepa import studies

    if options.study is None:
        for name, question in studies.listing().items():
            print(f"{name:20s} {question}")
        return
    shared.need_matplotlib()
    from sgjepa.report.write import report

    main = studies.find(options.study)
    shared.need_seeds(options)
    out = options.out or Path("studies") / f"{options.study}-{options.size}"
    outcome = main(out / "runs", options.datasets, options.size, options.seeds, options.updates)
    page = report(outcome.folders, out / "report", study=outcome.finding)
    print(page)
    shared.say_verdict(page.parent)
