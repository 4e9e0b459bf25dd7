"""`sgjepa coverage`: the distance of a law from the training laws."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from sgjepa.cli import arguments
from sgjepa.core.errors import InputError

ABOUT = "say how far outside a dataset's training laws another law lies (the paper's L_law)"
EXAMPLE = "sgjepa coverage datasets/square-mini --gravity 12"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("dataset", type=Path, help="folder that `sgjepa data` made")
    parser.add_argument(
        "--gravity",
        type=float,
        nargs="+",
        metavar="G",
        help="m/s^2, one or several (default: the dataset's test laws)",
    )
    arguments.add_law(
        parser, "values of any law, such as gravity_x=0,2; repeat for several laws, of which all combinations are taken"
    )
    parser.add_argument(
        "--basis", default="affine", metavar="NAME", help="affine: (1, g), exact for free flight (default); or quadratic"
    )
    arguments.add_json(parser, "where the numbers go (default: DATASET/coverage.json); without FILE, print them alone")


def run(options: Namespace) -> None:
    """Print a table, and write its numbers to a file."""
    arguments.check_json(options.json)
    from sgjepa.data.store import open_dataset
    from sgjepa.evaluation.coverage import as_text, examine

    values = arguments.parse_laws(options.law or [], "--law")
    if options.gravity and "gravity" in values:
        raise InputError("gravity is given twice, by --gravity and by --law; leave one out")
    if options.gravity:
        values["gravity"] = options.gravity
    dataset = open_dataset(options.dataset)
    path = options.json or options.dataset / "coverage.json"  # next to the preview; the data's digests do not cover it
    arguments.check_json(path)
    numbers = examine(dataset, values or None, options.basis)
    arguments.print_or_write(path, numbers, as_text(numbers))
    if path != arguments.STDOUT:
        print(path)
