"""The plans of many episodes side by side: when each is made, from where its search begins, and how long that took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sgjepa.control.search import Search
from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.envs.world import World


@dataclass(frozen=True)
class PlannerConfig:
    """horizon: P, controls of a plan. execute: E, how many of them are carried out before the next plan."""

    horizon: int = 5
    execute: int = 1
    search: Search = field(default_factory=Search)

    def __post_init__(self) -> None:
        check_bounds(self, horizon=(-1, 10_000), execute=(-1, 10_000))  # from below they are checked here
        if self.horizon < 1:
            raise InputError(f"a plan needs a horizon of at least 1, got {self.horizon}")
        if not 1 <= self.execute <= self.horizon:
            raise InputError(f"of {self.horizon} planned controls 1 to so many can be carried out, not {self.execute}")


class Finder(Protocol):
    """What finds plans. together: of so many episodes at a time."""

    @property
    def together(self) -> int: ...

    def plans(self, rows: Tensor, mean: Tensor, rngs: Sequence[np.random.Generator], /) -> Tensor:
        """Plans of the episodes with these numbers (E,), by a search that begins at `mean`, (E, P, A) -> (E, P, A)."""


class Agenda:
    """See the module. seconds: what the last plan of each episode took, not-a-number where none was made this time."""

    def __init__(self, world: World, cfg: PlannerConfig):
        limit = np.broadcast_to(np.asarray(world.control_limit, np.float32), len(world.control))
        self.cfg, self.limit = cfg, torch.from_numpy(limit.copy())
        self.reset([])

    def reset(self, seeds: Sequence[int]) -> None:
        self._seeds, self._frame = list(seeds), 0
        self._plan = torch.zeros(len(self._seeds), self.cfg.horizon, len(self.limit))
        self._over = np.zeros(len(self._seeds), bool)
        self.seconds = np.full(len(self._seeds), np.nan)

    def rest(self, over: np.ndarray) -> None:
        self._over = over

    def next(self, finder: Finder) -> np.ndarray:
        """The next control of each plan, (N, A), after planning anew where it is time."""
        replan, since = divmod(self._frame, self.cfg.execute)
        self.seconds = np.full(len(self._plan), np.nan)
        awake = np.flatnonzero(~self._over)
        if since == 0:
            # the last plan, moved on by what was carried out of it; what comes after it is unknown
            moved = self.cfg.execute if replan else 0
            mean = torch.cat([self._plan[:, moved:], torch.zeros_like(self._plan[:, :moved])], dim=1)
            for rows in torch.split(torch.from_numpy(awake), finder.together):
                began = time.perf_counter()
                rngs = [np.random.default_rng([self._seeds[row], replan]) for row in rows]
                self._plan[rows] = finder.plans(rows, mean[rows], rngs)
                self.seconds[rows] = (time.perf_counter() - began) / len(rows)
        self._frame += 1
        control: np.ndarray = self._plan[:, since].numpy().astype(np.float32)
        return control
