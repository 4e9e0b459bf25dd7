"""`sgjepa report`: evaluated runs on one page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from sgjepa.cli import arguments

ABOUT = "compare evaluated runs on one page, with figures (PNG, SVG) and tables (CSV)"
EXAMPLE = "sgjepa report runs/square_gru-mini-seed0 runs/square_lewm-mini-seed0"
OUT = Path("report")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "runs", type=arguments.run_argument, nargs="*", metavar="RUN", help="folders that `sgjepa evaluate` has evaluated"
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="folder of the page (default: %(default)s)")
    parser.add_argument(
        "--baseline",
        metavar="LABEL",
        help="the method that others are compared with, such as LeWM (default: LeWM, DINO-WM or the first)",
    )
    parser.add_argument(
        "--data", metavar="NAME", help="which evaluation, such as square-mini-test, if the runs have several"
    )


def run(options: Namespace) -> None:
    """Write the page and print its path."""
    arguments.require_matplotlib()
    from sgjepa.report.forecast import report

    print(report(options.runs, options.out, options.baseline, options.data))
