"""The true simulation of a launch under a law: what the left picture of the viewer shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sgjepa.core.errors import InputError, one_line
from sgjepa.data import episode
from sgjepa.data.config import episode_plan, episode_seed
from sgjepa.data.episode import Episode
from sgjepa.envs.base import Env

MOST_SEEDS = 1_000_000


@dataclass(frozen=True)
class Truth:
    """An episode, and where its object is seen: closed curves (T, K, 2) in picture widths; None if the world cannot tell."""

    episode: Episode
    outline: np.ndarray | None


def check_seed(seed: object, name: str = "seed") -> int:
    """A seed from outside."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < MOST_SEEDS:
        raise InputError(f"{name} must be a whole number from 0 to {MOST_SEEDS - 1}, got {one_line(seed, 40)}")
    return seed


def simulate(env: Env, seed: int, law: Mapping[str, float]) -> Truth:
    """Launch `seed`, driven by the demonstrator where there is one. It is that of test episode `seed` of usual datasets."""
    plan = episode_plan(env.env_spec.expert_plans, 0, "test", seed)
    made = episode.simulate(env, episode_seed(0, "test", seed), law, plan)
    names = (quantity.name for quantity in env.env_spec.state)
    state = dict(zip(names, made.state.T.astype(np.float64), strict=True))
    return Truth(made, env.outline(state))
