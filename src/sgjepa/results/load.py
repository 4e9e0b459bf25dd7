"""What `sgjepa predict` left of a run: its errors, its states, and what it says about itself. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sgjepa.core import artifact
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.methods import label_of
from sgjepa.core.run_folder import EPISODES, EVALUATIONS, STATES, is_run
from sgjepa.core.tables import Table
from sgjepa.data.probe_targets import Targets
from sgjepa.evaluation.records import MADE_BY, EvaluationRecord, read_checked, read_evaluation
from sgjepa.laws import Sampler
from sgjepa.laws import inside as inside_of

REGIONS = ("all", "in", "out")  # of the training laws


@dataclass(frozen=True)
class Evaluation:
    """One run on one dataset, with one probe and context: what `sgjepa predict` wrote."""

    folder: Path
    about: EvaluationRecord
    table: Table
    called: str = ""  # by a study, which may share the run with others; else as the run itself

    @property
    def name(self) -> str:
        return self.called or self.about.name

    @property
    def label(self) -> str:
        """The method as the paper calls it; a frozen encoder is named."""
        return label_of(self.name, self.about.world, self.about.encoder)

    @property
    def run(self) -> Path:
        """The run's folder."""
        return self.folder.parents[1]

    @property
    def differs(self) -> str:
        """What sets it apart from the usual evaluation, as in its folder's name; empty for the usual one."""
        return self.about.differs

    @property
    def split(self) -> str:
        return self.about.settings.split

    @property
    def dataset(self) -> str:
        """Its name."""
        return self.about.dataset or self.folder.name.removesuffix(f"-{self.split}")

    @property
    def laws(self) -> tuple[str, ...]:
        """Names, in the order of the columns of `law`; none in a world without laws."""
        return tuple(self.about.laws)

    @cached_property
    def law(self) -> np.ndarray:
        """(E, L) the laws of each episode."""
        columns = [self._first[f"law.{name}"] for name in self.laws]
        return np.stack(columns, axis=1) if columns else np.zeros((len(self.episodes), 0))

    @cached_property
    def samplers(self) -> dict[str, Sampler]:
        """What the training laws were drawn from."""
        return {name: law.training for name, law in self.about.laws.items()}

    @property
    def episodes(self) -> np.ndarray:
        """(E,) episode numbers."""
        return np.asarray(self._first["episode"])

    @cached_property
    def horizons(self) -> int:
        return int(self.table["horizon"].max())

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        """Which rows are of which source; comparing a million strings once is enough."""
        names = self.table["source"]
        return {str(name): names == name for name in np.unique(names.astype(str))}

    @property
    def _first(self) -> Table:
        rows = self._rows["predicted"] & (self.table["horizon"] == 1)
        return {name: column[rows] for name, column in self.table.items()}

    def values(self, metric: str, source: str = "predicted") -> np.ndarray:
        """(E, H) one metric of one source."""
        if metric not in self.table:
            raise InputError(f"{self.folder} has no metric '{metric}'")
        found: np.ndarray = self.table[metric][self._rows[source]].reshape(-1, self.horizons)
        return found

    def checked(self, name: str) -> Path:
        """One of its files, after a look at its digest."""
        return artifact.checked(self.folder, name)

    @property
    def targets(self) -> Targets:
        """What the probe reads, and how to make a named state of it."""
        return self.about.targets

    @cached_property
    def _states(self) -> Table:
        return read_checked(self.folder / STATES, ("episode", "horizon"))

    def states(self, source: str = "predicted") -> np.ndarray:
        """(E, H, Y) what the probe read of one source, in the order of `targets.names`; "recorded" is the truth."""
        columns = [f"{source}.{name}" for name in self.targets.names]
        if columns[0] not in self._states:
            known = dict.fromkeys(column.partition(".")[0] for column in self._states if "." in column)
            raise unknown(f"source of {self.folder}", source, known)
        return np.stack([self._states[name].reshape(-1, self.horizons) for name in columns], axis=-1)

    def region(self, name: str) -> np.ndarray:
        """(E,) which episodes lie in a region: "in" where every law is in the training distribution, as its sampler says."""
        inside = inside_of(self.samplers, self.law)
        return {"all": np.ones(len(inside), bool), "in": inside, "out": ~inside}[name]

    @cached_property
    def deviations(self) -> np.ndarray:
        """(E,) how many standard deviations the law that strays most lies from the mean of the training laws."""
        spread = [np.abs(self.law[:, i] - s.mean) / s.std for i, s in enumerate(self.samplers.values()) if s.std]
        return np.max(spread, axis=0) if spread else np.zeros(len(self.law))


def needed(about: EvaluationRecord) -> tuple[str, ...]:
    """The columns of the errors that everybody asks for."""
    return ("source", "episode", "horizon", "nmse", *(f"law.{name}" for name in about.laws))


def evaluated(folder: Path) -> list[str]:
    """What was evaluated of a run: a name for each dataset, and for each probe and context that are not the usual ones."""
    if not is_run(folder):
        raise InputError(f"{folder} is not a run; make one with `sgjepa train`, or see `sgjepa zoo`")
    found = [place.name for place in artifact.artifacts_in(folder / EVALUATIONS, MADE_BY)]
    if not found:
        raise InputError(f"{folder} has not been evaluated; run: sgjepa evaluate {folder}")
    return found


def load_evaluations(folder: Path, name: str | None = None) -> list[Evaluation]:
    """All evaluations of a run, or the one of that name."""
    return [load_evaluation(folder / EVALUATIONS / one) for one in evaluated(folder) if name in (None, one)]


def load_evaluation(place: Path) -> Evaluation:
    """The one in that folder."""
    about = read_evaluation(place)
    return Evaluation(place, about, read_checked(place / EPISODES, needed(about)))
