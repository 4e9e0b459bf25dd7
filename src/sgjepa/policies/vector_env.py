"""Many episodes of a world side by side, in worker processes that send what the policy sees and no more.

A process has an environment for each of its episodes and one OpenGL context for all of them. An episode whose outcome is
decided is over: it is neither simulated nor drawn any further, and its last view is repeated.
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
from sgjepa.policies.base import View, posed
from sgjepa.policies.goal_tasks import Start


@dataclass(frozen=True)
class Outcome:
    """What an episode came to: its measures and labels, and how many steps it took until that was decided."""

    measures: dict[str, float]
    labels: dict[str, str]
    steps: int


def view_of(env: Env, sees: View, frame: np.ndarray | None) -> np.ndarray:
    """What a policy is shown of an environment. frame: its picture, for those who look."""
    if sees == "expert":
        return env.expert()
    if frame is None or sees == "state":
        return env.state_observation()
    return posed(frame, env.state_observation()[len(env.env_spec.state) :]) if sees == "posed" else frame


class Crew:
    """The episodes of one process. Environments are used again: `Env.begin` leaves nothing of the episode before."""

    def __init__(self, settings: DatasetConfig, sees: View):
        self._settings, self._sees = settings, sees
        self._envs: list[Env] = []
        self._running: list[Env] = []

    def begin(self, starts: Sequence[Start]) -> np.ndarray:
        """What each episode shows first, (n, ...)."""
        while len(self._envs) < len(starts):
            self._envs.append(make_env(self._settings))
        self._running = self._envs[: len(starts)]
        for env, start in zip(self._running, starts, strict=True):
            env.begin(start.seed, start.options(env.env_spec))
        return np.stack([self._view(env) for env in self._running])

    def step(self, controls: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """One frame on. Returns which episodes are over, (n,) bool, and what each of the others shows."""
        for env, control in zip(self._running, controls, strict=True):
            if not env.decided():
                env.advance(control)
        over = np.array([env.decided() for env in self._running])
        return over, [self._view(env) for env, done in zip(self._running, over, strict=True) if not done]

    def pictures(self) -> list[np.ndarray]:
        return [self._envs[0].picture_of(env) for env in self._running]

    def outcomes(self) -> list[Outcome]:
        return [Outcome(env.measures(), env.labels(), env.t) for env in self._running]

    def _view(self, env: Env) -> np.ndarray:
        sees_frames = self._sees in ("frames", "posed")
        return view_of(env, self._sees, self._envs[0].picture_of(env) if sees_frames else None)

    def close(self) -> None:
        for env in self._envs:
            env.close()


_crew: Crew | None = None  # of a worker process


def _hire(settings: DatasetConfig, sees: View) -> None:
    global _crew
    _crew = Crew(settings, sees)


def _tell(order: str, *given: Any) -> Any:
    return getattr(_crew, order)(*given)


class Fleet:
    """Crews in so many processes, or in this one. To use in a `with` statement."""

    def __init__(self, settings: DatasetConfig, sees: View, processes: int):
        self._settings, self._sees, self._processes = settings, sees, processes
        self._stack = ExitStack()
        self._pools: list[workers.Processes] = []
        self._crew: Crew | None = None
        self._seen = np.empty(0)
        self._over = np.empty(0, bool)

    def __enter__(self) -> Fleet:
        if self._processes <= 1:
            self._crew = Crew(self._settings, self._sees)
            self._stack.callback(self._crew.close)
            return self
        for _ in range(self._processes):  # a pool each: an episode stays in the process that began it
            self._pools.append(self._stack.enter_context(workers.pool(1)))
        for started in [pool.submit(_hire, self._settings, self._sees) for pool in self._pools]:
            started.result()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def begin(self, starts: Sequence[Start]) -> np.ndarray:
        """Start these episodes; returns what each shows first, (N, ...)."""
        found = self._all("begin", len(starts), lambda share: [starts[i] for i in share])
        self._seen = np.empty((len(starts), *found[0][1].shape[1:]), found[0][1].dtype)
        self._over = np.zeros(len(starts), bool)
        for share, views in found:
            self._seen[share] = views
        return self._seen.copy()

    def step(self, controls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One frame on under controls (N, A). Returns what each episode shows, (N, ...), and which are over, (N,) bool."""
        for share, (over, views) in self._all("step", len(self._seen), lambda share: controls[share]):
            self._over[share] = over
            if views:
                self._seen[share[~over]] = np.stack(views)
        return self._seen.copy(), self._over.copy()

    def pictures(self) -> np.ndarray:
        """What each episode looks like now, whatever the policy sees and whether it is over, (N, h, w, 3) uint8."""
        found: dict[int, np.ndarray] = {}
        for share, drawn in self._all("pictures", len(self._seen)):
            found |= dict(zip(share.tolist(), drawn, strict=True))
        return np.stack([found[i] for i in range(len(self._seen))])

    def outcomes(self) -> list[Outcome]:
        """What each episode has come to."""
        found: dict[int, Outcome] = {}
        for share, outcomes in self._all("outcomes", len(self._seen)):
            found |= dict(zip(share.tolist(), outcomes, strict=True))
        return [found[i] for i in range(len(self._seen))]

    def _all(self, order: str, count: int, part: Any = None) -> list[tuple[np.ndarray, Any]]:
        """The same order to every crew, each with its part of what is given; returns its episodes and its answer."""
        crews = max(len(self._pools), 1)
        # dealt like cards: neighbours in a grid of laws are over at about the same time
        shares = [np.arange(first, count, crews) for first in range(min(crews, count))]
        given = [() if part is None else (part(share),) for share in shares]
        if self._crew is not None:
            return [(shares[0], getattr(self._crew, order)(*given[0]))]
        sent: list[Future[Any]] = [pool.submit(_tell, order, *mine) for pool, mine in zip(self._pools, given, strict=False)]
        return [(share, future.result()) for share, future in zip(shares, sent, strict=True)]
