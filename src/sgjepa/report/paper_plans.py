"""Planning runs beside the paper's table of conventional control: success, errors of the latents, and what a plan takes."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap
from sgjepa.evaluation.latent_errors import LatentErrors
from sgjepa.report import control_tables as tables
from sgjepa.report import parts
from sgjepa.report.words import fixed
from sgjepa.results.control import Played, Player
from sgjepa.results.paper_numbers import PublishedPlans, published_plans

Latents = Mapping[str, LatentErrors]  # by the digest of a run's weights

# what success is elsewhere
_OTHERWISE = {
    "reacher": "Here the finger has to come within 25 mm of the goal's place; stable-worldmodel, in which such models are "
    "usually tried, asks for both joints within 0.05 rad of the goal's, and the paper does not say."
}


def beside(played: Played, latents: Latents) -> list[dict[str, Any]]:
    """A record for every run that plans, each followed by the paper's of the same predictor; none where it has none."""
    found: list[dict[str, Any]] = []
    paper = published_plans(played.world)
    for player in (player for player in played.players if paper and player.latency and not player.reference):
        found.append(_ours(played, player, latents))
        found += [_theirs(player, paper[player.method])] if player.method in paper else []
    return found


def beside_html(played: Played, latents: Latents) -> str:
    """As a table; nothing where there is nothing to compare."""
    records = beside(played, latents)
    if not records:
        return ""
    players = {player.label: player for player in played.players}
    rows = []
    for record in records:
        own, player = record["of"] == "here", players[record["policy"]]
        name = tables.dot(played, player) if own else f"paper: {escape(player.method)}"
        cells = "".join(
            f"<td>{_cell(record[key], record[f'{key}_low'], record[f'{key}_high'], scale, digits)}</td>"
            for key, scale, digits in (("success", 100, 1), ("k_last", 1, 5), ("k_mean", 1, 5), ("k_share", 100, 1))
        )
        kind = "" if own else ' class="paper"'
        rows.append(f"<tr{kind}><td>{name}</td>{cells}<td>{fixed(record['seconds'], 3)}</td></tr>")
    steps = next(iter(latents.values())).steps if latents else 5
    errors = (f"Latent MSE after {steps}", f"Latent MSE, mean of 1 to {steps}", f"After {steps}, of the variance (%)")
    titles = ("Success (%)", *errors, "A plan takes (s)")
    head = f"<tr><th>Policy</th>{''.join(f'<th>{title}</th>' for title in titles)}</tr>"
    caption = (
        "In italics the paper's numbers, at its size and on its machine: 50 cases. There for scale: its "
        "search settings are not given, and latents of two models are not on one scale."
    )
    caption += f" {_OTHERWISE[played.world]}" if played.world in _OTHERWISE else ""
    return parts.table(caption, head, f"<tbody>{''.join(rows)}</tbody>")


def known_of(player: Player, latents: Latents) -> list[LatentErrors]:
    """Of its trainings, those that are known."""
    return [latents[weights] for trials in player.trainings if (weights := trials[0].driver.weights) in latents]


def _ours(played: Played, player: Player, latents: Latents) -> dict[str, Any]:
    success = player.estimate(played.about.measures[0], played.region("all")).interval
    known = known_of(player, latents)
    unknown = Interval(np.nan, np.nan, np.nan, 0)
    last, mean, share = unknown, unknown, unknown
    if known:
        errors = np.stack([one.errors for one in known])  # (trainings, E, K)
        last, mean = (bootstrap(found)[0] for found in (errors[..., -1:], errors.mean(axis=-1, keepdims=True)))
        shares = np.stack([one.errors[:, -1:] / one.variance for one in known])  # (trainings, E, 1)
        share = bootstrap(shares)[0]
    assert player.latency is not None
    ends = {"success": success, "k_last": last, "k_mean": mean, "k_share": share}
    return _record(player, "here", ends, player.latency.median)


def _theirs(player: Player, paper: PublishedPlans) -> dict[str, Any]:
    success = Interval(paper.success / 100, paper.low / 100, paper.high / 100, 50)
    latent = {"k_last": paper.k5, "k_mean": paper.mean, "k_share": np.nan}
    alone = {key: Interval(value, np.nan, np.nan, 0) for key, value in latent.items()}
    return _record(player, "paper", {"success": success, **alone}, paper.seconds)


def _record(player: Player, of: str, ends: Mapping[str, Interval], seconds: float) -> dict[str, Any]:
    record: dict[str, Any] = {"policy": player.label, "of": of}
    for key, one in ends.items():
        record |= {key: one.mean, f"{key}_low": one.low, f"{key}_high": one.high}
    return record | {"seconds": seconds}


def _cell(mean: float, low: float, high: float, scale: float, digits: int) -> str:
    if mean != mean:
        return "–"
    shown = fixed(scale * mean, digits)
    return shown if low != low else f"{shown}<small>{fixed(scale * low, digits)} to {fixed(scale * high, digits)}</small>"
