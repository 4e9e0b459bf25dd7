"""The command line: one subcommand a stage, in the order one uses them."""

from __future__ import annotations

import argparse
import importlib.util
import io
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from sgjepa import __version__
from sgjepa.errors import InputError, one_line

OUT = Path("datasets")
RUNS = Path("runs")


class _Parser(argparse.ArgumentParser):
    """One line for a wrong argument, and where to read more."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"sgjepa: error: {one_line(message)} (see `{self.prog} --help`)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for bad input, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        options.run(options)
    except InputError as error:
        return _fail(str(error))
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stdout = None
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        return _fail(one_line(error.strerror or error) + place + "; mend it and run the same command again")
    except KeyboardInterrupt:
        print("\nsgjepa: stopped; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _fail(message: str) -> int:
    print(f"sgjepa: error: {message}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sgjepa",
        description="World models under changing laws of physics. The stages, in the order one uses them:",
        epilog="example: sgjepa data square --size mini && sgjepa preview datasets/square-mini",
    )
    parser.add_argument("--version", action="version", version=f"sgjepa {__version__}")
    stages = parser.add_subparsers(title="stages", metavar="STAGE", required=True)

    def stage(name: str, about: str, example: str, run: Callable[[Any], None]) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = stages.add_parser(
            name, help=about, description=about, epilog=f"example: {example}", formatter_class=argparse.RawTextHelpFormatter
        )
        added.set_defaults(run=run)
        return added

    doctor = stage("doctor", "what this machine has and what is missing", "sgjepa doctor --json doctor.json", _doctor)
    doctor.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    doctor.add_argument("--fix", action="store_true", help="install the OpenGL library if it is missing and we may")

    demo = stage("demo", "make a small dataset and look at it, in about a minute", "sgjepa demo", _demo)
    demo.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="where datasets go (default: %(default)s)")
    demo.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")

    data = stage(
        "data",
        "make the train and test split of a world's dataset; interrupted, the same command goes on",
        "sgjepa data square --size mini",
        _data,
    )
    data.add_argument("world", help="square, right_triangle, pentagon, house or approach_ball")
    data.add_argument(
        "--size",
        default="mini",
        metavar="SIZE",
        help="mini (64 px; 2,500 episodes in the plane, 1,250 in space)\nor paper (128 px, 13,000; 256 px, 9,600)",
    )
    data.add_argument("--out", type=Path, metavar="DIR", help="the dataset's folder (default: datasets/WORLD-SIZE)")
    data.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one a core); the bytes do not depend on it"
    )
    data.add_argument("--seed", type=int, metavar="N", help="default: 0")
    data.add_argument("--train-episodes", type=int, metavar="N", help="instead of the size's own number")
    data.add_argument("--test-episodes", type=int, metavar="N", help="instead of the size's own number")
    data.add_argument("--image-size", type=int, metavar="PX", help="instead of the size's own")
    data.add_argument("--codec", metavar="NAME", help="lz4 (lossless, default) or jpeg (quality 95, 4:4:4)")
    data.add_argument(
        "--law",
        action="append",
        metavar="NAME=VALUES",
        help="test values instead of the size's own grid, such as gravity=-2,0,4,10;\nrepeat for several laws",
    )
    data.add_argument(
        "--env",
        action="append",
        metavar="KEY=VALUE",
        help="option of the world, such as contact=reference or renderer=mujoco;\nrepeat for several",
    )

    preview = stage(
        "preview",
        "write a contact sheet (PNG) and a short video of a dataset",
        "sgjepa preview datasets/square-mini",
        _preview,
    )
    preview.add_argument("dataset", type=Path, help="folder that `sgjepa data` made")
    preview.add_argument("--out", type=Path, metavar="DIR", help="where the pictures go (default: DATASET/preview)")
    preview.add_argument("--video", default="webp", metavar="FORMAT", help="webp (default) or mp4 (needs the extra `video`)")
    preview.add_argument("--rows", type=int, default=5, metavar="N", help="how many laws to show (default: %(default)s)")

    describe = stage(
        "describe",
        "show what a recipe would train: config, layers, parameters, arithmetic, time on this machine",
        "sgjepa describe square_gru --size paper",
        _describe,
    )
    describe.add_argument("recipe", help="WORLD_METHOD, such as square_gru; methods: gru, ssm, transformer, lewm, dino")
    describe.add_argument("--size", default="mini", metavar="SIZE", help="mini (default) or paper")
    describe.add_argument("--json", type=Path, metavar="FILE", help="also write the description as JSON")

    train = stage(
        "train",
        "train a world model; interrupted, the same command goes on",
        "sgjepa train square_gru --size mini",
        _train,
    )
    train.add_argument("recipe", help="WORLD_METHOD, such as square_gru; methods: gru, ssm, transformer, lewm, dino")
    train.add_argument("--size", default="mini", metavar="SIZE", help="mini (default, for two CPU cores) or paper")
    train.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    train.add_argument("--out", type=Path, metavar="DIR", help="the run's folder (default: runs/RECIPE-SIZE-seedN)")
    train.add_argument(
        "--datasets", type=Path, default=OUT, metavar="DIR", help="where the datasets are (default: %(default)s)"
    )
    train.add_argument("--init", type=Path, metavar="RUN", help="a finished run whose weights to start from")
    train.add_argument("--epochs", type=int, metavar="N", help="instead of the recipe's own")
    train.add_argument(
        "--chunk", type=int, metavar="N", help="frames encoded at a time, for less memory; the result is the same"
    )
    return parser


# Each stage imports what it needs: `sgjepa --help` and a wrong argument answer at once.


def _doctor(options: Any) -> None:
    from sgjepa import doctor, files

    if options.fix:
        doctor.install_opengl()
    found = doctor.examine()
    print(doctor.as_text(found))
    if options.json:
        files.write_json(options.json, found)


def _demo(options: Any) -> None:
    from sgjepa.demo import demo

    print("Making the mini square dataset: a square in a box, kicked once, under gravity that differs by episode.")
    dataset, pictures = demo(options.out, options.workers)
    _say_made(dataset, pictures)
    print("next: open the pictures, then read docs/make_a_dataset.md")


def _data(options: Any) -> None:
    from sgjepa.data.collect import collect
    from sgjepa.data.store import open_dataset
    from sgjepa.recipes.datasets import dataset

    settings = dataset(options.world, options.size)
    if options.train_episodes is not None:
        settings = replace(settings, train=replace(settings.train, episodes=options.train_episodes))
    if options.test_episodes is not None:
        settings = replace(settings, test=replace(settings.test, episodes=options.test_episodes))
    if options.law:
        settings = replace(settings, test=replace(settings.test, laws={**settings.test.laws, **_grids(options.law)}))
    changes = {"seed": options.seed, "image_size": options.image_size, "codec": options.codec}
    changes["env"] = _pairs(options.env, "--env") if options.env else None
    settings = replace(settings, **{key: value for key, value in changes.items() if value is not None})
    out = options.out or OUT / f"{options.world}-{options.size}"
    there = out.exists()
    made = open_dataset(collect(settings, out, options.workers))
    if there:
        print(f"{out} was there already; every file is as it was written")
    _say_made(made, [])


def _grids(texts: list[str]) -> dict[str, Any]:
    from sgjepa import laws

    grids: dict[str, Any] = {}
    for name, values in _pairs(texts, "--law").items():
        numbers = [laws.check({name: value})[name] for value in values.split(",")]
        grids[name] = laws.Grid(tuple(numbers))
    return grids


def _pairs(texts: list[str], flag: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key or not value:
            raise InputError(f"{flag} takes KEY=VALUE, got '{text}'")
        if key in pairs:
            raise InputError(f"{flag} {key} is given twice")
        pairs[key] = value
    return pairs


def _say_made(dataset: Any, pictures: list[Path]) -> None:
    """The summary. All of it is in the dataset's manifest.json too."""
    manifest = dataset.manifest
    size = sum(part.bytes for part in manifest.parts.values())
    counts = ", ".join(f"{part.episodes} {name}" for name, part in manifest.parts.items())
    speed = f", made at {manifest.frames_per_second:,.0f} frames/s" if manifest.frames_per_second else ""
    print(f"{dataset.path}: {counts} episodes, {manifest.frames} frames, {size / 1e6:.1f} MB{speed}")
    for name, part in manifest.parts.items():
        for law, found in part.laws.items():
            spread = f"mean {found.mean:.3f}, std {found.std:.3f}, {found.min:g} to {found.max:g}"
            print(f"  {name:5s} {law}  {_bars(found.counts)}  {spread} {dataset.train.about['laws'][law]}")
    for path in pictures:
        print(f"  {path}")


def _bars(counts: Sequence[int]) -> str:
    """A histogram as one line of text."""
    top = max(counts)
    return "".join("▁▂▃▄▅▆▇█"[min(7, 8 * count // (top + 1))] if count else " " for count in counts)


def _preview(options: Any) -> None:
    from sgjepa.data.preview import preview
    from sgjepa.data.store import open_dataset

    for path in preview(
        open_dataset(options.dataset), options.out or options.dataset / "preview", options.video, options.rows
    ):
        print(path)


def _describe(options: Any) -> None:
    _prepare_for_torch()
    from sgjepa import files
    from sgjepa.describe import as_text, describe
    from sgjepa.recipes.worlds import recipe

    found = describe(recipe(options.recipe, options.size))
    print(as_text(found))
    if options.json:
        files.write_json(options.json, found)


def _train(options: Any) -> None:
    _prepare_for_torch()
    from sgjepa import parallel, rows
    from sgjepa.recipes.worlds import recipe
    from sgjepa.train import train

    init = None if options.init is None else str(options.init)
    run = replace(recipe(options.recipe, options.size), seed=options.seed, init=init)
    changes = {"epochs": options.epochs, "chunk": options.chunk}
    run = replace(run, train=replace(run.train, **{key: value for key, value in changes.items() if value is not None}))
    out = options.out or RUNS / f"{options.recipe}-{options.size}-seed{options.seed}"
    try:
        folder = train(run, out, options.datasets)
        first = parallel.rank(parallel.start()) == 0
    finally:
        parallel.stop()
    if first:
        measured = [row for row in rows.read(folder) if row.get("split") == "validation"]
        print(f"{folder}: the model is model.safetensors, every measurement a line of {rows.ROWS}")
        for row in measured[-1:]:
            shown = (f"{name} {value:.4g}" for name, value in row.items() if isinstance(value, float))
            print(f"  validation at step {row['step']}: {', '.join(shown)}")


def _prepare_for_torch() -> None:
    """Settings that torch reads when it starts, and one line if it is not installed."""
    from sgjepa import machine

    if importlib.util.find_spec("torch") is None:
        raise InputError("world models need torch: pip install 'sgjepa[train]'")
    machine.prepare()


if __name__ == "__main__":
    sys.exit(main())
