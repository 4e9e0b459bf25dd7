"""The paper's numbers, for comparison: same protocol, paper size.

The paper has intervals only for planning, and seldom the number of trainings. The interaction of law and rollout is from an
independent replication (`ablations.factorial`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sgjepa.core import files
from sgjepa.results.selection import Horizon

_FILE = Path(__file__).with_name("published.json")


@dataclass(frozen=True)
class Published:
    """The paper's errors in a world. values: metric -> method -> horizon, or "mean" over all horizons -> mean error."""

    source: str
    values: dict[str, dict[str, dict[Horizon, float]]]


@dataclass(frozen=True)
class PublishedStudy:
    """The paper's table for a study. rows: for each setting its values, then a number or None for each column."""

    source: str
    says: str
    settings: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]
    trainings: str = ""  # of each setting, if known

    def __post_init__(self) -> None:
        width = len(self.settings) + len(self.columns)
        if any(len(row) != width for row in self.rows):
            raise ValueError(f"{_FILE.name}: a row of '{self.source}' has not {width} entries")


@dataclass(frozen=True)
class PublishedPlans:
    """The paper's planning results. success, low, high: per cent. k5, mean: latent errors. seconds: per plan."""

    success: float
    low: float
    high: float
    k5: float
    mean: float
    seconds: float


def published_plans(world: str) -> dict[str, PublishedPlans]:
    """The paper's planning results in a world, by method; empty if it has none."""
    planning = files.read_json(_FILE)["planning"]
    rows = planning["worlds"].get(world, {})
    return {method: PublishedPlans(**dict(zip(planning["columns"], row, strict=True))) for method, row in rows.items()}


def published_study(name: str) -> PublishedStudy | None:
    """The paper's table for a study; None if it has none."""
    study = files.read_json(_FILE)["studies"].get(name)
    if study is None:
        return None
    return PublishedStudy(
        source=study["source"],
        says=study["says"],
        settings=tuple(study.get("settings", ())),
        columns=tuple(study.get("columns", ())),
        rows=tuple(map(tuple, study.get("rows", ()))),
        trainings=study.get("trainings", ""),
    )


def published(world: str) -> Published | None:
    """The paper's errors in a world; None if it has none."""
    content = files.read_json(_FILE)
    if world not in content["worlds"]:
        return None
    horizons = content["horizons"]
    values = {
        metric: {
            method: {h: value for h, value in zip(horizons, numbers, strict=True) if value is not None}
            for method, numbers in by_method.items()
        }
        for metric, by_method in content["worlds"][world].items()
    }
    return Published(content["source"], values)


def of_the_square(number: str, world: str) -> str:
    """A number of the paper for the square, marked as such in a table of another world."""
    return number if world == "square" else f"{number} (square)"


def ablation(study: str) -> dict[str, dict[str, float]]:
    """The paper's numbers for an ablation, by metric and arm; of the square, except for shapes and control."""
    cells: dict[str, dict[str, float]] = files.read_json(_FILE)["ablations"].get(study, {})
    return cells
