"""policy.json: what a policy is, what it was trained on, and how to read its numbers; without torch.

policies/<name>/
  policy.json             this record
  policy.safetensors      the finished network: the running mean of its weights
  rows.jsonl              everything measured during training, one record per line
  checkpoints/            what training needs to go on
  tensorboard/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sgjepa.core import records
from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.core.records import Digests, check_provenance
from sgjepa.core.stats import MinMax, ZScore
from sgjepa.data.seeds import SPLIT_SEED

RECORD, WEIGHTS = "policy.json", "policy.safetensors"
STATE, POSE = "state", "pose"  # sources of policies without pictures: the true state, the robot's own pose alone


@dataclass(frozen=True)
class Source:
    """What a policy looks at: features of a run's model, the true state, or the robot's own pose."""

    name: str  # of the run; "state", "pose"
    run: str = ""  # the run's folder, seen from the policy's own
    model: str = ""  # SHA-256 of the run's weights
    split_seed: int = SPLIT_SEED  # of the episodes that are held out
    pose: bool = False  # the robot's own pose beside the run's features
    blur: float | None = None  # m; of the true state, places alone with such an error (control/sight.py)


@dataclass(frozen=True)
class Settings:
    """All that decides a policy. config: of control/config.py's PolicyConfig, which knows torch."""

    config: dict[str, Any]
    source: Source
    world: str
    laws: tuple[str, ...]
    data: Digests  # the dataset, by its name


@dataclass(frozen=True)
class Scaling:
    """From recorded numbers to those that the network knows; fitted on its training episodes."""

    features: ZScore
    control: MinMax  # of controls as they are learned (control/tasks.py)
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
    """The whole file. scores and files: of a finished policy."""

    settings: Settings
    scaling: Scaling
    counts: Counts
    provenance: dict[str, Any]
    scores: Scores | None = None
    files: Digests = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_provenance(self.provenance)


def read_policy(folder: Path) -> PolicyRecord:
    """What policy.json says."""
    if not (folder / RECORD).is_file():
        raise InputError(f"{folder} is not a policy (no {RECORD}); `sgjepa policy` makes one")
    cure = f"put back what `sgjepa policy` wrote, or train in another --out than {folder}"
    return records.read(PolicyRecord, folder / RECORD, cure)
