"""`sgjepa describe`: the model, cost and settings of a recipe, before it is trained."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sgjepa.cli import arguments

ABOUT = "show what a recipe would train: config, layers, parameters, arithmetic, time on this machine"
EXAMPLE = "sgjepa describe square_gru --size paper"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    arguments.add_recipe(parser)
    arguments.add_size(parser)
    arguments.add_json(parser, "also write the description as JSON; without FILE, print that alone")


def run(options: Namespace) -> None:
    """Build the model and time a few steps; nothing is trained."""
    arguments.check_json(options.json)
    arguments.prepare_for_torch()
    from sgjepa.recipes.datasets import datasets_named
    from sgjepa.recipes.training import recipe
    from sgjepa.training.profile import as_text, describe

    run_config = recipe(options.recipe, options.size)
    description = describe(run_config, datasets_named(run_config.data))
    arguments.print_or_write(options.json, description, as_text(description))
