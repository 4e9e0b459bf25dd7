"""The paper's own numbers, to stand beside ours: same protocol, paper size, one training each, no intervals given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sgjepa.core import files
from sgjepa.results.compare import Horizon

_FILE = Path(__file__).with_name("published.json")


@dataclass(frozen=True)
class Published:
    """Of one world. values: metric -> method -> horizon, or "mean" over all of them -> mean error."""

    source: str
    values: dict[str, dict[str, dict[Horizon, float]]]


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


def ablation(study: str) -> dict[str, dict[str, float]]:
    """The paper's numbers for the question of a study, by metric and cell; of the square, but for shapes and control."""
    found: dict[str, dict[str, float]] = files.read_json(_FILE)["ablations"].get(study, {})
    return found
