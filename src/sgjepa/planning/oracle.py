"""Oracle planner, the upper bound of planning: it searches with the true simulator from the true state, without a model.

A plan is simulated from the current state; it costs the squared distance of the goal's quantities to the goal at its end.
Simulation is slow, so the search is smaller than a model's (`SEARCH`).
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
    """Receding-horizon planning by simulation, for N episodes of a world with a goal."""

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
            """The costs (1, N) of plans (1, N, P, A)."""
            distances = []
            for plan in plans[0].numpy():
                self._env.begin(start.seed, options)
                for control in plan:
                    self._env.advance(control)
                distances.append(float(np.square(self._env.state()[self._aim] - goal).sum()))
            return torch.tensor([distances])

        return self.search(cost, mean, rngs)
