"""Cards of zoo models and policies: description, origin and measured performance."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgjepa.core.files import Digests
from sgjepa.results.success import Opening, Success


@dataclass(frozen=True)
class ModelCard:
    """The card of a world model.

    errors: of its rollouts over all test episodes, by metric and horizon, such as "position_l2, h = 44". subset_errors:
    over the first `subset` test episodes only, which take seconds to measure. selection: the trainings that it was
    selected from, and the criterion.
    """

    about: str
    recipe: str
    size: str
    seed: int
    updates: int
    data: Digests
    episodes: int
    errors: dict[str, float]
    subset: int
    subset_errors: dict[str, float]
    selection: str
    commit: str | None  # of the code that measured it
    files: Digests = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyCard:
    """The card of a diffusion policy, with the run of its features.

    success: of the policy in the zoo, whose weights have half precision. full_precision: digests of the weights that they
    were rounded from, by the same paths. blind_success: of a policy that observes only the robot's own pose, on the same
    episodes. opening: an episode in which the policy in the zoo succeeds.
    """

    about: str
    world: str
    source: str  # of its features: a run's name, "state" or "pose"
    conditioned: bool  # on the law
    seed: int
    updates: int
    data: Digests
    success: Success
    selection: str
    full_precision: Digests
    commit: str | None  # of the code that measured it
    pose: bool = False  # whether it observes the robot's own pose, too
    opening: Opening | None = None
    blind_success: Success | None = None
    files: Digests = field(default_factory=dict)
