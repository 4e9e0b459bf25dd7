"""The paper's own numbers, to stand beside ours: same protocol, paper size. It gives intervals for planning alone, and the
number of trainings seldom. The interaction of law and rollout is of an independent replication (`ablations.factorial`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sgjepa.core import files
from sgjepa.results.selection import Horizon

_FILE = Path(__file__).with_name("published.json")


@dataclass(frozen=True)
class Published:
    """Of one world. values: metric -> method -> horizon, or "mean" over all of them -> mean error."""

    source: str
    values: dict[str, dict[str, dict[Horizon, float]]]


@dataclass(frozen=True)
class PublishedStudy:
    """Of one study. rows: of each setting, its values and then a number, or None, for each column."""

    source: str
    says: str
    settings: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]
    trainings: str = ""  # of each setting, where the paper says so

    def __post_init__(self) -> None:
        width = len(self.settings) + len(self.columns)
        if any(len(row) != width for row in self.rows):
            raise ValueError(f"{_FILE.name}: a row of '{self.source}' has not {width} entries")


@dataclass(frozen=True)
class PublishedPlans:
    """Of one predictor that plans. success, low, high: in per cent. k5, mean: errors of latents. seconds: of a plan."""

    success: float
    low: float
    high: float
    k5: float
    mean: float
    seconds: float


def published_plans(world: str) -> dict[str, PublishedPlans]:
    """What the paper says about planning in a world, by method; empty if nothing."""
    found = files.read_json(_FILE)["planning"]
    rows = found["worlds"].get(world, {})
    return {method: PublishedPlans(**dict(zip(found["columns"], row, strict=True))) for method, row in rows.items()}


def published_study(name: str) -> PublishedStudy | None:
    """What the paper says on a study's question, or None."""
    found = files.read_json(_FILE)["studies"].get(name)
    if found is None:
        return None
    return PublishedStudy(
        source=found["source"],
        says=found["says"],
        settings=tuple(found.get("settings", ())),
        columns=tuple(found.get("columns", ())),
        rows=tuple(map(tuple, found.get("rows", ()))),
        trainings=found.get("trainings", ""),
    )


def published(world: str) -> Published | None:
    """What the paper says about a world, or None."""
    found = files.read_json(_FILE)
    if world not in found["worlds"]:
        return None
    horizons = found["horizons"]
    values = {
        metric: {
            method: {h: value for h, value in zip(horizons, numbers, strict=True) if value is not None}
            for method, numbers in by_method.items()
        }
        for metric, by_method in found["worlds"][world].items()
    }
    return Published(found["source"], values)


def of_the_square(number: str, world: str) -> str:
    """A number that the paper has for the square, beside one of ours: in another world it says so."""
    return number if world == "square" else f"{number} (square)"


def ablation(study: str) -> dict[str, dict[str, float]]:
    """The numbers for the question of a study, by metric and cell; of the square, but for shapes and control."""
    found: dict[str, dict[str, float]] = files.read_json(_FILE)["ablations"].get(study, {})
    return found
