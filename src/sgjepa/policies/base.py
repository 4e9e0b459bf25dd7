"""What drives a world: one protocol for demonstrators, learned policies and planners, for many episodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np

# what can be observed of an episode: its newest picture (h, w, 3) uint8; the robot's own pose, and the goal if it has one;
# the true state, with that pose; the controls that the world's demonstrator would give
Part: TypeAlias = Literal["frame", "pose", "state", "expert"]
Observation: TypeAlias = dict[Part, np.ndarray]  # of N episodes by part, (N, ...) each


class Policy(Protocol):
    """Drives N episodes side by side. It observes nothing but what it asks for.

    A policy may have more, for what takes long: `rest(over)`, told after every frame which episodes are over, (N,) bool, so
    that what `act` says of them is not used; `aim(starts)`, called once after `reset` with how each episode begins and its
    goal; and `seconds`, what the plan of each episode took that `act` has just made, (N,), not-a-number where it made none.
    """

    @property
    def observes(self) -> Sequence[Part]: ...

    @property
    def by_chance(self) -> bool:
        """Another seed may make it do something else, so that one episode is worth several tries."""

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        """Begin N episodes under these laws, (N, L). seeds: an episode's chance comes from its own and nothing else."""

    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        """The controls from this frame to the next, (N, A) float32. Called once for every frame, the first one too."""
