"""`sgjepa demo`: the paper's comparison from data to a page, with an estimate of the time from measured updates."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from sgjepa.cli import arguments, data
from sgjepa.core import threads

ABOUT = "SG-JEPA against its baselines under gravities that training never had: data, trainings, evaluation, a page to read"
EXAMPLE = "sgjepa demo --quick"
OUT = Path("demo")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--quick",
        action="store_true",
        help="in less than half the time: less data, few updates, a linear probe; the page says how many",
    )
    length.add_argument("--long", action="store_true", help="the whole mini recipe, about twice the time")
    parser.add_argument("--world", metavar="NAME", help="another world than approach_ball, such as square: the hard case")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="trainings of each method (default: %(default)s)")
    parser.add_argument(
        "--methods",
        nargs="+",
        metavar="NAME",
        help="methods of the world's recipes, such as gru ssm lewm (default: gru lewm dino)",
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="output folder (default: %(default)s)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")


def run(options: Namespace) -> None:
    """Make data, trainings and page in three numbered steps; finished ones are reused."""
    arguments.prepare_for_torch()
    arguments.require_matplotlib()
    from sgjepa.experiments import demo
    from sgjepa.experiments.engine import Request
    from sgjepa.experiments.runner import exact

    began = time.monotonic()
    arguments.require_seeds(options)
    length = "quick" if options.quick else "long" if options.long else "short"
    methods = tuple(dict.fromkeys(options.methods or demo.METHODS))
    world = options.world or demo.WORLD
    demo.check(options.out, world, length, methods)
    print(demo.introduction(world, methods, options.seeds), flush=True)
    print(f"1. Data: episodes of the world {world.replace('_', ' ')}, for training and for the test.", flush=True)
    made = demo.make_data(options.out, world, length, options.workers)
    data.print_dataset(made, [options.out / demo.preview_folder(world) / "contact_sheet.png"])
    missing = demo.without_weights() if options.methods is None else None
    if missing is not None:
        print(f"   DINO-WM is left out: {missing}")
        methods = tuple(method for method in methods if method != "dino")
    several = threads.counted(len(methods) * options.seeds, "training")
    print(f"2. {several} ({', '.join(methods)}) with the same data and as many updates, each probed and evaluated.")
    print("   How long they take is said once the first updates have been measured.")
    print(f"   runs and logs: {options.out / 'runs'}", flush=True)
    request = Request(
        length,
        options.out,
        options.out / "datasets",
        seeds=options.seeds,
        workers=options.workers,
        page=demo.page(world, length),
        note=demo.shortened(world, length),
    )
    page = demo.experiment(world, methods, length).run(request)
    print(f"3. Results on the held-out test episodes; pictures and tables: {page}")
    arguments.print_answer(page.parent)
    print(f"   It took {exact(time.monotonic() - began)}.")
