"""Trials of policies in closed loop and planning, and which of them are tries and trainings of one arm. NumPy only."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sgjepa.core import artifact
from sgjepa.core.errors import InputError
from sgjepa.core.methods import LABELS
from sgjepa.core.tables import Table
from sgjepa.policies.files import (
    POSE,
    SECONDS,
    SIMULATOR,
    STATE,
    TRIALS,
    ControlRecord,
    Driver,
    read_controls,
    read_trial,
)
from sgjepa.results.statistics import mean_of_tries

SUCCESS = "success"
COUNT = "1"  # the unit of what is counted
TOLD_POSE = "told its pose"  # of a policy on features
WITHOUT_PICTURES = {STATE: "true state", POSE: "arm's pose alone"}  # what a policy sees instead
BASELINE_POLICIES = {  # that learn nothing
    "expert": "demonstrator",
    "still": "holding still",
    "random": "random controls",
    SIMULATOR: "planned in the true simulator",
}


@dataclass(frozen=True)
class Trial:
    """One policy with one sampling seed on the episodes of one dataset: a try."""

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


Tries: TypeAlias = tuple[Trial, ...]  # of one training, with several sampling seeds


@dataclass(frozen=True)
class Latency:
    """Seconds that a plan takes: the median, and what 95 of 100 stay below."""

    median: float
    most: float
    plans: int


@dataclass(frozen=True)
class Driven:
    """An arm of trials: its trainings, each with its tries, all on the same episodes."""

    trainings: tuple[Tries, ...]

    @property
    def first(self) -> Trial:
        return self.trainings[0][0]

    @property
    def all(self) -> tuple[Trial, ...]:
        """Every try of every training."""
        return tuple(trial for tries in self.trainings for trial in tries)

    @property
    def how(self) -> dict[str, Any]:
        """How it plans; empty for a policy that does not."""
        return self.first.about.settings.how

    @property
    def baseline(self) -> str:
        """The name of a policy that learns nothing; empty for one that was trained."""
        return "" if self.first.driver.weights else self.first.driver.name

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Two seeds of each training: that of the run it sees through, and its own; -1 where there is none."""
        return tuple(_seeds(tries[0].driver) for tries in self.trainings)

    @property
    def seeds(self) -> tuple[int, ...]:
        """A number that tells trainings apart: the seed of the run that each sees through, or its own, or its rank."""
        runs, own = zip(*self.pairs, strict=True)
        for seeds in (runs, own):
            if len(set(seeds)) == len(seeds) and min(seeds) >= 0:
                return seeds
        return tuple(range(len(runs)))

    def values(self, measure: str) -> np.ndarray:
        """(trainings, E): the mean over the tries that have it."""
        return np.stack([mean_of_tries([trial.table[measure] for trial in tries]) for tries in self.trainings])

    @cached_property
    def latency(self) -> Latency | None:
        """Of its plans, over all its trials; None if it makes none."""
        seconds = [read_controls(trial.folder).get(SECONDS, np.empty(0)) for trial in self.all]
        together = np.concatenate([each[np.isfinite(each)] for each in seconds])
        if not len(together):
            return None
        return Latency(float(np.median(together)), float(np.quantile(together, 0.95)), len(together))

    def outcomes(self, label: str, chosen: np.ndarray) -> dict[str, float]:
        """The share of the chosen episodes that came to each word of a label, the most frequent first."""
        counts = Counter(str(word) for trial in self.all for word in trial.table[label][chosen])
        total = sum(counts.values())
        return {word: count / total for word, count in counts.most_common()}


def _seeds(driver: Driver) -> tuple[int, int]:
    """Of the run that a policy sees through, by its name, and its own; -1 where there is none."""
    run = re.search(r"-seed(\d+)$", driver.source)
    return int(run[1]) if run else -1, -1 if driver.seed is None else driver.seed


def label_of(trial: Trial) -> str:
    """What a policy is called: after what it looks at."""
    driver = trial.driver
    if not driver.weights:
        return BASELINE_POLICIES.get(driver.name, driver.name)
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
        label = position_within(blur)
    if driver.settings.get("pose"):
        label = f"{label}, {TOLD_POSE}"
    return label if driver.settings.get("law", True) else f"{label}, not told the law"


def position_within(blur: float) -> str:
    """What a policy is given that knows positions alone, with such an error in m."""
    return f"place ± {1000 * blur:g} mm" if blur else "exact place"


def read_trials(folders: Sequence[Path]) -> dict[str, Driven]:
    """The trials in these folders by arm; all must be of the same episodes."""
    if not folders:
        raise InputError("a comparison of nothing: give at least one policy")
    trials = [Trial(folder, *read_trial(folder)) for folder in dict.fromkeys(folder.resolve() for folder in folders)]
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
    arms: dict[str, Driven] = {}
    met = Counter[str]()
    for label, group in zip(labels, groups.values(), strict=True):
        one = next(iter(group.values()))[0]
        apart = label if labels.count(label) == 1 else f"{label}, {one.driver.name} {one.about.differs}".strip()
        met[apart] += 1
        apart = apart if met[apart] == 1 else f"{apart} ({met[apart]})"  # from folders of one name
        by_seed = sorted(group.values(), key=lambda tries: (_seeds(tries[0].driver), tries[0].driver.weights))
        arms[apart] = Driven(tuple(tuple(tries) for tries in by_seed))
    return arms


def own_trials(folder: Path, weights: str) -> list[Path]:
    """Trials of a policy's present weights on whole episodes, as its task is usually done: those on most episodes."""
    groups: dict[tuple[int, str], list[Path]] = {}
    for place in artifact.artifacts_in(folder / TRIALS):
        about = artifact.read_record(ControlRecord, place)
        settings = about.settings
        as_usual = about.differs in ("", f"first{settings.episodes}") and settings.cases is None
        if settings.driver.weights == weights and as_usual:
            groups.setdefault((settings.episodes, settings.data), []).append(place)
    return groups[max(groups)] if groups else []
