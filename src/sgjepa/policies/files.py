"""The records of policies and trials: what a policy is, what it was trained on, and how to read its numbers; without torch.

policies/<name>/
  artifact.json           its record
  policy.safetensors      the finished network: the running mean of its weights
  rows.jsonl              everything measured during training, one record per line
  checkpoints/            what training needs to go on
  tensorboard/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sgjepa.core import artifact, config
from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.core.files import Digests
from sgjepa.core.provenance import check_provenance
from sgjepa.core.stats import MinMax, ZScore
from sgjepa.core.tables import Table, read_table
from sgjepa.data.config import SPLIT_SEED, DatasetConfig
from sgjepa.envs.spec import Measure
from sgjepa.evaluation.records import LawRecord
from sgjepa.policies.goal_tasks import Cases

RECORD, WEIGHTS = artifact.RECORD, "policy.safetensors"
TRAINED_BY, TRIED_BY = "sgjepa train-policy", "sgjepa evaluate-policy"
STATE, POSE = "state", "pose"  # sources of policies without pictures: the true state, the robot's own pose alone


@dataclass(frozen=True)
class Source:
    """What a policy looks at: features of a run's model, the true state, or the robot's own pose."""

    name: str  # of the run; "state", "pose"
    run: str = ""  # the run's folder, seen from the policy's own
    model: str = ""  # SHA-256 of the run's weights
    split_seed: int = SPLIT_SEED  # of the episodes that are held out
    pose: bool = False  # the robot's own pose beside the run's features
    blur: float | None = None  # m; of the true state, places alone with such an error (policies/noisy_position.py)


@dataclass(frozen=True)
class Settings:
    """All that decides a policy. config: of a policies/learned.py's PolicyConfig, which knows torch."""

    config: dict[str, Any]
    source: Source
    world: str
    laws: tuple[str, ...]
    data: Digests  # the dataset, by its name


@dataclass(frozen=True)
class Scaling:
    """From recorded numbers to those that the network knows; fitted on its training episodes."""

    features: ZScore
    control: MinMax  # of controls as they are learned (policies/tasks.py)
    law: ZScore


@dataclass(frozen=True)
class Counts:
    """What it learned from, and what was held out."""

    episodes: int
    windows: int
    held_out_episodes: int
    held_out_windows: int

    def __post_init__(self) -> None:
        check_bounds(self, episodes=(1, 1e8), windows=(1, 1e10), held_out_episodes=(0, 1e8), held_out_windows=(0, 1e10))


@dataclass(frozen=True)
class Scores:
    """Of the finished policy. validation_loss: None if no held-out episode was a success."""

    training_loss: float
    validation_loss: float | None
    seconds: float


@dataclass(frozen=True)
class PolicyRecord:
    """The record of a policy. scores and files: of a finished one."""

    made_by: ClassVar[str] = TRAINED_BY
    settings: Settings
    scaling: Scaling
    counts: Counts
    provenance: dict[str, Any]
    scores: Scores | None = None
    files: Digests = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_provenance(self.provenance)


def is_policy(folder: Path) -> bool:
    """Whether the training of a policy was begun in a folder."""
    return artifact.made_by(folder) == TRAINED_BY


def read_policy(folder: Path) -> PolicyRecord:
    """The record of a policy."""
    if not (folder / RECORD).is_file():
        raise InputError(f"{folder} is not a policy; `{TRAINED_BY}` makes one")
    return artifact.read_record(PolicyRecord, folder)


TRIALS, TRIAL, ROWS, CONTROLS = "control", artifact.RECORD, "episodes.parquet", "controls.parquet"
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
    """The record of a trial. played: the dataset's own settings, from which any of its episodes can be begun again."""

    made_by: ClassVar[str] = TRIED_BY
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
        check_provenance(self.provenance)
        if not self.measures or self.measures[0].name != "success":
            raise InputError("ControlRecord.measures should begin with success")


def read_trial(folder: Path) -> tuple[ControlRecord, Table]:
    """A trial's record and its rows, checked."""
    about = artifact.read_record(ControlRecord, folder)
    table = read_table(artifact.checked(folder, ROWS))
    for name in ("episode", "steps", *(one.name for one in about.measures), *(f"law.{law}" for law in about.laws)):
        if name not in table:
            raise InputError(f"{folder / ROWS} is damaged: it lacks the column {name}; delete it and run `{TRIED_BY}` again")
    return about, table


def read_controls(folder: Path) -> Table:
    """The controls of a trial, checked."""
    return read_table(artifact.checked(folder, CONTROLS))
