"""The trials kept beside a policy, and how often they say that it succeeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sgjepa.control.records import RECORD, TRIALS, ControlRecord, cure
from sgjepa.core import records
from sgjepa.results.control import Estimate, gather_trials
from sgjepa.results.success import Share, Success


def success_in(places: Sequence[Path]) -> Success:
    """What these trials of one policy say."""
    played = gather_trials(places)
    (player,) = played.players
    success = played.about.measures[0]
    regions = {name: _share(player.estimate(success, played.region(name))) for name in played.regions}
    by_law = {
        axis.name: tuple(_share(player.estimate(success, played.at(axis.name, v)), v) for v in axis.values)
        for axis in played.axes
    }
    return Success(played.about.dataset, len(player.trainings[0]), regions, by_law)


def own_trials(folder: Path, weights: str) -> list[Path]:
    """Trials of a policy's present weights on whole episodes, as its task is usually done: those on most episodes."""
    groups: dict[tuple[int, str], list[Path]] = {}
    for place in sorted(path.parent for path in (folder / TRIALS).glob(f"*/{RECORD}")):
        about = records.read(ControlRecord, place / RECORD, cure(place))
        settings = about.settings
        as_usual = about.differs in ("", f"first{settings.episodes}") and settings.cases is None
        if settings.driver.weights == weights and as_usual:
            groups.setdefault((settings.episodes, settings.data), []).append(place)
    return groups[max(groups)] if groups else []


def _share(found: Estimate, law: float | None = None) -> Share:
    one = found.interval
    return Share(float(one.mean), float(one.low), float(one.high), int(one.count), found.how, law)
