"""The trials kept beside a policy, and how often they say that it succeeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sgjepa.policies.files import read_trial
from sgjepa.results.control import Estimate, gather_trials
from sgjepa.results.success import Opening, Share, Success
from sgjepa.results.trials import own_trials

__all__ = ["opening_in", "own_trials", "success_in"]


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


def opening_in(places: Sequence[Path], home: Mapping[str, float]) -> Opening | None:
    """Of the episodes that these trials of one policy kept, a success under a law as near to `home` as any; or None.

    home: the laws of its training, in the mean. Laws are told apart by their distance in units of the test's own spread.
    """
    found: list[tuple[float, int, int, dict[str, float]]] = []
    for place in places:
        about, rows = read_trial(place)
        spread = {law: float(np.ptp(rows[f"law.{law}"])) or 1.0 for law in home}
        for row in np.flatnonzero(rows["success"]):
            law = {name: float(rows[f"law.{name}"][row]) for name in home}
            far = sum(abs(value - home[name]) / spread[name] for name, value in law.items())
            found.append((far, about.settings.sampling, int(rows["episode"][row]), law))
    if not found:
        return None
    _, sampling, launch, law = min(found, key=lambda one: one[:3])
    return Opening(launch, law, sampling)


def _share(found: Estimate, law: float | None = None) -> Share:
    one = found.interval
    return Share(float(one.mean), float(one.low), float(one.high), int(one.count), found.how, law)
