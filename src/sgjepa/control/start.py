"""How an episode begins, for whoever drives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sgjepa.data.episode import reset_options
from sgjepa.envs.world import World


@dataclass(frozen=True)
class Start:
    """As its seed launches it, or in a state of its own; perhaps with a goal."""

    number: int  # in its split
    seed: int  # for reset
    law: dict[str, float]
    frame: int = 0  # of the dataset's episode, that it begins at
    state: dict[str, float] | None = None  # there
    reached: dict[str, float] | None = None  # a state in which the goal is reached
    plan: str = ""  # what the dataset's episode was made for, where that is known and it begins in one of its frames

    def options(self, world: World) -> dict[str, Any]:
        """What `Env.reset` is told."""
        given = reset_options(self.law, world.to_succeed)
        if self.state is not None:
            given["state"] = self.state
        if self.reached is not None:
            given["goal"] = {name: self.reached[name] for name in world.goal}
        return given
