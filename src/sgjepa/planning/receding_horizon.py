"""Receding-horizon planning for a batch of episodes: when to plan, where a search begins, and how long it takes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.envs.spec import EnvSpec
from sgjepa.planning.cem import PLANNERS, Cost, Search
from sgjepa.policies.goal_tasks import Start


@dataclass(frozen=True)
class PlannerConfig:
    """Settings of a planner. horizon: P, controls of a plan. execute: E, controls of a plan executed before the next.

    within: limit of a model's planned controls, in root mean squares of its training controls; 0: only the world's limits.
    """

    horizon: int = 5
    execute: int = 1
    within: float = 0.0
    search: Search = field(default_factory=Search)

    def __post_init__(self) -> None:
        check_bounds(self, horizon=(-1e6, 10_000), execute=(-1e6, 10_000), within=(0, 1e6))  # lower bounds: below
        if self.horizon < 1:
            raise InputError(f"a plan needs a horizon of at least 1, got {self.horizon}")
        if not 1 <= self.execute <= self.horizon:
            raise InputError(f"of {self.horizon} planned controls 1 to {self.horizon} can be executed, not {self.execute}")

    def check(self, spec: EnvSpec) -> None:
        """Refuse a plan that is longer than an episode of the world."""
        if self.horizon >= spec.frames:
            most = spec.frames - 1
            raise InputError(
                f"{spec.name} takes at most {most} controls in an episode, "
                f"so a plan of {self.horizon} is too long (--horizon)"
            )


class RecedingHorizon(ABC):
    """Base class of planners that control N episodes, and plan again after every E controls; subclasses make the plans.

    seconds: (N,) time to make each episode's plan at this frame, not-a-number where none was made. Episodes that are
    planned in one batch take the batch's time.
    """

    by_chance = True  # candidates are random
    together = 1  # episodes that are planned in one batch

    def __init__(self, spec: EnvSpec, cfg: PlannerConfig, familiar: np.ndarray | None = None):
        """familiar: (A,) root mean squares of the model's training controls."""
        cfg.check(spec)
        limit = np.broadcast_to(np.asarray(spec.control_limit, np.float32), len(spec.control))
        if cfg.within and familiar is not None:
            limit = np.minimum(limit, cfg.within * familiar.astype(np.float32))
        self.cfg, self.limit, self._actions = cfg, torch.from_numpy(limit.copy()), spec.actions_per_frame
        self._begin([])

    @abstractmethod
    def plans(self, rows: Tensor, mean: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        """The plans (E, P, A) of the episodes with these indices (E,), by a search from `mean`, (E, P, A)."""

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        """Begin N episodes (see `Policy`)."""
        self._begin(seeds)

    def _begin(self, seeds: Sequence[int]) -> None:
        self._seeds, self._frame = list(seeds), 0
        self._plan = torch.zeros(len(self._seeds), self.cfg.horizon, len(self.limit))
        self._over = np.zeros(len(self._seeds), bool)
        self.seconds = np.full(len(self._seeds), np.nan)

    def aim(self, starts: Sequence[Start]) -> None:  # noqa: B027
        """Set how each episode begins, and its goal if it has one."""

    def rest(self, over: np.ndarray) -> None:
        """Stop planning for episodes that are over, (N,) bool."""
        self._over = over

    def search(self, cost: Cost, mean: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        """The best plans (E, P, A) of a search from `mean`, on the CPU."""
        search = PLANNERS.lookup(self.cfg.search.way)
        return search(self.cfg.search, cost, mean, self.limit.to(mean.device), rngs, self._actions)[0].cpu()

    def next_control(self, before: float = 0.0) -> np.ndarray:
        """The next control of each plan, (N, A); plans again every E frames. before: seconds that encoding took."""
        replan, since = divmod(self._frame, self.cfg.execute)
        self.seconds = np.full(len(self._plan), np.nan)
        running = np.flatnonzero(~self._over)
        if since == 0:
            # the last plan, shifted by the executed controls and padded with zeros
            moved = self.cfg.execute if replan else 0
            mean = torch.cat([self._plan[:, moved:], torch.zeros_like(self._plan[:, :moved])], dim=1)
            for rows in torch.split(torch.from_numpy(running), self.together):
                began = time.perf_counter()
                rngs = [np.random.default_rng([self._seeds[row], replan]) for row in rows]
                self._plan[rows] = self.plans(rows, mean[rows], rngs)
                self.seconds[rows] = before + time.perf_counter() - began
        self._frame += 1
        control: np.ndarray = self._plan[:, since].numpy().astype(np.float32)
        return control
