"""A planner as a policy: it imagines what its controls would lead to, and carries out the beginning of the best plan.

The newest frames of all episodes are encoded once. A search (planning/cem.py) draws plans of P controls for every episode;
the world model imagines all of them in one batch from a shared past (models/candidate_rollouts.py); a price says how good
the imagined latents are. After E controls it plans again, from the last plan moved on by E.

On a CPU a batch holds the candidates of one episode: with 300 of them more episodes gain nothing (docs/log.md), and a
matrix product of always as many rows makes an episode's plan independent of the others. On a GPU a batch holds all that fit.
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


class Price(Protocol):
    """What imagined futures cost."""

    def __call__(self, past: Tensor, futures: Tensor, episodes: Tensor, /) -> Tensor:
        """past (E, T, ...): true latents, the newest last; futures (E, N, P, ...) of the episodes with these numbers (E,)
        -> (E, N)"""


def whole_past(z: Tensor, controls: Tensor, still: Tensor, frames: int) -> tuple[Tensor, Tensor]:
    """Latents (N, t, ...) and controls (N, t - 1, A) of so many frames at least: a model knows no shorter past.

    The first frame is repeated, as if the world had held still.
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
        last = self._model.features(futures[:, :, -1])  # (E, N, F): candidates in the place of time
        return (last - self._goal[episodes][:, None]).square().mean(dim=-1)


class Planner(RecedingHorizon):
    """Drives N episodes of a world that the model fits. price: what futures cost; it may depend on the episode, such as a
    goal of its own.

    A model answers for windows of H frames. Before frame 0, frame 0 is repeated with the control that holds still; or
    `remember` says what came before.
    """

    observes: Sequence[Part] = ("frame",)

    def __init__(
        self, model: WorldModel, history: int, spec: EnvSpec, price: Price | None, cfg: PlannerConfig, lookback: int = 0
    ):
        """price: None if `aim` sets it. lookback: latents that the price needs of the past, if these are more than H."""
        familiar = (model.control_mean.square() + model.control_std.square()).sqrt().cpu().numpy()
        self._model, self._history = model.eval(), history
        self._price: Price | None = price
        super().__init__(spec, cfg, familiar)
        self._device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._lookback = max(lookback, history)
        self._still = torch.tensor(spec.rest_control or [0.0] * len(spec.control), device=self._device)
        self._z: Tensor | None = None  # of the frames so far, (N, t, ...)
        self._controls: Tensor | None = None  # the controls that led on from them, (N, t, A)
        self._law = torch.empty(0)
        self.together = 1 if self._device.type == "cpu" else max(1, _ROWS // cfg.search.candidates)

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        super().reset(laws, seeds)
        self._z = self._controls = None

    def remember(self, frames: np.ndarray, controls: np.ndarray) -> None:
        """What came before the first frame, oldest first: frames, and the controls that led on from them, (N, t, ...)."""
        self._z, self._controls = self._latents(frames), torch.from_numpy(np.asarray(controls, np.float32)).to(self._device)

    @torch.no_grad()
    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        self._law = torch.from_numpy(np.asarray(laws, np.float32)).to(self._device)
        began = time.perf_counter()
        z = self._latents(observation["frame"][:, None])
        seconds = (time.perf_counter() - began) / -(-len(z) // ROWS)  # of one batch, which is as large for one frame
        controls = self._still.expand(len(z), 0, -1)
        if self._z is not None and self._controls is not None:
            z, controls = torch.cat([self._z, z], dim=1), self._controls
        z, controls = whole_past(z, controls, self._still, self._lookback)
        self._z, self._controls = z[:, -self._lookback :], controls[:, controls.shape[1] - self._lookback + 1 :]
        control = self.next_control(seconds)
        self._controls = torch.cat([self._controls, torch.from_numpy(control).to(self._device)[:, None]], dim=1)
        return control

    def _latents(self, frames: np.ndarray) -> Tensor:
        """(N, t, h, w, 3) -> (N, t, ...), always as many at a time."""
        flat = torch.from_numpy(np.ascontiguousarray(frames)).flatten(0, 1).to(self._device)
        latents = in_blocks(lambda some: self._model.encode(some[:, None])[:, 0], flat)
        return latents.view(*frames.shape[:2], *latents.shape[1:])

    def plans(self, rows: Tensor, mean: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        assert self._z is not None
        assert self._controls is not None
        price = self._price
        if price is None:
            raise InputError("a planner towards goals was given none: call `aim` first")
        z, law, history = self._z[rows], self._law[rows], self._history
        recent = z[:, -history:]
        controls = self._controls[rows][:, self._controls.shape[1] - history + 1 :]
        mean = mean.to(self._device)
        # with one more, whose condition is not used: a model need not take a sequence of no frames
        past = self._model.condition(torch.cat([controls, mean[:, :1]], dim=1), law)[:, :-1]
        roll = prepare_candidate_rollout(self._model, recent, past, mean.shape[1], history)

        def cost(plans: Tensor) -> Tensor:
            """(E, N, P, A) -> (E, N)"""
            laws = law.repeat_interleave(plans.shape[1], dim=0)
            c = self._model.condition(plans.flatten(0, 1), laws)
            return price(z, roll(c.view(*plans.shape[:3], -1)), rows)

        return self.search(cost, mean, rngs)
