"""The ceiling of planning: the same search with the true simulator in the model's place, and the true state before it.

A plan is carried out in an environment that is put into the present state; it costs the distance of the goal's quantities at
its end, squared. No model, no pictures. Simulating is slow, so its search is smaller than that of a model (`SEARCH`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.data.config import DatasetConfig, make_env
from sgjepa.envs.base import Env
from sgjepa.planning.cem import Search
from sgjepa.planning.receding_horizon import PlannerConfig, RecedingHorizon
from sgjepa.policies.base import Observation, Part
from sgjepa.policies.goal_tasks import Start

SEARCH = Search(candidates=64, iterations=6, elites=8)


class TrueSimulator(RecedingHorizon):
    """Drives N episodes of a world with a goal."""

    observes: Sequence[Part] = ("state",)

    def __init__(self, settings: DatasetConfig, cfg: PlannerConfig):
        self._env: Env = make_env(settings)
        spec = self._env.env_spec
        if not spec.goal:
            raise InputError(f"{spec.name} has no goal to reach (EnvSpec.goal)")
        super().__init__(spec, cfg)
        names = [quantity.name for quantity in spec.state]
        self._names, self._aim = names, [names.index(name) for name in spec.goal]
        self._starts: Sequence[Start] = ()
        self._states = np.zeros((0, len(names)))

    def aim(self, starts: Sequence[Start]) -> None:
        self._starts = starts

    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        self._states = observation["state"][:, : len(self._names)]
        return self.next_control()

    def plans(self, rows: Tensor, mean: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        (row,) = rows.tolist()
        start, spec = self._starts[row], self._env.env_spec
        goal = np.array(list(start.options(spec)["goal"].values()))
        now = dict(zip(self._names, self._states[row].tolist(), strict=True))
        options: dict[str, Any] = {**start.options(spec), "state": now}

        def cost(plans: Tensor) -> Tensor:
            """(1, N, P, A) -> (1, N)"""
            distances = []
            for plan in plans[0].numpy():
                self._env.begin(start.seed, options)
                for control in plan:
                    self._env.advance(control)
                distances.append(float(np.square(self._env.state()[self._aim] - goal).sum()))
            return torch.tensor([distances])

        return self.search(cost, mean, rngs)
