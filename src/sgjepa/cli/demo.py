"""`sgjepa demo`: the paper's question from nothing to a page, in minutes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from sgjepa.cli import data, shared

ABOUT = "the paper's question in about 10 minutes: data, SG-JEPA and its baselines, evaluation, a page to read"
EXAMPLE = "sgjepa demo --quick"
OUT = Path("demo")


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--quick",
        action="store_true",
        help="about 4 minutes: less data, few updates, a linear probe; the page says how many",
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
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="where everything goes (default: %(default)s)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")


def run(options: Namespace) -> None:
    """Three numbered steps; what there is already is kept."""
    shared.prepare_for_torch()
    shared.need_matplotlib()
    from sgjepa.studies import demo
    from sgjepa.studies.asked import Asked
    from sgjepa.studies.study import run_study

    shared.need_seeds(options)
    length = "quick" if options.quick else "long" if options.long else "short"
    methods = tuple(dict.fromkeys(options.methods or demo.METHODS))
    world = options.world or demo.WORLD
    demo.check(options.out, world, length, methods)
    print(f"1. Data: {world.replace('_', ' ')}; a narrow band of gravity for training, many gravities for the test.")
    made = demo.make_data(options.out, world, length, options.workers)
    data.say_made(made, [options.out / demo.preview_folder(world) / "contact_sheet.png"])
    missing = demo.without_weights() if options.methods is None else None
    if missing is not None:
        print(f"   DINO-WM is left out: {missing}")
        methods = tuple(method for method in methods if method != "dino")
    print(f"2. {len(methods) * options.seeds} trainings ({', '.join(methods)}), equal data and updates, each evaluated.")
    print(f"   runs and logs: {options.out / 'runs'}", flush=True)
    asked = Asked(
        length,
        options.out,
        options.out / "datasets",
        seeds=options.seeds,
        workers=options.workers,
        page=demo.page(world, length),
        note=demo.shortened(world, length),
    )
    page = run_study(demo.study(world, methods, length), asked)
    print(f"3. What it says, with intervals and pictures: {page}")
    shared.say_verdict(page.parent)
