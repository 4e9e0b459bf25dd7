"""Records of policies and trials; read without torch.

policies/<name>/
  artifact.json           its record
  policy.safetensors      the finished network: the running mean of its weights
  rows.jsonl              everything measured during training, one record per line
  checkpoints/            to resume training
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
STATE, POSE = "state", "pose"  # sources of policies without pictures: the true state, proprioception only


@dataclass(frozen=True)
class Source:
    """The source of a policy's observations: features of a run's model, the true state, or proprioception."""

    name: str  # a run's name, "state" or "pose"
    run: str = ""  # the run's folder, relative to the policy's
    model: str = ""  # SHA-256 of the run's weights
    split_seed: int = SPLIT_SEED  # of the episodes that are held out
    pose: bool = False  # whether proprioception is added to the run's features
    blur: float | None = None  # m; noisy positions with this error (policies/noisy_position.py)


@dataclass(frozen=True)
class Settings:
    """The settings that decide a policy. config: a `PolicyConfig` of policies/learned.py as a dict, to avoid torch."""

    config: dict[str, Any]
    source: Source
    world: str
    laws: tuple[str, ...]
    data: Digests  # the dataset, by its name


@dataclass(frozen=True)
class Scaling:
    """Scaling of recorded numbers for the network, fitted on its training episodes."""

    features: ZScore
    control: MinMax  # of controls as they are learned (policies/tasks.py)
    law: ZScore


@dataclass(frozen=True)
class Counts:
    """Numbers of training and held-out episodes and windows."""

    episodes: int
    windows: int
    held_out_episodes: int
    held_out_windows: int

    def __post_init__(self) -> None:
        check_bounds(self, episodes=(1, 1e8), windows=(1, 1e10), held_out_episodes=(0, 1e8), held_out_windows=(0, 1e10))


@dataclass(frozen=True)
class Scores:
    """Scores of a finished policy. validation_loss: None if no held-out episode was a success."""

    training_loss: float
    validation_loss: float | None
    seconds: float


@dataclass(frozen=True)
class PolicyRecord:
    """The record of a policy. scores, files: of a finished policy only."""

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
    """Whether a folder holds a policy, finished or not."""
    return artifact.made_by(folder) == TRAINED_BY


def read_policy(folder: Path) -> PolicyRecord:
    """Read the record of a policy."""
    if not (folder / RECORD).is_file():
        raise InputError(f"{folder} is not a policy; `{TRAINED_BY}` makes one")
    return artifact.read_record(PolicyRecord, folder)


TRIALS, TRIAL, ROWS, CONTROLS = "trials", artifact.RECORD, "episodes.parquet", "controls.parquet"
SPLIT = "test"  # the default split of a trial
SECONDS = "seconds"  # a column of the controls
SIMULATOR = "simulator"  # the name of the planner that needs no model


@dataclass(frozen=True)
class Driver:
    """The policy of a trial. settings: those shared by trainings with other seeds; empty for a policy without training."""

    name: str  # of the policy's folder; "expert", "still", "random"
    source: str  # a run's name or "state"; the policy's name if it has no training
    seed: int | None = None  # of the training; None without one
    settings: dict[str, Any] = field(default_factory=dict)
    weights: str = ""  # SHA-256


@dataclass(frozen=True)
class TrialSettings:
    """The settings that decide a trial's rows. how: those of a policy that plans, such as E and the sampler."""

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
    """The record of a trial. played: the dataset's settings, from which any of its episodes can be replayed."""

    made_by: ClassVar[str] = TRIED_BY
    dataset: str  # the folder's name
    played: DatasetConfig
    laws: dict[str, LawRecord]
    measures: tuple[Measure, ...]
    settings: TrialSettings
    scores: dict[str, float | None]  # mean of each measure; None if no episode has it
    seconds: float  # total, over all interruptions
    provenance: dict[str, Any]
    differs: str = ""  # settings that are not the default, as in the folder's name
    files: Digests = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_provenance(self.provenance)
        if not self.measures or self.measures[0].name != "success":
            raise InputError("ControlRecord.measures should begin with success")


def read_trial(folder: Path) -> tuple[ControlRecord, Table]:
    """Read a trial's record and its rows; an InputError if they are damaged."""
    about = artifact.read_record(ControlRecord, folder)
    table = read_table(artifact.checked(folder, ROWS))
    for name in ("episode", "steps", *(measure.name for measure in about.measures), *(f"law.{law}" for law in about.laws)):
        if name not in table:
            raise InputError(f"{folder / ROWS} is damaged: it lacks the column {name}; delete it and run `{TRIED_BY}` again")
    return about, table


def read_controls(folder: Path) -> Table:
    """Read the controls of a trial; an InputError if the file is damaged."""
    return read_table(artifact.checked(folder, CONTROLS))
