"""What an episode's number decides, given a seed and the split: the seed for reset, the laws, the plan, a policy's chance.

Each depends on nothing else, so any episode can be made alone, and a small dataset is the beginning of a large one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sgjepa import laws
from sgjepa.data.episode import SPLITS
from sgjepa.laws import Sampler

SPLIT_SEED = 42  # of training against validation episodes, the same for all trainings unless told otherwise


def episode_seed(seed: int, split: str, number: int) -> int:
    """The seed for `Env.reset`. It depends on nothing but these three: episode 17 does not need episode 16."""
    return _seed(seed, SPLITS[split], number)


def chance_seed(sampling: int, split: str, number: int) -> int:
    """The seed of whoever drives the episode. sampling: another one is another try at the same episodes."""
    return _seed(sampling, SPLITS[split], number, 3)


def _seed(seed: int, *key: int) -> int:
    high, low = np.random.SeedSequence(seed, spawn_key=key).generate_state(2, np.uint32).tolist()
    return int(high >> 1) << 32 | int(low)  # 63 bits: fits a signed integer anywhere


def episode_law(samplers: Mapping[str, Sampler], seed: int, split: str, number: int) -> dict[str, float]:
    """The laws of one episode, from a stream of their own, rounded to what the dataset's float32 columns hold."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SPLITS[split], number, 1)))
    return {name: float(np.float32(value)) for name, value in laws.draw(samplers, rng, number).items()}


def episode_plan(plans: Sequence[str], seed: int, split: str, number: int) -> str:
    """What the episode is meant to come to; empty in worlds without plans.

    Each run of as many episodes as there are plans has every one of them, in an order of its own: the shares are exact.
    """
    if not plans:
        return ""
    block, place = divmod(number, len(plans))
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SPLITS[split], block, 2)))
    return plans[int(rng.permutation(len(plans))[place])]
