"""`sgjepa study`: an experiment of the paper, from trainings to a report."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from sgjepa.cli import arguments
from sgjepa.core import errors
from sgjepa.core.errors import InputError, one_line, unknown

ABOUT = "answer one question of the paper: train and evaluate what it compares, then a report"
RUNS = Path("studies/runs")
EXAMPLE = "sgjepa study factorial --size mini --seeds 3"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("study", nargs="?", help="its name; all: every one, in the order of value; omit it for a list")
    arguments.add_size(parser)
    parser.add_argument("--seeds", type=int, metavar="N", help="trainings of each arm (default: the study's)")
    parser.add_argument("--updates", type=int, metavar="N", help="updates of each training (default: the recipe's)")
    arguments.add_set(parser, "every world model that is trained")
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="NAME",
        help="run only these arms; patterns such as '*_gru' are allowed (default: all)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="trainings side by side (default: one per core)")
    arguments.add_datasets(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="the report (default: studies/STUDY-SIZE, with what --set changes); of all, the folder that holds them",
    )
    parser.add_argument(
        "--runs", type=Path, default=RUNS, metavar="DIR", help="trainings, shared by all studies (default: %(default)s)"
    )


def run(options: Namespace) -> None:
    """Run the study of that name, or all of them, or print the list."""
    from sgjepa import experiments
    from sgjepa.recipes.datasets import SIZES

    if options.study is None:
        print(experiments.listing())
        return
    arguments.prepare_for_torch()
    if options.size not in SIZES:
        raise unknown("size", options.size, SIZES)
    arguments.require_matplotlib()
    if options.study == experiments.EVERYTHING:
        _run_all(options)
    else:
        experiments.EXPERIMENTS.lookup(options.study)
        _run(options, options.study, options.out or Path("studies") / _folder(options, options.study), options.only)


def _folder(options: Namespace, name: str) -> str:
    """The folder name of a study's report."""
    changed = "".join(f"-{path.rpartition('.')[2]}{value}" for path, value in _settings(options).items())
    return re.sub(r"[^\w.+-]", "_", f"{name}-{options.size}{changed}")


def _settings(options: Namespace) -> dict[str, str]:
    own = dict.fromkeys(("name", "data", "init"), "is the study's own; leave it out") | {"seed": "use --seeds"}
    length = "the length is given by --updates, too; leave one out"
    twice = dict.fromkeys(("train.epochs", "train.updates"), length) if options.updates is not None else {}
    return arguments.parse_settings(options, own | twice)


def _run(options: Namespace, name: str, out: Path, only: Sequence[str]) -> None:
    from sgjepa import experiments
    from sgjepa.experiments.engine import Request

    shared = {name: getattr(options, name) for name in ("seeds", "updates", "workers", "runs")}
    page = experiments.EXPERIMENTS.lookup(name).run(
        Request(options.size, out, options.datasets, only=only, settings=_settings(options), **shared)
    )
    print(page)
    arguments.print_answer(page.parent)


def _run_all(options: Namespace) -> None:
    """Run all studies in turn. A failure is printed in one line and the rest continues; exits with the first one's code."""
    from sgjepa import experiments

    if options.only:
        raise InputError("--only is for one study; `all` takes every arm of each")
    order = {name: only for name, only in experiments.ORDER.items() if name in experiments.EXPERIMENTS}
    failed: dict[str, Exception] = {}
    for number, (name, only) in enumerate(order.items(), start=1):
        print(f"{number} of {len(order)}: {experiments.EXPERIMENTS.lookup(name).question}", flush=True)
        try:
            _run(options, name, (options.out or Path("studies")) / _folder(options, name), only)
        except Exception as error:
            failed[name] = error
            print(f"sgjepa: study {name} failed: {one_line(error)}", file=sys.stderr, flush=True)
    if failed:
        first = next(iter(failed.values()))
        known = errors.expected(first)
        message = f"{len(failed)} of {len(order)} studies failed: {', '.join(failed)}; run the same command again to go on"
        raise (RuntimeError if known is None else type(known))(message) from first
