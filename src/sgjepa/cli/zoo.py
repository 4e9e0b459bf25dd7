"""`sgjepa zoo`: list the models and policies that come with the package."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sgjepa import zoo
from sgjepa.cli import arguments
from sgjepa.core import config
from sgjepa.zoo.cards import ModelCard, PolicyCard

ABOUT = "list the trained models and policies that come with the package, or show the card of one"
EXAMPLE = "sgjepa zoo approach_ball_sg_jepa"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("name", nargs="?", help="the model or policy whose card to show (default: list all)")
    arguments.add_json(parser, "also write it as JSON; without FILE, print that alone")


def run(options: Namespace) -> None:
    """Print the list, or a card; nothing is copied."""
    arguments.check_json(options.json)
    names = [options.name.removeprefix(zoo.PREFIX)] if options.name else zoo.names()
    cards = {name: zoo.read_card(name) for name in names}
    lines = []
    for name, card in cards.items():
        lines.append(f"{zoo.PREFIX}{name}   {card.about}")
        if options.name:
            lines += [f"   {key:<10} {value}" for key, value in _summary(card).items()]
            lines += _measured(card)
    if not options.name:
        lines.append("Models take the place of any RUN: `sgjepa evaluate zoo:NAME`; commands work on a copy in ./zoo/NAME")
        if any(isinstance(card, PolicyCard) for card in cards.values()):
            lines.append("Policies drive: `sgjepa evaluate-policy zoo:NAME`, `sgjepa view zoo:NAME`")
    arguments.print_or_write(options.json, {name: config.to_dict(card) for name, card in cards.items()}, "\n".join(lines))


def _summary(card: ModelCard | PolicyCard) -> dict[str, str]:
    data = ", ".join(f"{name} {digest[:12]}" for name, digest in card.data.items())
    made = {"data": data, "chosen by": card.selection, "commit": card.commit or "unknown"}
    if isinstance(card, PolicyCard):
        from sgjepa.results.trials import WITH_POSE

        law = "told the law" if card.conditioned else "not told the law"
        episodes = max(share.episodes for share in card.success.regions.values())
        trials = f"{episodes} test episodes of {card.success.dataset}, tries at each: {card.success.tries}"
        sees = f"{card.source}{f', {WITH_POSE}' if card.pose else ''}, {law}; seed {card.seed}, {card.updates} updates"
        return {"world": card.world, "sees": sees, **made, "success in": f"{trials}; 95 % intervals:"}
    recipe = f"{card.recipe}, size {card.size}, seed {card.seed}, {card.updates} updates"
    return {"recipe": recipe, **made, "errors of": f"{card.episodes} test episodes, 20 frames given:"}


def _measured(card: ModelCard | PolicyCard) -> list[str]:
    if isinstance(card, ModelCard):
        return [f"   {metric:<22} {value:.3f}" for metric, value in card.errors.items()]
    from sgjepa.report.words import fixed
    from sgjepa.results.selection import REGIONS

    lines = []
    for region, share in card.success.regions.items():
        mean, low, high = (fixed(100 * value, 1) for value in (share.mean, share.low, share.high))
        lines.append(f"   {REGIONS[region]:<22} {mean} % ({low} to {high}, {share.how}; {share.episodes} episodes)")
    return lines
