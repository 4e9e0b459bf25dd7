"""Gymnasium wrappers around a world: one draws the law of each episode, one adds the law to the observation.

Both work inside vector environments: `gymnasium.make_vec(..., wrappers=[...])`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs, seeding

from sgjepa import laws
from sgjepa.core.errors import InputError, one_line
from sgjepa.envs.base import Env
from sgjepa.laws import Grid

AnyEnv = gymnasium.Env[Any, Any]


@runtime_checkable
class Drawable(Protocol):
    """The part of a sampler that drawing needs; ClippedNormal and Grid have it."""

    @property
    def choices(self) -> int: ...
    @property
    def parameters(self) -> tuple[float, ...]: ...
    def sample(self, rng: np.random.Generator, index: int = 0) -> float: ...


@dataclass(frozen=True)
class Uniform:
    """A uniform distribution from low to high."""

    low: float
    high: float
    choices: ClassVar[int] = 1

    @property
    def parameters(self) -> tuple[float, ...]:
        return self.low, self.high

    def sample(self, rng: np.random.Generator, index: int = 0) -> float:
        return float(rng.uniform(self.low, self.high))


class RandomLaw(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Draws the laws of each episode, also of those that an automatic reset begins; info["law"] holds the drawn values.

    samplers: by the name of a law, a tuple (low, high) to draw from evenly, a list of values, or a sampler of `sgjepa.laws`;
    of a list or a Grid each value is equally likely. A reset with a seed makes the laws that follow a function of the seed,
    and launches are those that the seed gives without the wrapper. A law set at reset is not drawn, until a reset
    with a seed or with another law; {"law": {}} draws all of them again.
    """

    def __init__(self, env: AnyEnv, samplers: Mapping[str, Drawable | tuple[float, float] | Sequence[float]]):
        RecordConstructorArgs.__init__(self, samplers=samplers)
        gymnasium.Wrapper.__init__(self, env)
        if not isinstance(samplers, Mapping) or not samplers:
            raise InputError(f"RandomLaw takes laws such as {{'gravity': (2.0, 6.0)}}, got {one_line(repr(samplers), 60)}")
        self.samplers = {name: _sampler(name, draws) for name, draws in samplers.items()}
        _sgjepa_env(env).env_spec.check_laws(self.samplers)
        self._fixed: dict[str, float] = {}  # at reset, until it is set again
        self._rng: np.random.Generator | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        options = options or {}
        fixed = self._fixed if seed is None else {}
        if "law" in options:
            fixed = laws.check(options["law"])
        if seed is not None or self._rng is None:
            _, entropy = seeding.np_random(seed)  # refuses what is no seed
            own = tuple("".join(self.samplers).encode())  # a stream apart from launches and other laws
            self._rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=own))
        drawn = {name: _draw(sampler, self._rng) for name, sampler in self.samplers.items()}  # also when not used
        first = super().reset(seed=seed, options={**options, "law": {**drawn, **fixed}})
        self._fixed = fixed
        return first


class LawInObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Adds the law to the observation: {"image": (H, W, 3) uint8, "law": (L,) float32}.

    names: the laws, in this order; without names those of the environment's default law, then those that a RandomLaw
    below draws. The bounds are those of each law (`Law.limit`).
    """

    def __init__(self, env: AnyEnv, names: Sequence[str] | None = None):
        RecordConstructorArgs.__init__(self, names=names)
        gymnasium.ObservationWrapper.__init__(self, env)
        self._env = _sgjepa_env(env)
        self.names = tuple(
            dict.fromkeys((names,) if isinstance(names, str) else _law_names(env) if names is None else names)
        )
        if not self.names:
            raise InputError(f"{self._env.env_spec.name} has no law to show; give it one: make(..., law={{'gravity': 9.8}})")
        laws.check(dict.fromkeys(self.names, 0.0))
        self._env.env_spec.check_laws(self.names)
        limit = np.array([laws.LAWS[name].limit for name in self.names], np.float32)
        self.observation_space = gymnasium.spaces.Dict(
            image=env.observation_space, law=gymnasium.spaces.Box(-limit, limit, dtype=np.float32)
        )

    def observation(self, observation: Any) -> dict[str, Any]:
        law = self._env.law
        if missing := [name for name in self.names if name not in law]:
            raise InputError(
                f"the episode has no law '{missing[0]}' to show, only {', '.join(law) or 'none'}; give it to make or reset"
            )
        return {"image": observation, "law": np.array([law[name] for name in self.names], np.float32)}


def _sgjepa_env(env: AnyEnv) -> Env:
    if not isinstance(env.unwrapped, Env):
        raise InputError(f"the laws are those of sgjepa's worlds; {env} is none")
    return env.unwrapped


def _law_names(env: AnyEnv) -> list[str]:
    """Names of the laws that every episode has."""
    drawn: list[str] = []
    while isinstance(env, gymnasium.Wrapper):
        drawn += env.samplers if isinstance(env, RandomLaw) else []
        env = env.env
    return [*_sgjepa_env(env).default_law, *drawn]


def _sampler(name: str, draws: Any) -> Drawable:
    sampler: Drawable
    if isinstance(draws, tuple) and len(draws) == 2:
        sampler = Uniform(*draws)
    elif isinstance(draws, list):
        sampler = Grid(tuple(draws))
    elif isinstance(draws, Drawable):
        sampler = draws
    else:
        known = "(low, high), a list of values or a sampler such as ClippedNormal(4.0, 0.5, 0.1)"
        raise InputError(f"law '{name}' is drawn from {known}, got {one_line(repr(draws), 60)}")
    if not sampler.parameters:
        raise InputError(f"the list of values of law '{name}' is empty")
    for number in sampler.parameters:
        laws.check({name: number})
    if isinstance(sampler, Uniform) and sampler.low > sampler.high:
        raise InputError(f"law '{name}' is drawn from (low, high), got {draws!r}")
    return sampler


def _draw(sampler: Drawable, rng: np.random.Generator) -> float:
    return float(sampler.sample(rng, int(rng.integers(sampler.choices))))
