"""Trials of policies and planners, and their grouping into repeats, trainings and arms. NumPy only."""

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
COUNT = "1"  # the unit of counts
WITH_POSE, WITHOUT_LAW = "with proprioception", "without the law"  # in labels of policies on features
WITHOUT_PICTURES = {STATE: "true state", POSE: "arm's pose only"}  # observations of policies without pictures
BASELINE_POLICIES = {  # policies without training
    "expert": "demonstrator",
    "still": "holding still",
    "random": "random controls",
    SIMULATOR: "planned in the true simulator",
}


@dataclass(frozen=True)
class Trial:
    """A trial of a policy with one sampling seed on the episodes of one dataset."""

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


Tries: TypeAlias = tuple[Trial, ...]  # repeats of one training, with several sampling seeds


@dataclass(frozen=True)
class Latency:
    """Seconds per plan: the median and the 95th percentile."""

    median: float
    most: float
    plans: int


@dataclass(frozen=True)
class Driven:
    """An arm of trials: its trainings, each with its repeats, on the same episodes."""

    trainings: tuple[Tries, ...]

    @property
    def first(self) -> Trial:
        return self.trainings[0][0]

    @property
    def all(self) -> tuple[Trial, ...]:
        """All repeats of all trainings."""
        return tuple(trial for tries in self.trainings for trial in tries)

    @property
    def how(self) -> dict[str, Any]:
        """The planning settings; empty for a policy that does not plan."""
        return self.first.about.settings.how

    @property
    def baseline(self) -> str:
        """The name of a policy without training; empty for a trained one."""
        return "" if self.first.driver.weights else self.first.driver.name

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The seeds of each training: of the run of its features, and of the policy; -1 where there is none."""
        return tuple(_seeds(tries[0].driver) for tries in self.trainings)

    @property
    def seeds(self) -> tuple[int, ...]:
        """A number that identifies each training: the seed of the run of its features, its own seed, or its rank."""
        runs, own = zip(*self.pairs, strict=True)
        for seeds in (runs, own):
            if len(set(seeds)) == len(seeds) and min(seeds) >= 0:
                return seeds
        return tuple(range(len(runs)))

    def values(self, measure: str) -> np.ndarray:
        """The values (trainings, E) of a measure, averaged over the repeats that have one."""
        return np.stack([mean_of_tries([trial.table[measure] for trial in tries]) for tries in self.trainings])

    @cached_property
    def latency(self) -> Latency | None:
        """Seconds per plan over all its trials; None for a policy that does not plan."""
        seconds = [read_controls(trial.folder).get(SECONDS, np.empty(0)) for trial in self.all]
        together = np.concatenate([each[np.isfinite(each)] for each in seconds])
        if not len(together):
            return None
        return Latency(float(np.median(together)), float(np.quantile(together, 0.95)), len(together))

    def outcomes(self, label: str, episodes: np.ndarray) -> dict[str, float]:
        """The share of each word of a label among some episodes, the most frequent first. episodes: a mask or indices."""
        counts = Counter(str(word) for trial in self.all for word in trial.table[label][episodes])
        total = sum(counts.values())
        return {word: count / total for word, count in counts.most_common()}


def _seeds(driver: Driver) -> tuple[int, int]:
    """The seeds of the run of a policy's features, from its name, and of the policy; -1 where there is none."""
    run = re.search(r"-seed(\d+)$", driver.source)
    return int(run[1]) if run else -1, -1 if driver.seed is None else driver.seed


def label_of(trial: Trial) -> str:
    """The label of a policy, named after its observations."""
    driver = trial.driver
    if not driver.weights:
        return BASELINE_POLICIES.get(driver.name, driver.name)
    label = source_label(driver, trial.about.played.world)
    if "plans" in driver.settings:
        return f"{label}, planned by {trial.about.settings.how['search'].upper()}"
    return label


def source_label(driver: Driver, world: str) -> str:
    """The label of a trained policy's observations."""
    source = re.sub(r"(-[a-z0-9]+)?-seed\d+$", "", driver.source).removeprefix(f"{world}_")
    label = WITHOUT_PICTURES.get(source) or LABELS.get(source, source)
    if encoder := driver.settings.get("encoder"):  # a pretrained one
        label = f"{label}, {encoder}"
    if (blur := driver.settings.get("blur")) is not None:
        label = position_within(blur)
    if driver.settings.get("pose"):
        label = f"{label}, {WITH_POSE}"
    return label if driver.settings.get("law", True) else f"{label}, {WITHOUT_LAW}"


def position_within(blur: float) -> str:
    """The label of noisy positions with an error of `blur` m."""
    return f"position ± {1000 * blur:g} mm" if blur else "exact position"


def read_trials(folders: Sequence[Path]) -> dict[str, Driven]:
    """Read trials on the same episodes and group them by arm."""
    if not folders:
        raise InputError("no policies given; pass at least one")
    trials = [Trial(folder, *read_trial(folder)) for folder in dict.fromkeys(folder.resolve() for folder in folders)]
    first = trials[0]
    groups: dict[str, dict[tuple[object, ...], list[Trial]]] = {}
    for trial in trials:
        conditions, first_conditions = ((entry.about.settings.data, entry.about.settings.cases) for entry in (trial, first))
        if conditions != first_conditions or not np.array_equal(trial.episodes, first.episodes):
            raise InputError(f"{trial.folder} and {first.folder} are of different episodes; compare them separately")
        driver = trial.driver
        recipe = [label_of(trial), driver.settings, trial.about.settings.how]
        trainings = groups.setdefault(json.dumps(recipe, sort_keys=True), {})
        trainings.setdefault((driver.seed, driver.weights), []).append(trial)
    labels = [label_of(next(iter(group.values()))[0]) for group in groups.values()]
    arms: dict[str, Driven] = {}
    met = Counter[str]()
    for label, group in zip(labels, groups.values(), strict=True):
        entry = next(iter(group.values()))[0]
        apart = label if labels.count(label) == 1 else f"{label}, {entry.driver.name} {entry.about.differs}".strip()
        met[apart] += 1
        apart = apart if met[apart] == 1 else f"{apart} ({met[apart]})"  # folders with equal names
        by_seed = sorted(group.values(), key=lambda tries: (_seeds(tries[0].driver), tries[0].driver.weights))
        arms[apart] = Driven(tuple(tuple(tries) for tries in by_seed))
    return arms


def own_trials(folder: Path, weights: str) -> list[Path]:
    """The trials of a policy's current weights on whole episodes with default settings: those on the most episodes."""
    groups: dict[tuple[int, str], list[Path]] = {}
    for path in artifact.artifacts_in(folder / TRIALS):
        about = artifact.read_record(ControlRecord, path)
        settings = about.settings
        is_default = about.differs in ("", f"first{settings.episodes}") and settings.cases is None
        if settings.driver.weights == weights and is_default:
            groups.setdefault((settings.episodes, settings.data), []).append(path)
    return groups[max(groups)] if groups else []
