"""`sgjepa study`: one question of the paper, from trainings to an answer."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from sgjepa.cli import shared

ABOUT = "answer one question of the paper: train and evaluate what it compares, then a report"
RUNS = Path("studies/runs")
EXAMPLE = "sgjepa study factorial --size mini --seeds 3"


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument("study", nargs="?", help="its name; without one, all studies are listed with their questions")
    shared.size_flag(parser)
    parser.add_argument("--seeds", type=int, metavar="N", help="trainings of each cell (default: the study's own number)")
    parser.add_argument("--updates", type=int, metavar="N", help="of each training, instead of the recipe's own")
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="NAME", help="these of its cells, also as patterns: '*_gru' (default: all)"
    )
    shared.datasets_flag(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="the report (default: studies/STUDY-SIZE)")
    parser.add_argument(
        "--runs", type=Path, default=RUNS, metavar="DIR", help="trainings, shared by all studies (default: %(default)s)"
    )


def run(options: Namespace) -> None:
    """The study of that name, or the list of them."""
    shared.prepare_for_torch()
    from sgjepa import studies

    if options.study is None:
        print(studies.listing())
        return
    shared.need_matplotlib()

    study = studies.find(options.study)
    out = options.out or Path("studies") / f"{options.study}-{options.size}"
    given = {"seeds": options.seeds, "updates": options.updates, "only": options.only, "runs": options.runs}
    page = study.run(options.size, out, options.datasets, **given)
    print(page)
    shared.say_verdict(page.parent)
