"""Vectorised environments: many episodes in worker processes, which send only the parts that a policy observes.

A process has an environment for each of its episodes and one OpenGL context for all of them. An episode whose outcome is
decided is over: it is not simulated or drawn any further, and its last observation is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.core import processes as workers
from sgjepa.data.config import DatasetConfig, make_env
from sgjepa.envs.base import Env
from sgjepa.policies.base import Observation, Part
from sgjepa.policies.goal_tasks import Start


@dataclass(frozen=True)
class Outcome:
    """The outcome of an episode: its measures, its labels, and the steps until they were decided."""

    measures: dict[str, float]
    labels: dict[str, str]
    steps: int


def observe(env: Env, parts: Sequence[Part], frame: np.ndarray | None = None) -> Observation:
    """The observation of one environment, without an axis of episodes. frame: its picture, if `parts` has it."""
    observation: Observation = {}
    for part in parts:
        if part == "frame":
            assert frame is not None
            observation[part] = frame
        elif part == "expert":
            observation[part] = env.expert()
        else:
            state = env.state_observation()
            observation[part] = state if part == "state" else state[len(env.env_spec.state) :]
    return observation


def stack(observations: Sequence[Observation]) -> Observation:
    """Stack observations of single episodes to one of a batch."""
    return {part: np.stack([observation[part] for observation in observations]) for part in observations[0]}


class Crew:
    """The episodes of one process. Environments are reused: `Env.begin` resets them completely."""

    def __init__(self, settings: DatasetConfig, parts: Sequence[Part]):
        self._settings, self._parts = settings, parts
        self._envs: list[Env] = []
        self._running: list[Env] = []

    def begin(self, starts: Sequence[Start]) -> Observation:
        """Begin episodes; returns their first observation."""
        while len(self._envs) < len(starts):
            self._envs.append(make_env(self._settings))
        self._running = self._envs[: len(starts)]
        for env, start in zip(self._running, starts, strict=True):
            env.begin(start.seed, start.options(env.env_spec))
        return stack([self._observe(env) for env in self._running])

    def step(self, controls: np.ndarray) -> tuple[np.ndarray, Observation]:
        """Advance by one frame. Returns which episodes are over, (n,) bool, and the observation of the others."""
        for env, control in zip(self._running, controls, strict=True):
            if not env.decided():
                env.advance(control)
        over = np.array([env.decided() for env in self._running])
        others = [self._observe(env) for env, done in zip(self._running, over, strict=True) if not done]
        return over, stack(others) if others else {}

    def pictures(self) -> list[np.ndarray]:
        return [self._envs[0].picture_of(env) for env in self._running]

    def outcomes(self) -> list[Outcome]:
        return [Outcome(env.measures(), env.labels(), env.t) for env in self._running]

    def _observe(self, env: Env) -> Observation:
        return observe(env, self._parts, self._envs[0].picture_of(env) if "frame" in self._parts else None)

    def close(self) -> None:
        for env in self._envs:
            env.close()


_crew: Crew | None = None  # of a worker process


def _hire(settings: DatasetConfig, parts: Sequence[Part]) -> None:
    global _crew
    _crew = Crew(settings, parts)


def _call(order: str, *arguments: Any) -> Any:
    return getattr(_crew, order)(*arguments)


class Fleet:
    """Crews in `processes` worker processes, or one in this process. A context manager."""

    def __init__(self, settings: DatasetConfig, parts: Sequence[Part], processes: int):
        self._settings, self._parts, self._processes = settings, parts, processes
        self._stack = ExitStack()
        self._pools: list[workers.Processes] = []
        self._crew: Crew | None = None
        self._observation: Observation = {}
        self._count = 0
        self._over = np.empty(0, bool)

    def __enter__(self) -> Fleet:
        if self._processes <= 1:
            self._crew = Crew(self._settings, self._parts)
            self._stack.callback(self._crew.close)
            return self
        for _ in range(self._processes):  # one pool per process, so that an episode stays in its process
            self._pools.append(self._stack.enter_context(workers.pool(1)))
        for started in [pool.submit(_hire, self._settings, self._parts) for pool in self._pools]:
            started.result()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def begin(self, starts: Sequence[Start]) -> Observation:
        """Begin episodes; returns their first observation."""
        answers = self._all("begin", len(starts), lambda share: [starts[i] for i in share])
        self._count, self._over = len(starts), np.zeros(len(starts), bool)
        self._observation = {
            part: np.empty((len(starts), *values.shape[1:]), values.dtype) for part, values in answers[0][1].items()
        }
        for share, observation in answers:
            for part, values in observation.items():
                self._observation[part][share] = values
        return self._copy()

    def step(self, controls: np.ndarray) -> tuple[Observation, np.ndarray]:
        """Advance by one frame with controls (N, A). Returns the observation, and which episodes are over, (N,) bool."""
        for share, (over, observation) in self._all("step", self._count, lambda share: controls[share]):
            self._over[share] = over
            for part, values in observation.items():
                self._observation[part][share[~over]] = values
        return self._copy(), self._over.copy()

    def _copy(self) -> Observation:
        return {part: values.copy() for part, values in self._observation.items()}

    def pictures(self) -> np.ndarray:
        """Pictures of all episodes, (N, h, w, 3) uint8, also of those that are over."""
        by_number: dict[int, np.ndarray] = {}
        for share, drawn in self._all("pictures", self._count):
            by_number |= dict(zip(share.tolist(), drawn, strict=True))
        return np.stack([by_number[i] for i in range(self._count)])

    def outcomes(self) -> list[Outcome]:
        """The outcome of each episode so far."""
        by_number: dict[int, Outcome] = {}
        for share, outcomes in self._all("outcomes", self._count):
            by_number |= dict(zip(share.tolist(), outcomes, strict=True))
        return [by_number[i] for i in range(self._count)]

    def _all(self, order: str, count: int, part: Any = None) -> list[tuple[np.ndarray, Any]]:
        """Call a method of every crew with its share of the arguments; returns pairs of episode indices and result."""
        crews = max(len(self._pools), 1)
        # interleaved shares: neighbours in a grid of laws end at about the same time
        shares = [np.arange(first, count, crews) for first in range(min(crews, count))]
        arguments = [() if part is None else (part(share),) for share in shares]
        if self._crew is not None:
            return [(shares[0], getattr(self._crew, order)(*arguments[0]))]
        sent: list[Future[Any]] = [
            pool.submit(_call, order, *share) for pool, share in zip(self._pools, arguments, strict=False)
        ]
        return [(share, future.result()) for share, future in zip(shares, sent, strict=True)]
