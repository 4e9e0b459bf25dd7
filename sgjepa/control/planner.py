"""A planner as a policy: it imagines what its controls would lead to, and carries out the beginning of the best plan.

The newest frames of all episodes are encoded once. A search (control/search.py) draws plans of P controls for every episode;
the world model imagines all of them in one batch from a shared past (models/imagine.py); a cost says how good the imagined
latents are. After E controls it plans again, from the last plan moved on by E.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sgjepa.control.policy import View
from sgjepa.control.search import Search, search
from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.envs.world import World
from sgjepa.models.base import WorldModel
from sgjepa.models.imagine import imagine

_ROWS = 4096  # candidates that are imagined at a time


class Price(Protocol):
    """What imagined futures cost: latents (E, N, P, ...) of the episodes with these numbers (E,) -> (E, N)."""

    def __call__(self, futures: Tensor, episodes: Tensor, /) -> Tensor: ...


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


class Distance:
    """The squared distance of the last imagined features to those of a goal, (E, F)."""

    def __init__(self, model: WorldModel, goal: Tensor):
        """goal: latents of one frame of each episode, (E, ...)."""
        self._model, self._goal = model, model.features(goal[:, None])[:, 0]

    def __call__(self, futures: Tensor, episodes: Tensor) -> Tensor:
        last = self._model.features(futures[:, :, -1])  # (E, N, F): candidates in the place of time
        return (last - self._goal[episodes][:, None]).square().mean(dim=-1)


class Planner:
    """Drives N episodes. price: what futures cost; it may depend on the episode, such as a goal of its own."""

    sees: View = "frames"

    def __init__(self, model: WorldModel, history: int, world: World, price: Price, cfg: PlannerConfig):
        if model.controls != len(world.control):
            raise InputError(
                f"the model takes {model.controls} controls and {world.name} has {len(world.control)}: plan with a run of "
                "that world"
            )
        self._model, self._history, self._price, self._cfg = model.eval(), history, price, cfg
        limit = np.broadcast_to(np.asarray(world.control_limit, np.float32), len(world.control))
        self._limit = torch.from_numpy(limit.copy())
        self._latents: list[Tensor] = []
        self._given: list[Tensor] = []
        self._plan = torch.zeros(0, cfg.horizon, len(limit))
        self._seeds: list[int] = []
        self._frame = 0

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        self._latents, self._given, self._frame = [], [], 0
        self._seeds = list(seeds)
        self._plan = torch.zeros(len(self._seeds), self._cfg.horizon, len(self._limit))

    @torch.no_grad()
    def act(self, seen: np.ndarray, laws: np.ndarray) -> np.ndarray:
        frames = torch.from_numpy(np.ascontiguousarray(seen))[:, None]
        self._latents = [*self._latents, self._model.encode(frames)[:, 0]][-self._history :]
        replan, since = divmod(self._frame, self._cfg.execute)
        if since == 0:
            self._plan = self._planned(torch.from_numpy(np.asarray(laws, np.float32)), replan)
        control = self._plan[:, since]
        self._given = [*self._given, control][-(self._history - 1) :] if self._history > 1 else []
        self._frame += 1
        return control.numpy().astype(np.float32)

    def _planned(self, law: Tensor, replan: int) -> Tensor:
        """A plan for every episode, (N, P, A)."""
        z = torch.stack(self._latents, dim=1)  # (N, T, ...)
        given = torch.stack(self._given, dim=1) if self._given else self._plan[:, :0]
        past = self._model.condition(given[:, -(z.shape[1] - 1) :] if z.shape[1] > 1 else given[:, :0], law)
        # the last plan, moved on by what was carried out of it; what comes after it is unknown
        moved = self._cfg.execute if replan else 0
        mean = torch.cat([self._plan[:, moved:], torch.zeros_like(self._plan[:, :moved])], dim=1)
        rngs = [np.random.default_rng([seed, replan]) for seed in self._seeds]
        best, _ = search(self._cfg.search, lambda plans: self._cost(plans, z, past, law), mean, self._limit, rngs)
        return best

    def _cost(self, plans: Tensor, z: Tensor, past: Tensor, law: Tensor) -> Tensor:
        """plans (E, N, P, A) -> (E, N), as many episodes at a time as memory is for."""
        count, block = plans.shape[1], max(1, _ROWS // plans.shape[1])
        costs = []
        for rows in torch.split(torch.arange(len(plans)), block):
            some = plans[rows]
            laws = law[rows].repeat_interleave(count, dim=0)
            c = self._model.condition(some.flatten(0, 1), laws).view(*some.shape[:3], -1)
            costs.append(self._price(imagine(self._model, z[rows], past[rows], c, self._history), rows))
        return torch.cat(costs)
