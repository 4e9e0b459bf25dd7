"""Which settings does the small policy get? Chosen on the true state and on held-out episodes, so on no compared method.

Each setting differs from the recipe in one thing. Judged by success on the training episodes that no policy learned from;
the loss on them and the seconds of the training stand beside it, since the small size should not take longer than minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core.tables import to_csv
from sgjepa.experiments.arms import Policy
from sgjepa.experiments.control import policy_arm, worlds
from sgjepa.experiments.engine import Experiment
from sgjepa.policies.diffusion import DiffusionConfig
from sgjepa.policies.files import STATE, read_policy
from sgjepa.recipes.policies import diffusion
from sgjepa.report.content import Finding
from sgjepa.report.words import count, fixed, with_interval
from sgjepa.results.control import Played, Player

RECIPE = "recipe"
TABLE = "tables/hyperparameters_policy.csv"
TRIES = 2  # at each of the held-out episodes, which are few


def grid(size: str, world: str) -> dict[str, DiffusionConfig]:
    """By name: the recipe, and what differs from it in one thing, if it does."""
    usual = diffusion(size, world)
    net, noise = usual.network, usual.diffusion
    halves, doubles = (tuple(int(factor * width) for width in net.widths) for factor in (0.5, 2))
    sampled = (2 if noise.sampler == "ddpm" else 1) * noise.sampled  # ddpm takes every step
    others = {
        "half_updates": replace(usual, updates=max(1, usual.updates // 2)),
        "twice_updates": replace(usual, updates=2 * usual.updates),
        "third_rate": replace(usual, lr=0.3 * usual.lr),
        "thrice_rate": replace(usual, lr=3 * usual.lr),
        "half_batch": replace(usual, batch=usual.batch // 2),
        "twice_batch": replace(usual, batch=2 * usual.batch),
        "half_width": replace(usual, network=replace(net, widths=halves)),
        "twice_width": replace(usual, network=replace(net, widths=doubles)),
        "half_hidden": replace(usual, network=replace(net, hidden=net.hidden // 2)),
        "twice_hidden": replace(usual, network=replace(net, hidden=2 * net.hidden)),
        "two_layers": replace(usual, network=replace(net, layers=2)),
        "no_changes" if net.changes else "changes": replace(usual, network=replace(net, changes=not net.changes)),
        "twice_noise_steps": replace(usual, diffusion=replace(noise, steps=2 * noise.steps, sampled=sampled)),
    }
    return {RECIPE: usual, **{name: other for name, other in others.items() if other != usual}}


def arms(size: str) -> list[Policy]:
    """In every world a policy on the true state with each of the settings."""
    shares = {"half_updates": 0.5, "twice_updates": 2.0}
    return [
        replace(
            policy_arm(world, size, f"{STATE}_{name}", held_out=True),
            config=settings,
            tries=TRIES,
            share=shares.get(name, 1),
        )
        for world in worlds(size)
        for name, settings in grid(size, world).items()
    ]


def folders_of(player: Player) -> list[Path]:
    """The folders of a policy's trainings."""
    return [trials[0].folder.parents[1] for trials in player.trainings]


def held_out_loss(player: Player) -> float:
    """On windows of held-out episodes, the mean of its trainings; not-a-number if there are none."""
    scores = [read_policy(folder).scores for folder in folders_of(player)]
    losses = [each.validation_loss for each in scores if each and each.validation_loss is not None]
    return float(np.mean(losses)) if losses else float("nan")


def summary(played: Mapping[str, Played]) -> Finding:
    """Success of every setting in every world, and which does best."""
    rows: list[tuple[str, ...]] = []
    records: list[dict[str, Any]] = []
    success: dict[str, list[float]] = {}
    for world, one in played.items():
        everywhere = one.region("all")
        for player in one.players:
            folders = folders_of(player)
            name = folders[0].name.removeprefix(f"{world}_{STATE}_").rpartition("-seed")[0].rpartition("-")[0]
            found = player.estimate(one.about.measures[0], everywhere).interval
            success.setdefault(name, []).append(found.mean)
            seconds = float(np.mean([each.seconds for folder in folders if (each := read_policy(folder).scores)]))
            loss = held_out_loss(player)
            cells = (with_interval(found.percent(), 1), fixed(loss, 4), f"{seconds / 60:.1f}")
            rows.append((world.replace("_", " "), name.replace("_", " "), str(len(folders)), *cells))
            numbers = {"success": found.mean, "low": found.low, "high": found.high, "episodes": found.count}
            costs = {"trainings": len(folders), "validation_loss": loss, "seconds": seconds}
            records.append({"world": world, "setting": name, **numbers, **costs})
    tried = {name: float(np.mean(some)) for name, some in success.items() if len(some) == len(played)}
    words = []
    if tried:
        best = max(tried, key=tried.__getitem__)
        named, most = best.replace("_", " ").capitalize(), f"{100 * tried[best]:.1f} %"
        usual = tried.get(RECIPE)
        against = "" if usual is None or best == RECIPE else f"; the recipe {100 * usual:.1f} %"
        words.append(
            f"{named} succeeds most often, {most} as the mean of {count(len(played), 'world')}{against}. "
            f"{count(len(tried), 'setting')} tried."
        )
    head = ("world", "setting", "trainings", "success (%)", "loss on held-out windows", "minutes of training")
    caption = "Success on held-out episodes with 95 % intervals; every setting differs from the recipe in one thing."
    return Finding("Which settings?", tuple(words), caption, head, tuple(rows), {TABLE: to_csv(records)})


EXPERIMENT = Experiment(
    name="hyperparameters_policy",
    question="Which settings does the small policy get? (true state, held-out episodes)",
    claim="None of the paper's: it fixes what the study of control compares, on none of the compared methods.",
    arms=arms,
    analyse=lambda done: summary(done.played),
    seeds={},
    worlds=True,
)
