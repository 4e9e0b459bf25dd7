"""Policies side by side, as Player and Played: being replaced by results/table.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap_difference
from sgjepa.envs.spec import Measure
from sgjepa.laws import Sampler, in_distribution
from sgjepa.policies.files import SECONDS, ControlRecord, read_controls
from sgjepa.policies.goal_tasks import PLAN
from sgjepa.results.statistics import BOOTSTRAP, WILSON, Estimate, amount, conditional_share, share, share_difference
from sgjepa.results.statistics import mean_of_tries as _mean
from sgjepa.results.table import REGIONS, Axis, Results
from sgjepa.results.trials import (
    BASELINE_POLICIES as REFERENCES,
)
from sgjepa.results.trials import (
    COUNT,
    SUCCESS,
    TOLD_POSE,
    WITHOUT_PICTURES,
    Driven,
    Latency,
    Trial,
    _seeds,
    label_of,
    read_trials,
    source_label,
)
from sgjepa.results.trials import position_within as place_within

__all__ = [
    "BOOTSTRAP",
    "COUNT",
    "REFERENCES",
    "SUCCESS",
    "TOLD_POSE",
    "WILSON",
    "WITHOUT_PICTURES",
    "Estimate",
    "Latency",
    "Played",
    "Player",
    "Trial",
    "gather_trials",
    "label_of",
    "place_within",
    "source_label",
]


@dataclass(frozen=True)
class Player:
    """A policy with its trainings, each with its sampling seeds: all on the same episodes."""

    label: str
    trainings: tuple[tuple[Trial, ...], ...]

    @property
    def first(self) -> Trial:
        return self.trainings[0][0]

    @property
    def method(self) -> str:
        """Its label without what follows: how it plans, whose encoder it has."""
        return self.label.partition(",")[0]

    @property
    def how(self) -> dict[str, Any]:
        """How it plans; empty for a policy that does not."""
        return self.first.about.settings.how

    @property
    def reference(self) -> str:
        """The name of a policy that learns nothing; empty for one that was trained."""
        return "" if self.first.driver.weights else self.first.driver.name

    @property
    def seeds(self) -> list[tuple[int, int]]:
        """Of its trainings, in their order: that of the run it sees through, and its own."""
        return [_seeds(trials[0].driver) for trials in self.trainings]

    def stack(self, measure: str, chosen: np.ndarray | None = None) -> np.ndarray:
        """(trainings, E): the mean over the sampling seeds that have it."""
        found = np.stack([_mean([trial.table[measure] for trial in trials]) for trials in self.trainings])
        return found if chosen is None else found[:, chosen]

    def estimate(self, measure: Measure, chosen: np.ndarray) -> Estimate:
        """Of the chosen episodes, (E,) bool."""
        values = self.stack(measure.name, chosen)
        return amount(values) if measure.unit else share(values)

    def given(self, measure: Measure, chosen: np.ndarray) -> Estimate:
        """The share among the episodes in which `measure.condition` happened."""
        return conditional_share(self.stack(measure.name, chosen), self.stack(measure.condition, chosen))

    @cached_property
    def latency(self) -> Latency | None:
        """Of its plans, over all its trials; None if it makes none."""
        found = []
        for trial in (trial for trials in self.trainings for trial in trials):
            seconds = read_controls(trial.folder).get(SECONDS, np.empty(0))
            found.append(seconds[np.isfinite(seconds)])
        together = np.concatenate(found)
        if not len(together):
            return None
        return Latency(float(np.median(together)), float(np.quantile(together, 0.95)), len(together))

    def outcomes(self, label: str, chosen: np.ndarray) -> dict[str, float]:
        """The share of the chosen episodes that came to each word of a label, the most frequent first."""
        trials = [trial for trials in self.trainings for trial in trials]
        counts = Counter(str(word) for trial in trials for word in trial.table[label][chosen])
        total = sum(counts.values())
        return {word: count / total for word, count in counts.most_common()}


@dataclass(frozen=True)
class Played:
    """Policies on the same episodes."""

    players: tuple[Player, ...]

    @property
    def first(self) -> Trial:
        return self.players[0].first

    @property
    def about(self) -> ControlRecord:
        return self.first.about

    @property
    def world(self) -> str:
        return self.about.played.world

    @property
    def samplers(self) -> Mapping[str, Sampler]:
        return {name: law.training for name, law in self.about.laws.items()}

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The laws that differ between episodes."""
        found = []
        for i, (name, law) in enumerate(self.about.laws.items()):
            axis = Axis(name, law.unit.replace("^2", "²"), law.training, tuple(np.unique(self.first.law[:, i]).tolist()))
            found += [axis] if len(axis.values) > 1 else []
        return tuple(found)

    def region(self, name: str) -> np.ndarray:
        """(E,) which episodes lie in a region of the training laws."""
        inside = in_distribution(self.samplers, self.first.law)
        return {"all": np.ones(len(inside), bool), "in": inside, "out": ~inside}[name]

    @property
    def regions(self) -> tuple[str, ...]:
        """Those with episodes; if all lie on one side there is nothing to tell apart."""
        found = tuple(name for name in REGIONS if self.region(name).any())
        return found if len(found) == len(REGIONS) else ("all",)

    @cached_property
    def plans(self) -> dict[str, np.ndarray]:
        """(E,) which cases come from episodes that were made for each thing; empty where all were for one, or none says."""
        made_for = self.first.table.get(PLAN, np.empty(0, object))
        words = sorted(set(made_for.tolist()))
        return {word: made_for == word for word in words} if len(words) > 1 else {}

    def at(self, law: str, value: float) -> np.ndarray:
        """(E,) which episodes have that value."""
        return self.first.law[:, list(self.about.laws).index(law)] == value

    @property
    def compared(self) -> tuple[Measure, ...]:
        """What policies are compared in: success, and what is counted in every episode."""
        success, *others = self.about.measures
        return success, *(measure for measure in others if measure.unit == COUNT)

    def difference(self, one: Player, other: Player, measure: str, chosen: np.ndarray) -> Interval:
        """`one` minus `other` on the same chosen episodes, of what happened or not, or was counted."""
        mine, theirs = (player.stack(measure, chosen) for player in (one, other))
        paired = one.seeds == other.seeds
        if any(measure == counted.name for counted in self.compared[1:]):
            return bootstrap_difference(mine[..., None], theirs[..., None], paired=paired)[0]
        return share_difference(mine, theirs, paired)

    @cached_property
    def as_table(self) -> Results:
        """The same as the table of results that replaces this class."""
        return Results.of_driven({player.label: Driven(player.trainings) for player in self.players})


def gather_trials(places: Sequence[Path]) -> Played:
    """The trials in these folders, grouped into policies; all must be of the same episodes."""
    return Played(tuple(Player(label, driven.trainings) for label, driven in read_trials(places).items()))
