"""Adapter of world models to the solvers of stable-worldmodel, which need one method, `get_cost`.

    solver = stable_worldmodel.solver.CEMSolver(as_cost(Path("runs/reacher_gru-mini-seed0")), num_samples=300)

info, a tensor each, repeated for every candidate by the solver; B episodes, S candidates, T frames, P controls ahead:

    pixels    (B, S, T, h, w, 3) uint8, the newest frame last
    goal      (B, S, 1, h, w, 3) uint8, the picture to reach
    control   (B, S, T - 1, A), the controls between the frames; may be missing where T is 1
    law       (B, S, L), in the order of the run's dataset; may be missing in a world without laws

Controls are in the world's own units. These solvers do not know the limits of an action; actions beyond them are
clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.envs import get_env
from sgjepa.models.base import WorldModel
from sgjepa.models.candidate_rollouts import prepare_candidate_rollout, rollout_candidates_plain
from sgjepa.planning.planner import Distance, whole_past
from sgjepa.training import checkpoint

_PREPARED = "sgjepa"  # key in the solver's dict, which it passes again at every iteration


def as_cost(run: Path) -> Cost:
    """The finished run in a folder as a cost model for stable-worldmodel's solvers."""
    settings, model = checkpoint.load_run(run)
    worlds = run_folder.about(run).worlds
    if len(worlds) != 1:
        raise InputError(f"{run} was trained on {len(worlds)} worlds; a planner needs a run of one")
    spec = get_env(worlds[0]).env_spec
    return Cost(model, settings.history, spec.control_limit, spec.rest_control)


class Cost(nn.Module):
    """A cost model with `get_cost` and `criterion`: the distance of the last imagined latent to the goal's."""

    limit: Tensor
    still: Tensor

    def __init__(
        self, model: WorldModel, history: int, limit: float | tuple[float, ...], still: tuple[float, ...] | None = None
    ):
        super().__init__()
        self.register_buffer("still", torch.tensor(still or (0.0,) * model.controls, dtype=torch.float32))
        self.model, self.history = model.eval(), history
        self.register_buffer("limit", torch.tensor(np.broadcast_to(np.asarray(limit, np.float32), model.controls).copy()))

    def get_cost(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        """The costs (B, S) of candidates (B, S, P, A). The encoded past is cached in the dict."""
        if _PREPARED not in info_dict:
            info_dict[_PREPARED] = self._begin(info_dict, action_candidates.shape[2])
        cost: Tensor = info_dict[_PREPARED](action_candidates)
        return cost

    def criterion(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        """The costs (B, S) of candidates: `get_cost` under the name of the solvers' protocol."""
        return self.get_cost(info_dict, action_candidates)

    def _begin(self, info: dict[str, Any], steps: int) -> Callable[[Tensor], Tensor]:
        frames, goal = (_entry(info, name) for name in ("pixels", "goal"))
        batch = len(frames)
        control = _entry(info, "control") if "control" in info else torch.zeros(batch, 0, self.model.controls)
        law = _entry(info, "law") if "law" in info else torch.zeros(batch, 0)
        if control.shape[1:] != (frames.shape[1] - 1, self.model.controls) or law.shape[1] != self.model.laws:
            raise InputError(
                f"{frames.shape[1]} frames need {frames.shape[1] - 1} controls of {self.model.controls} channels and "
                f"{self.model.laws} laws, got {tuple(control.shape[1:])} and {law.shape[1]}"
            )
        with torch.no_grad():
            z, control = whole_past(self.model.encode(frames), control, self.still, self.history)
            z = z[:, -self.history :]
            control = torch.cat([control, control.new_zeros(batch, 1, self.model.controls)], dim=1)
            past = self.model.condition(control, law)[:, -z.shape[1] : -1]
            roll = prepare_candidate_rollout(self.model, z, past, steps, self.history)
            goal_distance = Distance(self.model, self.model.encode(goal)[:, 0])

        def cost(candidates: Tensor) -> Tensor:
            laws = law.repeat_interleave(candidates.shape[1], dim=0)
            plans = candidates.to(z).clamp(-self.limit, self.limit).flatten(0, 1)
            c = self.model.condition(plans, laws).view(*candidates.shape[:3], -1)
            # gradient-based solvers need the plain rollout: the fast one is not differentiable
            differentiable = torch.is_grad_enabled() and candidates.requires_grad
            futures = rollout_candidates_plain(self.model, z, past, c, self.history) if differentiable else roll(c)
            return goal_distance(z, futures, torch.arange(batch))

        return cost


def _entry(info: dict[str, Any], name: str) -> Tensor:
    """An entry of the solver's info without the axis of the candidates."""
    if name not in info:
        raise InputError(f"the solver's info lacks '{name}'; it has {', '.join(sorted(map(str, info))) or 'nothing'}")
    entry: Tensor = torch.as_tensor(info[name])[:, 0]
    return entry
