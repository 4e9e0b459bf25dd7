"""`sgjepa train`: train a world model by a recipe."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgjepa.cli import arguments
from sgjepa.core.errors import InputError

ABOUT = "train a world model; interrupted, the same command goes on"
EXAMPLE = "sgjepa train square_gru --size mini"
RUNS = Path("runs")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    arguments.add_recipe(parser)
    arguments.add_size(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="the run's folder (default: runs/RECIPE-SIZE-seedN, with what --set changes before the seed)",
    )
    arguments.add_datasets(parser)
    parser.add_argument(
        "--data",
        action="append",
        metavar="NAME",
        help="a dataset's folder in --datasets, instead of the recipe's own; repeat to train on several together",
    )
    parser.add_argument(
        "--init", type=arguments.run_argument, metavar="RUN", help="a finished run whose weights to start from, or zoo:NAME"
    )
    arguments.add_set(parser, "the run")
    parser.add_argument(
        "--decoder",
        action="store_true",
        help="also train a decoder that draws latents, for strips and the viewer; the model is the same with and without",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=int, metavar="N", help="override the recipe's default")
    length.add_argument(
        "--updates",
        type=int,
        metavar="N",
        help="in all, instead of the recipe's epochs; rounded up to equal epochs",
    )
    parser.add_argument("--save-every", type=int, metavar="N", help="updates between checkpoints (default: the recipe's)")
    parser.add_argument(
        "--chunk", type=int, metavar="N", help="frames encoded at a time, for less memory; the result is the same"
    )


def run(options: Namespace) -> None:
    """Train the recipe with the flags' changes; of several processes the first prints."""
    arguments.prepare_for_torch()
    from sgjepa.core import config
    from sgjepa.recipes.training import recipe
    from sgjepa.training import distributed
    from sgjepa.training.data import with_laws, with_updates
    from sgjepa.training.world_model import train

    init = None if options.init is None else str(options.init)
    run_config = replace(recipe(options.recipe, options.size), seed=options.seed, init=init)
    if options.data:
        _check_different(options.datasets, options.data)
        run_config = with_laws(replace(run_config, data=tuple(options.data)), options.datasets)
    flags = {name: getattr(options, name) for name in ("epochs", "chunk", "save_every")}
    flags |= {"decoder": True if options.decoder else None}
    changes = {key: value for key, value in flags.items() if value is not None}
    run_config = replace(run_config, train=replace(run_config.train, **changes))
    before, run_config = run_config, config.override(run_config, _settings(options, changes))
    ways = f"-{ways}" if (ways := config.changes(run_config, before)) else ""
    if options.updates is not None:
        run_config = with_updates(run_config, options.updates, options.datasets)
    out = options.out or RUNS / f"{options.recipe}-{options.size}{ways}-seed{options.seed}"
    try:
        folder = train(run_config, out, options.datasets)
        first = distributed.rank(distributed.start()) == 0
    finally:
        distributed.stop()
    if first:
        _say_trained(folder)
        dataset = options.datasets / run_config.data[0]
        is_default = arguments.dataset_beside(folder, run_config.data[0]).resolve() == dataset.resolve()
        arguments.print_next("evaluate", folder, *([] if is_default else ["--dataset", dataset]))


def _settings(options: Namespace, set_by_flag: dict[str, Any]) -> dict[str, str]:
    """The settings of --set; one that has a flag must not be set twice. set_by_flag: fields of `train` set by flags."""
    flags = {name: f"use --{name}" for name in ("seed", "data", "init")} | {"name": "use --out"}
    twice = {f"train.{name}": f"is given by --{name.replace('_', '-')}, too; leave one out" for name in set_by_flag}
    if options.updates is not None:
        length = "the length is given by --updates, too; leave one out"
        twice |= {"train.updates": length, "train.epochs": length}
    return arguments.parse_settings(options, flags | twice)


def _check_different(datasets: Path, names: list[str]) -> None:
    """Refuse a dataset that is given twice, which would silently count double."""
    folders: dict[Path, str] = {}
    for name in names:
        folder = (datasets / name).resolve()
        if folder in folders:
            same = "is given twice" if folders[folder] == name else f"and --data {folders[folder]} are the same dataset"
            raise InputError(f"--data {name} {same}; name each dataset once")
        folders[folder] = name


def _say_trained(folder: Path) -> None:
    from sgjepa.core import run_folder

    print(f"{folder}: the model is model.safetensors, every measurement a line of {run_folder.ROWS}")
    if frozen := run_folder.about(folder).frozen_encoder:
        print(f"  frozen encoder: {frozen}")
    measured = [row for row in run_folder.read(folder) if row.get("split") == "validation"]
    for row in measured[-1:]:
        terms = (f"{name} {value:.4g}" for name, value in row.items() if isinstance(value, float))
        print(f"  validation at step {row['step']}: {', '.join(terms)}")
