"""A planner as a policy: it imagines the outcomes of candidate plans, and executes the beginning of the best one.

The newest frames of all episodes are encoded once. A search (planning/cem.py) draws plans of P controls for every episode;
the world model imagines all of them in one batch from a shared past (models/candidate_rollouts.py); a planning cost
scores the imagined latents. After E controls it plans again, from the last plan shifted by E.

On a CPU a batch holds the candidates of one episode: with 300 of them, larger batches are not faster (docs/log.md), and
matrix products of a fixed size make an episode's plan independent of the others. On a GPU a batch holds all that fit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sgjepa.core.errors import InputError
from sgjepa.envs.spec import EnvSpec
from sgjepa.models.base import WorldModel
from sgjepa.models.candidate_rollouts import prepare_candidate_rollout
from sgjepa.planning.receding_horizon import PlannerConfig, RecedingHorizon
from sgjepa.policies.base import Observation, Part
from sgjepa.policies.features import ROWS, in_blocks

_ROWS = 65_536  # candidates that are imagined at a time, on a GPU


class PlanningCost(Protocol):
    """The cost of imagined futures."""

    def __call__(self, past: Tensor, futures: Tensor, episodes: Tensor, /) -> Tensor:
        """The costs (E, N) of futures (E, N, P, ...).

        past: true latents (E, T, ...), the newest last. episodes: (E,) indices of the episodes.
        """


def whole_past(z: Tensor, controls: Tensor, still: Tensor, frames: int) -> tuple[Tensor, Tensor]:
    """Latents (N, t, ...) and controls (N, t - 1, A) of at least `frames` frames, as the model's history needs.

    Missing frames are repetitions of the first one, with the control that holds still.
    """
    missing = frames - z.shape[1]
    if missing <= 0:
        return z, controls
    z = torch.cat([z[:, :1].expand(-1, missing, *z.shape[2:]), z], dim=1)
    return z, torch.cat([still.expand(len(z), missing, -1), controls], dim=1)


class Distance:
    """The squared distance of the last imagined features to those of a goal."""

    def __init__(self, model: WorldModel, goal: Tensor):
        """goal: latents of one frame of each episode, (E, ...)."""
        self._model, self._goal = model, model.features(goal[:, None])[:, 0]  # (E, F)

    def __call__(self, past: Tensor, futures: Tensor, episodes: Tensor) -> Tensor:
        last = self._model.features(futures[:, :, -1])  # (E, N, F): candidates along the axis of time
        return (last - self._goal[episodes][:, None]).square().mean(dim=-1)


class Planner(RecedingHorizon):
    """Plans with a world model for N episodes; the cost of a plan may depend on the episode, such as on its goal.

    A model predicts from windows of H frames. Before frame 0, frame 0 is repeated with the control that holds still, unless
    `remember` gives earlier frames.
    """

    observes: Sequence[Part] = ("frame",)

    def __init__(
        self,
        model: WorldModel,
        history: int,
        spec: EnvSpec,
        cost: PlanningCost | None,
        cfg: PlannerConfig,
        lookback: int = 0,
    ):
        """cost: None if `aim` sets it. lookback: past latents that the cost needs, if more than H."""
        familiar = (model.control_mean.square() + model.control_std.square()).sqrt().cpu().numpy()
        self._model, self._history = model.eval(), history
        self._cost: PlanningCost | None = cost
        super().__init__(spec, cfg, familiar)
        self._device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._lookback = max(lookback, history)
        self._still = torch.tensor(spec.rest_control or [0.0] * len(spec.control), device=self._device)
        self._z: Tensor | None = None  # of the frames so far, (N, t, ...)
        self._controls: Tensor | None = None  # the controls that follow them, (N, t, A)
        self._law = torch.empty(0)
        self.together = 1 if self._device.type == "cpu" else max(1, _ROWS // cfg.search.candidates)

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        super().reset(laws, seeds)
        self._z = self._controls = None

    def remember(self, frames: np.ndarray, controls: np.ndarray) -> None:
        """Set the frames before the first one, oldest first, and the controls that follow them, (N, t, ...) each."""
        self._z, self._controls = self._latents(frames), torch.from_numpy(np.asarray(controls, np.float32)).to(self._device)

    @torch.no_grad()
    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        self._law = torch.from_numpy(np.asarray(laws, np.float32)).to(self._device)
        began = time.perf_counter()
        z = self._latents(observation["frame"][:, None])
        seconds = (time.perf_counter() - began) / -(-len(z) // ROWS)  # of one batch, whose size does not depend on N
        controls = self._still.expand(len(z), 0, -1)
        if self._z is not None and self._controls is not None:
            z, controls = torch.cat([self._z, z], dim=1), self._controls
        z, controls = whole_past(z, controls, self._still, self._lookback)
        self._z, self._controls = z[:, -self._lookback :], controls[:, controls.shape[1] - self._lookback + 1 :]
        control = self.next_control(seconds)
        self._controls = torch.cat([self._controls, torch.from_numpy(control).to(self._device)[:, None]], dim=1)
        return control

    def _latents(self, frames: np.ndarray) -> Tensor:
        """Encode frames (N, t, h, w, 3) to latents (N, t, ...), in batches of a fixed size."""
        flat = torch.from_numpy(np.ascontiguousarray(frames)).flatten(0, 1).to(self._device)
        latents = in_blocks(lambda some: self._model.encode(some[:, None])[:, 0], flat)
        return latents.view(*frames.shape[:2], *latents.shape[1:])

    def plans(self, rows: Tensor, mean: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        assert self._z is not None
        assert self._controls is not None
        planning_cost = self._cost
        if planning_cost is None:
            raise InputError("a planner towards goals has no goal: call `aim` first")
        z, law, history = self._z[rows], self._law[rows], self._history
        recent = z[:, -history:]
        controls = self._controls[rows][:, self._controls.shape[1] - history + 1 :]
        mean = mean.to(self._device)
        # one more control, whose condition is not used, because a model need not take an empty sequence
        past = self._model.condition(torch.cat([controls, mean[:, :1]], dim=1), law)[:, :-1]
        roll = prepare_candidate_rollout(self._model, recent, past, mean.shape[1], history)

        def cost(plans: Tensor) -> Tensor:
            """The costs (E, N) of plans (E, N, P, A)."""
            laws = law.repeat_interleave(plans.shape[1], dim=0)
            c = self._model.condition(plans.flatten(0, 1), laws)
            return planning_cost(z, roll(c.view(*plans.shape[:3], -1)), rows)

        return self.search(cost, mean, rngs)
