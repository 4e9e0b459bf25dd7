"""What policies came to: trials side by side, training seeds together, with intervals. NumPy only.

Sampling seeds are averaged within an episode: they are tries at the same thing. Intervals know episodes, and where a policy
was trained several times also the trainings (core/stats.py). Where that says nothing, or too little, Wilson's interval of a
share is taken: all values are equal; or episodes, successes or failures are few and it is the wider one (of a single
training in any case).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.core.methods import LABELS
from sgjepa.core.stats import Interval, bootstrap, bootstrap_difference, bootstrap_known, bootstrap_share, newcombe, wilson
from sgjepa.core.tables import Table
from sgjepa.envs.spec import Measure
from sgjepa.laws import Sampler
from sgjepa.laws import inside as inside_of
from sgjepa.policies.files import POSE, SECONDS, SIMULATOR, STATE, ControlRecord, Driver, read_controls, read_trial
from sgjepa.policies.goal_tasks import PLAN
from sgjepa.results.gather import Axis
from sgjepa.results.load import REGIONS

FEW = 30  # episodes, below which a share's interval may be Wilson's
RARE = 10  # episodes with the rarer outcome, the same
BOOTSTRAP, WILSON = "bootstrap", "Wilson"
SUCCESS = "success"
COUNT = "1"  # the unit of what is counted
TOLD_POSE = "told its pose"  # of a policy on features
WITHOUT_PICTURES = {STATE: "true state", POSE: "arm's pose alone"}  # what a policy sees instead
REFERENCES = {  # that learn nothing
    "expert": "demonstrator",
    "still": "holding still",
    "random": "random controls",
    SIMULATOR: "planned in the true simulator",
}


@dataclass(frozen=True)
class Trial:
    """One policy with one sampling seed on the episodes of one dataset."""

    folder: Path
    about: ControlRecord
    table: Table

    @property
    def driver(self) -> Driver:
        return self.about.settings.driver

    @property
    def episodes(self) -> np.ndarray:
        return self.table["episode"]

    @cached_property
    def law(self) -> np.ndarray:
        """(E, L) the laws of each episode, in the order of `about.laws`."""
        columns = [self.table[f"law.{name}"] for name in self.about.laws]
        return np.stack(columns, axis=1) if columns else np.zeros((len(self.episodes), 0))


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval, and how that was found. count 0: there is nothing to measure."""

    interval: Interval
    how: str


@dataclass(frozen=True)
class Latency:
    """Seconds that a plan takes: the median, and what 95 of 100 stay below."""

    median: float
    most: float
    plans: int


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
        if measure.unit:  # a count, or a time that not every episode has; neither is below zero
            found = bootstrap_known(values)
            return Estimate(replace(found, low=max(found.low, 0.0)), BOOTSTRAP)
        return _share(values)

    def given(self, measure: Measure, chosen: np.ndarray) -> Estimate:
        """The share among the episodes in which `measure.given` happened."""
        both, happened = self.stack(measure.name, chosen), self.stack(measure.given, chosen)
        if not happened.any():
            return Estimate(Interval(np.nan, np.nan, np.nan, 0), BOOTSTRAP)
        count = int((happened.mean(axis=0) > 0).sum())
        if len(self.trainings) == 1 and set(np.unique(happened)) <= {0.0, 1.0}:
            return _share(both[:, happened[0] > 0])
        found = bootstrap_share(both[..., None], happened[..., None])[0]
        return _or_wilson(Interval(found.mean, found.low, found.high, count))

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
        inside = inside_of(self.samplers, self.first.law)
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
        mine, theirs = (player.stack(measure, chosen)[..., None] for player in (one, other))
        found = bootstrap_difference(mine, theirs, paired=one.seeds == other.seeds)[0]
        if any(measure == counted.name for counted in self.compared[1:]):
            return found
        if found.low == found.high and found.count:
            # all differences are equal: at least Wilson's share of all episodes has that one, the others may have any
            sure = wilson(found.count, found.count)[0]
            found = Interval(found.mean, sure * found.mean - (1 - sure), sure * found.mean + (1 - sure), found.count)
        elif found.count and any(is_rare(float(side.mean()), found.count) for side in (mine, theirs)):
            alike = correlation(mine.mean(axis=0)[:, 0], theirs.mean(axis=0)[:, 0])
            found = _wider(found, newcombe(float(mine.mean()), float(theirs.mean()), found.count, alike))
        return Interval(found.mean, max(found.low, -1.0), min(found.high, 1.0), found.count)


def _mean(values: Sequence[np.ndarray]) -> np.ndarray:
    """Of several tries, where they have a value; not-a-number where none has."""
    stacked = np.stack(values)
    count = np.isfinite(stacked).sum(axis=0)
    return np.where(count, np.nansum(stacked, axis=0) / np.maximum(count, 1), np.nan)


def _share(values: np.ndarray) -> Estimate:
    """A share in [0, 1] from values (trainings, E)."""
    trainings, count = values.shape
    if count == 0:
        return Estimate(Interval(np.nan, np.nan, np.nan, 0), WILSON)
    mean = float(values.mean())
    if (values == values.flat[0]).all() or (trainings == 1 and _few(mean, count)):
        return Estimate(Interval(mean, *wilson(mean * count, count), count), WILSON)
    return _or_wilson(replace(bootstrap(values[..., None])[0], mean=mean))


def _or_wilson(found: Interval) -> Estimate:
    """A share's interval by bootstrap, or Wilson's where that says nothing, or is too sure of itself for so few."""
    by_wilson = Interval(found.mean, *wilson(found.mean * found.count, found.count), found.count)
    found = replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0))  # before it is compared
    width = found.high - found.low
    if not width > 0 or (_few(found.mean, found.count) and width < by_wilson.high - by_wilson.low):
        return Estimate(by_wilson, WILSON)
    return Estimate(found, BOOTSTRAP)


def _few(share: float, count: int) -> bool:
    return count < FEW or is_rare(share, count)


def is_rare(share: float, count: int) -> bool:
    """Whether so few of the episodes have the rarer outcome that a bootstrap says too little."""
    return count * min(share, 1 - share) < RARE


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Of two policies' successes over the same episodes, (E,) each; 0 where one of them never varies."""
    return float(np.corrcoef(one, other)[0, 1]) if one.std() > 0 and other.std() > 0 else 0.0


def _wider(one: Interval, ends: tuple[float, float]) -> Interval:
    return Interval(one.mean, min(one.low, ends[0]), max(one.high, ends[1]), one.count)


def _seeds(driver: Driver) -> tuple[int, int]:
    """Of the run that a policy sees through, by its name, and its own; -1 where there is none."""
    run = re.search(r"-seed(\d+)$", driver.source)
    return int(run[1]) if run else -1, -1 if driver.seed is None else driver.seed


def label_of(trial: Trial) -> str:
    """What a policy is called: after what it looks at."""
    driver = trial.driver
    if not driver.weights:
        return REFERENCES.get(driver.name, driver.name)
    label = source_label(driver, trial.about.played.world)
    if "plans" in driver.settings:
        return f"{label}, planned by {trial.about.settings.how['search'].upper()}"
    return label


def source_label(driver: Driver, world: str) -> str:
    """What a trained policy looks at, in words."""
    source = re.sub(r"(-[a-z0-9]+)?-seed\d+$", "", driver.source).removeprefix(f"{world}_")
    label = WITHOUT_PICTURES.get(source) or LABELS.get(source, source)
    if encoder := driver.settings.get("encoder"):  # a foreign one
        label = f"{label}, {encoder}"
    if (blur := driver.settings.get("blur")) is not None:
        label = place_within(blur)
    if driver.settings.get("pose"):
        label = f"{label}, {TOLD_POSE}"
    return label if driver.settings.get("law", True) else f"{label}, not told the law"


def place_within(blur: float) -> str:
    """What a policy looks at that sees places alone, with such an error in m."""
    return f"place ± {1000 * blur:g} mm" if blur else "exact place"


def gather_trials(places: Sequence[Path]) -> Played:
    """The trials in these folders, grouped into policies; all must be of the same episodes."""
    if not places:
        raise InputError("a comparison of nothing: give at least one policy")
    trials = [Trial(place, *read_trial(place)) for place in dict.fromkeys(place.resolve() for place in places)]
    first = trials[0]
    groups: dict[str, dict[tuple[object, ...], list[Trial]]] = {}
    for trial in trials:
        mine, theirs = ((one.about.settings.data, one.about.settings.cases) for one in (trial, first))
        if mine != theirs or not np.array_equal(trial.episodes, first.episodes):
            raise InputError(f"{trial.folder} and {first.folder} are of different episodes; compare them apart")
        driver = trial.driver
        recipe = [label_of(trial), driver.settings, trial.about.settings.how]
        trainings = groups.setdefault(json.dumps(recipe, sort_keys=True), {})
        trainings.setdefault((driver.seed, driver.weights), []).append(trial)
    labels = [label_of(next(iter(group.values()))[0]) for group in groups.values()]
    players, met = [], Counter[str]()
    for label, group in zip(labels, groups.values(), strict=True):
        one = next(iter(group.values()))[0]
        apart = label if labels.count(label) == 1 else f"{label}, {one.driver.name} {one.about.differs}".strip()
        met[apart] += 1
        apart = apart if met[apart] == 1 else f"{apart} ({met[apart]})"  # from folders of one name
        by_seed = sorted(group.values(), key=lambda trials: (_seeds(trials[0].driver), trials[0].driver.weights))
        players.append(Player(apart, tuple(tuple(found) for found in by_seed)))
    return Played(tuple(players))
