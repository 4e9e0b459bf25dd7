"""Cards: what a model or a policy of the zoo is, where it comes from, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgjepa.core.artifact import Digests
from sgjepa.results.success import Opening, Success


@dataclass(frozen=True)
class Card:
    """Of a model.

    scores: errors of its rollouts over all test episodes, such as "position_l2, h = 44". of_first: over the first `first`
    of them alone, for those who want to see it again in seconds. chosen: among which trainings, and by what.
    """

    about: str
    recipe: str
    size: str
    seed: int
    updates: int
    data: Digests
    episodes: int
    scores: dict[str, float]
    first: int
    of_first: dict[str, float]
    chosen: str
    commit: str | None  # of the code that measured it
    files: Digests = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyCard:
    """Of a diffusion policy, with the run that it sees through.

    success: of what lies here, weights in half precision; measured in closed loop, not carried over from the training.
    rounded: digests of the weights in full precision that it was made from, by the same paths.
    """

    about: str
    world: str
    sees: str  # the run's name; "state", "pose"
    law: bool  # whether it is told
    seed: int
    updates: int
    data: Digests
    success: Success
    chosen: str
    rounded: Digests
    commit: str | None  # of the code that measured it
    pose: bool = False  # whether it is told the robot's own pose beside what it sees
    opening: Opening | None = None  # an episode in which what lies here succeeds
    blind: Success | None = None  # of a policy that sees only the robot's own pose, on the same episodes
    files: Digests = field(default_factory=dict)
