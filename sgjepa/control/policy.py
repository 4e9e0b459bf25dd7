"""What drives a world: one protocol for demonstrators, learned policies and planners, for many episodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from sgjepa.control.start import Start

# what a policy is shown of an episode: its newest picture, its true state, or what the world's demonstrator would do
View: TypeAlias = Literal["frames", "state", "expert"]


class Policy(Protocol):
    """Drives N episodes side by side. It sees nothing but what it asks for."""

    @property
    def sees(self) -> View: ...

    @property
    def by_chance(self) -> bool:
        """Another seed may make it do something else, so that one episode is worth several tries."""

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        """Begin N episodes under these laws, (N, L). seeds: an episode's chance comes from its own and nothing else."""

    def act(self, seen: np.ndarray, laws: np.ndarray) -> np.ndarray:
        """The controls from this frame to the next, (N, A) float32. Called once for every frame, the first one too.

        seen: frames (N, h, w, 3) uint8, states (N, S) or the demonstrator's controls (N, A), as `sees` says.
        """


@runtime_checkable
class Rests(Protocol):
    """A policy that spares itself the work on episodes that are over."""

    def rest(self, over: np.ndarray) -> None:
        """Which episodes are over, (N,) bool: what `act` says of them is not used."""


@runtime_checkable
class Plans(Rests, Protocol):
    """A policy that thinks long about every control: it is told what to reach, and says how long it took."""

    @property
    def seconds(self) -> np.ndarray:
        """What the plan of each episode took that `act` has just made, (N,); not-a-number where it made none."""

    def aim(self, starts: Sequence[Start]) -> None:
        """Called once after `reset`: how each episode begins, and its goal if it has one."""
