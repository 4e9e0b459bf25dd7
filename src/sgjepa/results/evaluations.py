"""Evaluated runs: the errors and states that an evaluation wrote, and which runs are the seeds of one arm. NumPy only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from sgjepa.core import artifact, run_folder
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.methods import label_of
from sgjepa.core.run_folder import EPISODES, EVALUATIONS, STATES
from sgjepa.core.tables import Table
from sgjepa.data.probe_targets import Targets
from sgjepa.evaluation.records import EvaluationRecord, read_checked, read_evaluation
from sgjepa.laws import Sampler


@dataclass(frozen=True)
class Evaluation:
    """One run on one dataset, with one probe and context: what `sgjepa evaluate` wrote."""

    folder: Path
    about: EvaluationRecord
    table: Table
    alias: str = ""  # the run's name in an experiment, which may share it with others

    @property
    def name(self) -> str:
        """What the run is called: in the experiment that asks, or by itself."""
        return self.alias or self.about.name

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
        """The split that was evaluated: "test" or "validation"."""
        return self.about.settings.split

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self.about.dataset

    @property
    def laws(self) -> tuple[str, ...]:
        """Names of the laws, in the order of the columns of `law`; none in a world without laws."""
        return tuple(self.about.laws)

    @cached_property
    def law(self) -> np.ndarray:
        """(E, L) the laws of each episode."""
        columns = [self._first[f"law.{name}"] for name in self.laws]
        return np.stack(columns, axis=1) if columns else np.zeros((len(self.episodes), 0))

    @cached_property
    def samplers(self) -> dict[str, Sampler]:
        """What each law of the training episodes was drawn from."""
        return {name: law.training for name, law in self.about.laws.items()}

    @property
    def episodes(self) -> np.ndarray:
        """(E,) episode numbers."""
        return np.asarray(self._first["episode"])

    @cached_property
    def horizons(self) -> int:
        """The last horizon."""
        return int(self.table["horizon"].max())

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        """Which rows are of which source; comparing a million strings once is enough."""
        names = self.table["source"]
        return {str(name): names == name for name in np.unique(names.astype(str))}

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the forecasts, the model's own rollout first."""
        return tuple(sorted(self._rows, key=lambda name: name != "predicted"))

    @property
    def _first(self) -> Table:
        rows = self._rows["predicted"] & (self.table["horizon"] == 1)
        return {name: column[rows] for name, column in self.table.items()}

    def values(self, metric: str, source: str = "predicted") -> np.ndarray:
        """(E, H) one metric of one source."""
        if metric not in self.table:
            raise InputError(f"{self.folder} has no metric '{metric}'")
        values: np.ndarray = self.table[metric][self._rows[source]].reshape(-1, self.horizons)
        return values

    def checked(self, name: str) -> Path:
        """The path of one of its files, after a look at the digest."""
        return artifact.checked(self.folder, name)

    def beside(self, stage: str, name: str) -> Path | None:
        """A file that another stage left for this run, dataset and probe, if it is there."""
        for folder in (self.folder.name, f"{self.dataset}-{self.differs}".removesuffix("-")):
            path = self.run / stage / folder / name
            if path.is_file():
                return path
        return None

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


def evaluated(folder: Path) -> list[str]:
    """Names of a run's evaluations: one for each dataset, and for each probe and context that are not the usual ones."""
    if not run_folder.is_run(folder):
        raise InputError(f"{folder} is not a run; make one with `sgjepa train`, or see `sgjepa zoo`")
    names = [path.name for path in artifact.artifacts_in(folder / EVALUATIONS)]
    if not names:
        raise InputError(f"{folder} has not been evaluated; run: sgjepa evaluate {folder}")
    return names


def load_evaluations(folder: Path, name: str | None = None) -> list[Evaluation]:
    """All evaluations of a run, or the one of that name."""
    return [load_evaluation(folder / EVALUATIONS / one) for one in evaluated(folder) if name in (None, one)]


def load_evaluation(folder: Path) -> Evaluation:
    """The evaluation in a folder, after a look at its digests and columns."""
    about = read_evaluation(folder)
    columns = ("source", "episode", "horizon", "nmse", *(f"law.{name}" for name in about.laws))
    return Evaluation(folder, about, read_checked(folder / EPISODES, columns))


def read_runs(
    runs: Sequence[Path],
    data: str | None = None,
    labels: Mapping[str, str] | None = None,
    names: Mapping[Path, str] | None = None,
) -> dict[str, tuple[Evaluation, ...]]:
    """The evaluations of runs on the same dataset, by arm, training seeds of one recipe together.

    data: the evaluation's name; None: the only one that the runs share. labels: arms of runs of certain names, instead of
    the paper's. names: of runs by their folders, instead of those they were trained under.
    """
    if not runs:
        raise InputError("a report of nothing: give at least one run that `sgjepa evaluate` has evaluated")
    for run in runs:
        if [other.resolve() for other in runs].count(run.resolve()) > 1:
            raise InputError(f"{run} is given twice")
    name = _same_data(runs, data)
    chosen = [one for run in runs for one in load_evaluations(run, name)]  # what lies beside it may be damaged
    return arms_of([replace(one, alias=(names or {}).get(one.run, "")) for one in chosen], labels)


def arms_of(evaluations: Sequence[Evaluation], labels: Mapping[str, str] | None = None) -> dict[str, tuple[Evaluation, ...]]:
    """Evaluations by arm, in the order given, training seeds of one recipe together; all must have the same episodes.

    Runs of one method with different settings are different arms, told apart by the run's name; so are those that were
    finished and went on to more updates, and their label says so.
    labels: what to call runs of certain names, instead of the paper's names.
    """
    groups: dict[tuple[str, str], list[Evaluation]] = {}
    first = evaluations[0]
    for one in evaluations:
        if one.about.settings.data != first.about.settings.data or one.horizons != first.horizons:
            raise InputError(f"{one.folder} and {first.folder} are of different datasets or horizons; report them apart")
        if one.about.settings.config != first.about.settings.config:
            raise InputError(f"{one.folder} and {first.folder} were read by different probes; evaluate both with the same")
        label = (labels or {}).get(one.name, one.label) + _continued(one)
        group = groups.setdefault((label, _recipe(one)), [])
        for other in group:
            if other.about.seed == one.about.seed:
                raise InputError(f"{one.run} and {other.run} are the same training, seed {one.about.seed}; give one")
        group.append(one)
    for group in groups.values():
        group.sort(key=lambda one: int(one.about.seed))  # so that the same seeds are compared
    arms = [label for label, _ in groups]
    for name in (lambda one: one.about.run, lambda one: str(one.run)):  # the folder's name, or else its whole path
        if len(set(arms)) < len(arms):
            arms = [
                arm if arms.count(arm) == 1 else f"{label}, {name(group[0])}"
                for arm, ((label, _), group) in zip(arms, groups.items(), strict=True)
            ]
    return {arm: tuple(group) for arm, group in zip(arms, groups.values(), strict=True)}


def _continued(one: Evaluation) -> str:
    """What is added to the label of a training that was finished and went on; empty for one without a break."""
    steps = [f"{leg.step:,}" for leg in run_folder.about(one.run).continued]
    return f", continued after {' and '.join(steps)} updates" if steps else ""


def _recipe(one: Evaluation) -> str:
    """The settings that training seeds share."""
    settings = dict(run_folder.about(one.run).config)
    if isinstance(train := settings.get("train"), dict):  # the decoder changes nothing in the model
        settings["train"] = {key: value for key, value in train.items() if key != "decoder"}
    settings["continued"] = _continued(one)  # its learning rates were others
    for name in ("seed", "name"):  # what it is called is told by its label
        settings.pop(name, None)
    if settings.get("init"):  # warm starts from trainings that differ in their seed alone belong together
        settings["init"] = re.sub(r"-seed\d+$", "", str(settings["init"]))
    return json.dumps(settings, sort_keys=True)


def _same_data(runs: Sequence[Path], data: str | None) -> str:
    """The evaluation, of the same dataset, probe and context, that every run has.

    The one asked for; or else the usual one on the only test split they share; or the only one they share.
    """
    names = [set(evaluated(run)) for run in runs]
    common = set.intersection(*names)
    for run, mine in zip(runs, names, strict=True):
        if data is not None and data not in mine:
            raise InputError(f"{run} was not evaluated on '{data}' but on {', '.join(sorted(mine))}")
        if not mine & names[0]:
            theirs, ours = ", ".join(sorted(names[0])), ", ".join(sorted(mine))
            raise InputError(f"{runs[0]} was evaluated on {theirs}, {run} on {ours}; report different datasets apart")
    if data is not None:
        return data
    if not common:
        raise InputError("these runs share no dataset they were all evaluated on; report different datasets apart")
    shared = sorted(common)
    if len(shared) > 1:
        about = {name: read_evaluation(runs[0] / EVALUATIONS / name) for name in shared}
        shared = [name for name in shared if about[name].settings.split == "test"] or shared
        shared = [name for name in shared if not about[name].differs] or shared
    name, *others = shared
    if others:
        raise InputError(f"these runs were evaluated as {', '.join([name, *others])}; choose one with --data")
    return name
