"""Records of probes, evaluations and counterfactual forecasts; read without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sgjepa.core import artifact, config
from sgjepa.core.errors import InputError
from sgjepa.core.provenance import check_provenance
from sgjepa.core.tables import Table, read_table
from sgjepa.data.probe_targets import Targets
from sgjepa.laws import Sampler

MADE_BY = "sgjepa evaluate"


def _check_scores(scores: Mapping[str, Any]) -> None:
    """Check the scores that reports read."""
    by_target = scores.get("validation_nmse_by_target")
    numbers = [scores.get("validation_nmse"), *(by_target.values() if isinstance(by_target, dict) else [None])]
    if not all(isinstance(value, float) for value in numbers):
        raise InputError("a probe's scores should be numbers: validation_nmse, and one for each target")


@dataclass(frozen=True)
class ProbeRecord:
    """The record of a probe. settings: everything that decides its weights."""

    made_by: ClassVar[str] = MADE_BY
    settings: dict[str, Any]
    scores: dict[str, Any]

    def __post_init__(self) -> None:
        _check_scores(self.scores)


@dataclass(frozen=True)
class Settings:
    """The settings that decide an evaluation. meaning: the names of all metrics, which decide the columns of its rows."""

    config: dict[str, Any]
    model: str
    data: str
    split: str
    meaning: str


@dataclass(frozen=True)
class LawRecord:
    """The unit of a law of the evaluated episodes, and the distribution that training drew it from."""

    unit: str
    training: Sampler


@dataclass(frozen=True)
class Coverage:
    """L_law of each law vector among the episodes."""

    laws: tuple[tuple[float, ...], ...]
    L_law: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.laws) != len(self.L_law):
            raise InputError(f"Coverage has {len(self.laws)} laws and {len(self.L_law)} values of L_law")


@dataclass(frozen=True)
class Scores:
    """Scores of an evaluation. probe: its errors on validation windows. simulator_starts_moved: out of a wall."""

    effective_rank: float
    probe: dict[str, Any]
    episodes: int
    horizons: int
    simulator_starts_moved: int

    def __post_init__(self) -> None:
        config.check_bounds(self, episodes=(1, 1e8), horizons=(1, 1e6), simulator_starts_moved=(0, 1e8))
        _check_scores(self.probe)


@dataclass(frozen=True)
class EvaluationRecord:
    """The record of an evaluation. encoder: the name of a pretrained encoder, None for a trained one."""

    made_by: ClassVar[str] = MADE_BY
    run: str
    name: str
    seed: int
    encoder: str | None
    world: str
    laws: dict[str, LawRecord]
    coverage: Coverage | None
    targets: Targets
    target_names: tuple[str, ...]
    target_std: tuple[float, ...]
    settings: Settings
    scores: Scores
    provenance: dict[str, Any]
    dataset: str  # the folder's name
    differs: str = ""  # settings that are not the default, as in the folder's name

    def __post_init__(self) -> None:
        if self.target_names != self.targets.names or len(self.target_std) != len(self.target_names):
            raise InputError("EvaluationRecord.target_names and target_std do not fit its targets")
        check_provenance(self.provenance)


@dataclass(frozen=True)
class CounterfactualRecord:
    """The record of counterfactual forecasts. settings: everything that decides them. laws: those that were varied."""

    made_by: ClassVar[str] = MADE_BY
    settings: dict[str, Any]
    laws: tuple[str, ...]
    provenance: dict[str, Any]


def read_evaluation(folder: Path) -> EvaluationRecord:
    """Read the record of an evaluation."""
    return artifact.read_record(EvaluationRecord, folder)


def read_checked(path: Path, needed: tuple[str, ...]) -> Table:
    """Read a table of an evaluation; an InputError if its digest is wrong or a column is missing."""
    table = read_table(artifact.checked(path.parent, path.name))
    for name in needed:
        if name not in table:
            raise InputError(f"{path} is damaged: it lacks the column {name}; delete it and run `{MADE_BY}` again")
    return table
