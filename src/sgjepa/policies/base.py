"""Policy protocol (batched), for demonstrators, learned policies and planners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np

# parts of an observation: the newest picture (h, w, 3) uint8; the robot's proprioception, with the goal if it has one; the
# true state with the proprioception; the controls of the world's scripted expert
Part: TypeAlias = Literal["frame", "pose", "state", "expert"]
Observation: TypeAlias = dict[Part, np.ndarray]  # of N episodes by part, (N, ...) each


class Policy(Protocol):
    """A policy that controls a batch of N episodes. It observes only the parts that `observes` lists.

    Optional members: `rest(over)`, called after every frame with the episodes that are over, (N,) bool, whose controls are
    not used any more; `aim(starts)`, called once after `reset` with each episode's start and goal; `seconds`, (N,) the time
    that each plan made by the last `act` took, not-a-number where none was made.
    """

    @property
    def observes(self) -> Sequence[Part]: ...

    @property
    def by_chance(self) -> bool:
        """Whether it is stochastic, so that repeats of an episode with other seeds differ."""

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        """Begin N episodes under these laws, (N, L). seeds: each episode's random numbers depend on its own seed only."""

    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        """The controls from this frame to the next, (N, A) float32. Called once per frame, from the first one on."""
