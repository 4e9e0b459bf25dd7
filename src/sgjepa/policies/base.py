"""What drives a world: one protocol for demonstrators, learned policies and planners, for many episodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from sgjepa.policies.goal_tasks import Start

# what a policy is shown of an episode: its newest picture, the same with the robot's own pose, its true state, or what the
# world's demonstrator would do
View: TypeAlias = Literal["frames", "posed", "state", "expert"]


def posed(frame: np.ndarray, own: np.ndarray) -> np.ndarray:
    """A picture (h, w, 3) and the robot's own pose (P,) as one record, with the fields `frame` and `own`."""
    return np.array((frame, own), [("frame", frame.dtype, frame.shape), ("own", np.float32, own.shape)])


def pictures_in(seen: np.ndarray, sees: View) -> np.ndarray | None:
    """The pictures among what N episodes show, (N, h, w, 3) uint8; None if there are none."""
    if sees == "posed":
        return np.asarray(seen["frame"])
    return seen if sees == "frames" else None


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

        seen: frames (N, h, w, 3) uint8, these in records with a pose (N,), states (N, S) or the demonstrator's controls
        (N, A), as `sees` says.
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
