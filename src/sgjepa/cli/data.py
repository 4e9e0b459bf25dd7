"""`sgjepa data`: make the dataset of a world."""

from __future__ import annotations

import shutil
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgjepa.cli import arguments, errors
from sgjepa.cli.arguments import DATASETS
from sgjepa.core.errors import InputError

ABOUT = "make the train and test split of a world's dataset; interrupted, the same command goes on"
EXAMPLE = "sgjepa data square --size mini"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("world", help="its name; they are listed below")
    parser.add_argument(
        "--size",
        default="mini",
        metavar="SIZE",
        help="mini (default: 64 px; 2,500 episodes in the plane, 1,250 in space), small (64 px; 4,500 in the plane, "
        "approach_ball 2,500) or paper (128 px, 13,000; 256 px, 9,600; Franka 13,000; benchmarks 224 px, 10,000)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="the dataset's folder (default: datasets/WORLD-SIZE, regardless of other options)",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one per core); the bytes do not depend on it"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="default: 0")
    parser.add_argument("--train-episodes", type=int, metavar="N", help="override the size's default")
    parser.add_argument("--test-episodes", type=int, metavar="N", help="override the size's default")
    parser.add_argument("--image-size", type=int, metavar="PX", help="override the size's default")
    parser.add_argument("--codec", metavar="NAME", help="lz4 (lossless, default) or jpeg (quality 95, 4:4:4)")
    arguments.add_law(
        parser, "test values instead of the size's own grid, such as gravity=-2,0,4,10; repeat for several laws"
    )
    parser.add_argument(
        "--train-law",
        action="append",
        metavar="NAME=MEAN:STD",
        help="training law instead of the size's own, or one more: a normal such as gravity_x=0:0.5, "
        "or a list of values such as gravity=3,4,5; repeat for several laws",
    )
    parser.add_argument(
        "--env",
        action="append",
        metavar="KEY=VALUE",
        help="option of the world, such as contact=reference or renderer=mujoco; repeat for several",
    )


def names() -> str:
    """The list of worlds, for the help; computed only when it is shown, as the registry imports the simulator."""
    from sgjepa.envs import ENVS

    width = min(100, shutil.get_terminal_size().columns)
    return textwrap.fill(f"worlds: {', '.join(ENVS)}", width, subsequent_indent="  ")


def run(options: Namespace) -> None:
    """Make the dataset of the world and size, with the flags' changes."""
    from sgjepa.data.collect import collect
    from sgjepa.data.manifest import MANIFEST
    from sgjepa.data.store import open_dataset
    from sgjepa.recipes.datasets import dataset

    settings = dataset(options.world, options.size)
    if options.train_episodes is not None:
        settings = replace(settings, train=replace(settings.train, episodes=options.train_episodes))
    if options.test_episodes is not None:
        settings = replace(settings, test=replace(settings.test, episodes=options.test_episodes))
    if options.law or options.train_law:
        settings = _with_laws(settings, options.train_law or [], options.law or [])
    changes = {"seed": options.seed, "image_size": options.image_size, "codec": options.codec}
    changes["env"] = arguments.parse_pairs(options.env, "--env") if options.env else None
    settings = replace(settings, **{key: value for key, value in changes.items() if value is not None})
    out = options.out or DATASETS / f"{options.world}-{options.size}"
    existed = (out / MANIFEST).exists()
    made = open_dataset(collect(settings, out, options.workers))
    if existed:
        print(f"{out} was there already; every file is as it was written")
    print_dataset(made, [])
    _say_next(options, out)


def _say_next(options: Namespace, out: Path) -> None:
    """Print the command that trains on the dataset; it names one that is not the recipe's own."""
    own = out == DATASETS / f"{options.world}-{options.size}" and not options.train_law
    folder = [] if out.parent == DATASETS else ["--datasets", out.parent]
    data = [] if own else [*folder, "--data", out.name]
    arguments.print_next("train", f"{options.world}_gru", "--size", options.size, *data)


def _with_laws(settings: Any, training: list[str], test: list[str]) -> Any:
    """The settings with other laws than the recipe's: MEAN:STD or values for training, values for the test."""
    from sgjepa import laws

    drawn, tested = dict(settings.train.laws), dict(settings.test.laws)
    for name, text in arguments.parse_pairs(training, "--train-law").items():
        drawn[name] = _sampler(name, text, drawn.get(name))
    tested |= {name: laws.Grid(tuple(values)) for name, values in arguments.parse_laws(test, "--law").items()}
    for first, second, flag, form in ((tested, drawn, "--train-law", "MEAN:STD"), (drawn, tested, "--law", "VALUE,VALUE")):
        for name in first.keys() - second.keys():
            raise InputError(f"law '{name}' is given for one split alone; add {flag} {name}={form}")
    return replace(settings, train=replace(settings.train, laws=drawn), test=replace(settings.test, laws=tested))


def _sampler(name: str, text: str, default: Any) -> Any:
    """A normal for MEAN:STD, with the floor of the recipe's sampler, if it has one; otherwise a list of values."""
    from sgjepa import laws

    mean, colon, std = text.partition(":")
    if not colon:
        return laws.Grid(tuple(arguments.parse_values(name, text)))
    middle, spread = (laws.check({name: arguments.parse_number(part)})[name] for part in (mean, std))
    if not spread > 0:
        raise InputError(f"--train-law {name}={text}: the standard deviation must be positive")
    return laws.ClippedNormal(middle, spread, getattr(default, "floor", -laws.LAWS[name].limit))


def print_dataset(dataset: Any, pictures: list[Path]) -> None:
    """Print a summary of the dataset's artifact.json."""
    manifest = dataset.manifest
    size = sum(part.bytes for part in manifest.parts.values())
    counts = ", ".join(f"{part.episodes} {name}" for name, part in manifest.parts.items())
    speed = f", made at {manifest.frames_per_second:,.0f} frames/s" if manifest.frames_per_second else ""
    print(f"{dataset.path}: {counts} episodes, {manifest.frames} frames, {size / 1e6:.1f} MB{speed}")
    for name, part in manifest.parts.items():
        for law, summary in part.laws.items():
            spread = f"mean {summary.mean:.3f}, std {summary.std:.3f}, {summary.min:g} to {summary.max:g}"
            print(f"  {name:5s} {law}  {_bars(summary.counts)}  {spread} {dataset.train.about['laws'][law]}")
        if part.labels:
            words = (f"{label} {_counts(counts)}" for label, counts in part.labels.items())
            print(f"  {name:5s} success {part.successes}; {'; '.join(words)}")
    for path in pictures:
        print(f"  {path}")


def _counts(words: dict[str, int]) -> str:
    return ", ".join(f"{word} {count}" for word, count in words.items())


def _bars(counts: Sequence[int]) -> str:
    """A histogram as one line of text."""
    top, steps = max(counts), "▁▂▃▄▅▆▇█" if errors.can_print("▁") else "12345678"
    return "".join(steps[8 * count // (top + 1)] if count else " " for count in counts)
