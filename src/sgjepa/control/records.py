"""control.json: what a trial of a policy says of itself, for those who read it; without torch.

<policy>/control/<dataset>-seed<k>/       k: the sampling seed; what is not usual is added to the name
  control.json        who drove, which episodes, and what the numbers mean
  episodes.parquet    one row per episode: its law, its measures, its labels, the steps until it was decided; of a case also
                      the frame and the state it begins in, and a state in which its goal is reached
  controls.parquet    one row per episode and step: the control that was carried out; of a planner also the seconds that its
                      plan took, where it made one
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sgjepa.control.cases import Cases
from sgjepa.core import config, files, records
from sgjepa.core.errors import InputError
from sgjepa.core.records import Digests
from sgjepa.core.tables import Table, read_table
from sgjepa.data.config import DatasetConfig
from sgjepa.envs.world import Measure
from sgjepa.evaluation.records import LawRecord

TRIALS, RECORD, ROWS, CONTROLS = "control", "control.json", "episodes.parquet", "controls.parquet"
SPLIT = "test"  # the split that is driven, unless it is said otherwise
SECONDS = "seconds"  # a column of the controls
SIMULATOR = "simulator"  # the name of the planner that needs no model


@dataclass(frozen=True)
class Driver:
    """Who drives. settings: all that trainings with other seeds share; empty for a policy that learns nothing."""

    name: str  # of the policy's folder; "expert", "still", "random"
    source: str  # what it looks at: a run's name, "state"; as its name for a policy that learns nothing
    seed: int | None = None  # of the training; None where there was none
    settings: dict[str, Any] = field(default_factory=dict)
    weights: str = ""  # SHA-256


@dataclass(frozen=True)
class TrialSettings:
    """All that decides the rows. how: a plan's length of use and the sampler, for policies that plan."""

    driver: Driver
    how: dict[str, Any]
    data: str  # the split's digest
    split: str
    episodes: int
    sampling: int
    meaning: int
    cases: Cases | None = None  # None: whole episodes from their first frame on

    def __post_init__(self) -> None:
        config.check_bounds(self, episodes=(1, 1e8))


@dataclass(frozen=True)
class ControlRecord:
    """The whole file. played: the dataset's own settings, from which any of its episodes can be begun again."""

    dataset: str  # its name
    played: DatasetConfig
    laws: dict[str, LawRecord]
    measures: tuple[Measure, ...]
    settings: TrialSettings
    scores: dict[str, float | None]  # mean of each measure; None if no episode has it
    seconds: float  # of all goes together
    provenance: dict[str, Any]
    differs: str = ""  # what sets it apart from the usual trial, as in its folder's name
    files: Digests = field(default_factory=dict)

    def __post_init__(self) -> None:
        records.check_provenance(self.provenance)
        if not self.measures or self.measures[0].name != "success":
            raise InputError("ControlRecord.measures should begin with success")


def cure(place: Path) -> str:
    """What to do about a trial that is damaged."""
    return f"delete {place} and run `sgjepa control` again"


def read_trial(place: Path) -> tuple[ControlRecord, Table]:
    """A trial's record and its rows, checked."""
    about = records.read(ControlRecord, place / RECORD, cure(place))
    table = _checked(place / ROWS, about)
    for name in ("episode", "steps", *(one.name for one in about.measures), *(f"law.{law}" for law in about.laws)):
        if name not in table:
            raise InputError(f"{place / ROWS} is damaged: it lacks the column {name}; {cure(place)}")
    return about, table


def read_controls(place: Path, about: ControlRecord) -> Table:
    """The controls of a trial, checked."""
    return _checked(place / CONTROLS, about)


def _checked(path: Path, about: ControlRecord) -> Table:
    return read_table(files.verify(path, about.files, cure(path.parent)))
