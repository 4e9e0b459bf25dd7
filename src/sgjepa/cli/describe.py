"""`sgjepa describe`: what a recipe would train, before it does."""

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
    """Builds the model and times a little of its work; trains nothing."""
    arguments.check_json(options.json)
    arguments.prepare_for_torch()
    from sgjepa.recipes.datasets import datasets_named
    from sgjepa.recipes.training import recipe
    from sgjepa.training.profile import as_text, describe

    chosen = recipe(options.recipe, options.size)
    found = describe(chosen, datasets_named(chosen.data))
    arguments.print_or_write(options.json, found, as_text(found))
