"""`sgjepa describe`: what a recipe would train, before it does."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sgjepa.cli import shared

ABOUT = "show what a recipe would train: config, layers, parameters, arithmetic, time on this machine"
EXAMPLE = "sgjepa describe square_gru --size paper"


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    shared.recipe_flag(parser)
    shared.size_flag(parser)
    shared.json_flag(parser, "also write the description as JSON; without FILE, print that alone")


def run(options: Namespace) -> None:
    """Builds the model and times a little of its work; trains nothing."""
    shared.check_json(options.json)
    shared.prepare_for_torch()
    from sgjepa.recipes.datasets import named
    from sgjepa.recipes.training import recipe
    from sgjepa.training.profile import as_text, describe

    chosen = recipe(options.recipe, options.size)
    found = describe(chosen, named(chosen.data))
    shared.print_or_write(options.json, found, as_text(found))
