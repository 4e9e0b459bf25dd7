"""How often one policy succeeds, by region and by law, with intervals: what cards keep and the viewer shows."""

from __future__ import annotations

from dataclasses import dataclass

from sgjepa.core.config import check_bounds

REGIONS = {"all": "all episodes", "in": "in distribution", "out": "out of distribution"}  # of the training laws


@dataclass(frozen=True)
class Share:
    """Of episodes that succeed, with its 95 % interval. how: bootstrap or Wilson. law: of these episodes, None for many."""

    mean: float
    low: float
    high: float
    episodes: int
    how: str
    law: float | None = None

    def __post_init__(self) -> None:
        check_bounds(self, mean=(0, 1), low=(0, 1), high=(0, 1), episodes=(1, 1e9))


@dataclass(frozen=True)
class Opening:
    """An episode in which a policy succeeds. launch: its number in the test. sampling: the try."""

    launch: int
    law: dict[str, float]
    sampling: int

    def __post_init__(self) -> None:
        check_bounds(self, launch=(0, 1e9), sampling=(0, 1e9))


@dataclass(frozen=True)
class Success:
    """regions: "in" and "out" of the training laws and "all", or "all" alone. by_law: of each law that varies."""

    dataset: str
    tries: int  # at every episode
    regions: dict[str, Share]
    by_law: dict[str, tuple[Share, ...]]
