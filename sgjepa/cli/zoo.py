"""`sgjepa zoo`: the models that come with the package."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sgjepa import zoo
from sgjepa.cli import shared
from sgjepa.core import config
from sgjepa.zoo import Card

ABOUT = "list the trained models that come with the package, or show the card of one"
EXAMPLE = "sgjepa zoo approach_ball_sg_jepa"


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument("name", nargs="?", help="whose card to show; without: a list")
    shared.json_flag(parser, "also write it as JSON; without FILE, print that alone")


def run(options: Namespace) -> None:
    """Prints; copies nothing."""
    shared.check_json(options.json)
    cards = {name: zoo.card(name) for name in ([options.name] if options.name else zoo.names())}
    lines = []
    for name, card in cards.items():
        lines.append(f"{zoo.PREFIX}{name}   {card.about}")
        if options.name:
            lines += [f"   {key:<10} {value}" for key, value in _told(card).items()]
            lines += [f"   {metric:<22} {value:.3f}" for metric, value in card.scores.items()]
    if not options.name:
        lines.append(
            "Every command that takes a RUN takes these: `sgjepa predict zoo:NAME`; it works on a copy in ./zoo/NAME"
        )
    shared.print_or_write(options.json, {name: config.to_dict(card) for name, card in cards.items()}, "\n".join(lines))


def _told(card: Card) -> dict[str, str]:
    return {
        "recipe": f"{card.recipe}, size {card.size}, seed {card.seed}, {card.updates} updates",
        "data": ", ".join(f"{name} {digest[:12]}" for name, digest in card.data.items()),
        "chosen by": card.chosen,
        "commit": card.commit or "unknown",
        "errors of": f"{card.episodes} test episodes, 20 frames given:",
    }
