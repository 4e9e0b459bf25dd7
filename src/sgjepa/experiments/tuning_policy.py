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
from sgjepa.experiments.asked import Asked
from sgjepa.experiments.control import worlds
from sgjepa.experiments.school import Pupil
from sgjepa.experiments.sightless import Learned, SightlessStudy, folders_of, held_out_loss
from sgjepa.policies.diffusion_model import PolicyConfig
from sgjepa.policies.files import STATE
from sgjepa.recipes.policies import policy
from sgjepa.report.content import Finding
from sgjepa.report.words import count, fixed, with_interval
from sgjepa.results.control import Played

RECIPE = "recipe"
TABLE = "tables/tuning_policy.csv"
TRIES = 2  # at each of the held-out episodes, which are few


def grid(size: str, world: str, updates: int | None = None) -> dict[str, PolicyConfig]:
    """By name: the recipe, and what differs from it in one thing, if it does. updates: instead of the recipe's own."""
    usual = policy(size, world, updates)
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


class PolicyTuning(SightlessStudy):
    """As `Study`, for the settings of policies. Cells are called WORLD_state_SETTING."""

    def cells(self, asked: Asked) -> dict[str, Pupil]:
        return {
            f"{world}_{STATE}_{name}": Pupil(
                None, settings, Path(), asked.datasets / f"{world}-{asked.size}", TRIES, held_out=True
            )
            for world in worlds(asked.size)
            for name, settings in grid(asked.size, world, asked.updates).items()
        }

    def summary(self, played: Mapping[str, Played], learned: Learned) -> Finding:
        return summary(played, learned)


def summary(played: Mapping[str, Played], learned: Learned) -> Finding:
    """Success of every setting in every world, and which does best."""
    rows: list[tuple[str, ...]] = []
    records: list[dict[str, Any]] = []
    success: dict[str, list[float]] = {}
    for world, one in played.items():
        everywhere = one.region("all")
        for player in one.players:
            names = folders_of(player)
            name = names[0].removeprefix(f"{world}_{STATE}_").rpartition("-seed")[0].rpartition("-")[0]
            found = player.estimate(one.about.measures[0], everywhere).interval
            success.setdefault(name, []).append(found.mean)
            seconds = float(np.mean([each.seconds for folder in names if (each := learned[folder])]))
            loss = held_out_loss(player, learned)
            cells = (with_interval(found.percent(), 1), fixed(loss, 4), f"{seconds / 60:.1f}")
            rows.append((world.replace("_", " "), name.replace("_", " "), str(len(names)), *cells))
            numbers = {"success": found.mean, "low": found.low, "high": found.high, "episodes": found.count}
            costs = {"trainings": len(names), "validation_loss": loss, "seconds": seconds}
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


STUDY = PolicyTuning(
    "tuning_policy",
    "Which settings does the small policy get? (true state, held-out episodes)",
    "None of the paper's: it fixes what the study of control compares, on none of the compared methods.",
)
