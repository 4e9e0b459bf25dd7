"""Which settings does the small policy get? Tuned on the true state and on held-out episodes, so on no compared method.

Each setting differs from the recipe in one thing. Judged by success on the training episodes that no policy learned from;
the loss on them and the seconds of the training stand beside it, since the small size should not take longer than minutes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Policy
from sgjepa.experiments.control import policy_arm, success_of, worlds
from sgjepa.experiments.engine import Experiment
from sgjepa.policies.diffusion import DiffusionConfig
from sgjepa.policies.files import STATE, Scores, read_policy
from sgjepa.recipes.policies import diffusion
from sgjepa.report.blocks import Cell, Data, Number
from sgjepa.report.words import count, fixed
from sgjepa.results.table import Results

RECIPE = "recipe"
TRIES = 2  # repeats of the held-out episodes, which are few


def grid(size: str, world: str) -> dict[str, DiffusionConfig]:
    """Settings by name: the recipe, and variants that differ from it in one setting."""
    base = diffusion(size, world)
    net, noise = base.network, base.diffusion
    halves, doubles = (tuple(int(factor * width) for width in net.widths) for factor in (0.5, 2))
    sampled = (2 if noise.sampler == "ddpm" else 1) * noise.sampled  # ddpm takes every step
    others = {
        "half_updates": replace(base, updates=max(1, base.updates // 2)),
        "twice_updates": replace(base, updates=2 * base.updates),
        "third_rate": replace(base, lr=0.3 * base.lr),
        "thrice_rate": replace(base, lr=3 * base.lr),
        "half_batch": replace(base, batch=base.batch // 2),
        "twice_batch": replace(base, batch=2 * base.batch),
        "half_width": replace(base, network=replace(net, widths=halves)),
        "twice_width": replace(base, network=replace(net, widths=doubles)),
        "half_hidden": replace(base, network=replace(net, hidden=net.hidden // 2)),
        "twice_hidden": replace(base, network=replace(net, hidden=2 * net.hidden)),
        "two_layers": replace(base, network=replace(net, layers=2)),
        "no_changes" if net.changes else "changes": replace(base, network=replace(net, changes=not net.changes)),
        "twice_noise_steps": replace(base, diffusion=replace(noise, steps=2 * noise.steps, sampled=sampled)),
    }
    return {RECIPE: base, **{name: other for name, other in others.items() if other != base}}


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


def scores_of(results: Results, arm: str) -> list[Scores]:
    """The scores of each training of a policy."""
    records = [read_policy(tries[0].folder.parents[1]) for tries in results.driven(arm).trainings]
    return [record.scores for record in records if record.scores]


def held_out_loss(results: Results, arm: str) -> float:
    """The loss on windows of held-out episodes, averaged over trainings; not-a-number without any."""
    losses = [scores.validation_loss for scores in scores_of(results, arm) if scores.validation_loss is not None]
    return float(np.mean(losses)) if losses else float("nan")


def summary(evidence: Evidence) -> Answer:
    """Success of every setting in every world, and a sentence on the best."""
    rows: list[tuple[Cell, ...]] = []
    records: list[dict[str, Any]] = []
    success: dict[str, list[float]] = {}
    for world, results in evidence.by_world.items():
        for arm in results.arms:
            folder = results.driven(arm).first.folder.parents[1].name
            name = folder.removeprefix(f"{world}_{STATE}_").rpartition("-seed")[0].rpartition("-")[0]
            trainings, share = len(results.driven(arm).trainings), success_of(results, arm)
            success.setdefault(name, []).append(share.mean)
            loss, seconds = (
                held_out_loss(results, arm),
                float(np.mean([scores.seconds for scores in scores_of(results, arm)])),
            )
            cell = Number(share, 1, scale=100, note="")
            rows.append(
                (
                    world.replace("_", " "),
                    name.replace("_", " "),
                    str(trainings),
                    cell,
                    fixed(loss, 4),
                    f"{seconds / 60:.1f}",
                )
            )
            numbers = {"success": share.mean, "low": share.low, "high": share.high, "episodes": share.count}
            costs = {"trainings": trainings, "validation_loss": loss, "seconds": seconds}
            records.append({"world": world, "setting": name, **numbers, **costs})
    tried = {name: float(np.mean(some)) for name, some in success.items() if len(some) == len(evidence.by_world)}
    words = []
    if tried:
        best = max(tried, key=tried.__getitem__)
        best_name, most = best.replace("_", " ").capitalize(), f"{100 * tried[best]:.1f} %"
        recipe_success = tried.get(RECIPE)
        against = "" if recipe_success is None or best == RECIPE else f"; the recipe {100 * recipe_success:.1f} %"
        words.append(
            f"{best_name} succeeds most often, {most} as the mean of {count(len(evidence.by_world), 'world')}{against}. "
            f"{count(len(tried), 'setting')} tried."
        )
    heads = ("world", "setting", "trainings", "success (%)", "loss on held-out windows", "minutes of training")
    caption = "Success on held-out episodes; every setting differs from the recipe in one thing."
    return Answer("Every setting", words, [main_table(heads, rows, caption), Data("hyperparameters_policy", records)])


EXPERIMENT = Experiment(
    name="hyperparameters_policy",
    question="Which settings does the small policy get? (true state, held-out episodes)",
    claim="None of the paper's: it fixes what the study of control compares, on none of the compared methods.",
    arms=arms,
    analyse=summary,
    seeds={},
    worlds=True,
)
