"""Reference policies: scripted expert (upper bound), no motion and random controls (lower bounds)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sgjepa.core.registry import Registry
from sgjepa.envs.spec import EnvSpec
from sgjepa.policies.base import Observation, Part, Policy


class Demonstrator:
    """The world's scripted expert, which acts on the true state: the upper bound of a policy that imitates it."""

    observes: Sequence[Part] = ("expert",)
    by_chance = False

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        pass

    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        return np.asarray(observation["expert"], np.float32)


class HoldStill:
    """Constant controls that keep the robot at its initial pose: the lower bound of success without acting."""

    observes: Sequence[Part] = ("state",)
    by_chance = False

    def __init__(self, spec: EnvSpec):
        self._control = np.array(spec.rest_control or np.zeros(len(spec.control)), np.float32)

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        pass

    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        return np.tile(self._control, (len(laws), 1))


class Random:
    """Uniform random controls within the limits, drawn at every frame."""

    observes: Sequence[Part] = ("state",)
    by_chance = True

    def __init__(self, spec: EnvSpec):
        self._limit = np.broadcast_to(np.asarray(spec.control_limit, np.float32), len(spec.control))
        self._rngs: list[np.random.Generator] = []

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        self._rngs = [np.random.default_rng(seed) for seed in seeds]

    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        drawn = np.stack([rng.uniform(-1, 1, len(self._limit)) for rng in self._rngs])
        return (drawn * self._limit).astype(np.float32)


SIMPLE: Registry[Callable[[EnvSpec], Policy]] = Registry(
    "policy",
    {"expert": lambda world: Demonstrator(), "still": HoldStill, "random": Random},
)


def simple(name: str, spec: EnvSpec) -> Policy:
    """The reference policy with a name, for a world."""
    return SIMPLE.lookup(name)(spec)
