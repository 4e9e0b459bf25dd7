"""Evaluations of runs: their errors and states, and the grouping of runs into arms. NumPy only."""

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
    """The evaluation of a run on a dataset with a probe and a context, as written by `sgjepa evaluate`."""

    folder: Path
    about: EvaluationRecord
    table: Table
    alias: str = ""  # the run's name in an experiment, which may share it with others

    @property
    def name(self) -> str:
        """The run's name: its alias in an experiment, or its own."""
        return self.alias or self.about.name

    @property
    def label(self) -> str:
        """The paper's name of the method, with the name of a frozen encoder."""
        return label_of(self.name, self.about.world, self.about.encoder)

    @property
    def run(self) -> Path:
        """The run's folder."""
        return self.folder.parents[1]

    @property
    def differs(self) -> str:
        """Settings that are not the default, as in the folder's name; empty for the default evaluation."""
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
        """The training distribution of each law, by name."""
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
        """Boolean masks of the rows of each source, computed once."""
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
        """The values (E, H) of a metric of a source."""
        if metric not in self.table:
            raise InputError(f"{self.folder} has no metric '{metric}'")
        values: np.ndarray = self.table[metric][self._rows[source]].reshape(-1, self.horizons)
        return values

    def checked(self, name: str) -> Path:
        """The path of one of its files; an InputError if the digest is wrong."""
        return artifact.checked(self.folder, name)

    def stage_file(self, stage: str, name: str) -> Path | None:
        """The file of another stage for this run, dataset and probe; None if it does not exist."""
        for folder in (self.folder.name, f"{self.dataset}-{self.differs}".removesuffix("-")):
            path = self.run / stage / folder / name
            if path.is_file():
                return path
        return None

    @property
    def targets(self) -> Targets:
        """The targets of the probe."""
        return self.about.targets

    @cached_property
    def _states(self) -> Table:
        return read_checked(self.folder / STATES, ("episode", "horizon"))

    def states(self, source: str = "predicted") -> np.ndarray:
        """Probed states (E, H, Y) of a source, in the order of `targets.names`; "recorded" is the ground truth."""
        columns = [f"{source}.{name}" for name in self.targets.names]
        if columns[0] not in self._states:
            known = dict.fromkeys(column.partition(".")[0] for column in self._states if "." in column)
            raise unknown(f"source of {self.folder}", source, known)
        return np.stack([self._states[name].reshape(-1, self.horizons) for name in columns], axis=-1)


def evaluated(folder: Path) -> list[str]:
    """Names of a run's evaluations: one per dataset, and per probe and context that are not the default."""
    if not run_folder.is_run(folder):
        raise InputError(f"{folder} is not a run; make one with `sgjepa train`, or see `sgjepa zoo`")
    names = [path.name for path in artifact.artifacts_in(folder / EVALUATIONS)]
    if not names:
        raise InputError(f"{folder} has not been evaluated; run: sgjepa evaluate {folder}")
    return names


def load_evaluations(folder: Path, name: str | None = None) -> list[Evaluation]:
    """Load all evaluations of a run, or the one with a name."""
    return [load_evaluation(folder / EVALUATIONS / each) for each in evaluated(folder) if name in (None, each)]


def load_evaluation(folder: Path) -> Evaluation:
    """Load the evaluation in a folder; an InputError if digests or columns are wrong."""
    about = read_evaluation(folder)
    columns = ("source", "episode", "horizon", "nmse", *(f"law.{name}" for name in about.laws))
    return Evaluation(folder, about, read_checked(folder / EPISODES, columns))


def read_runs(
    runs: Sequence[Path],
    data: str | None = None,
    labels: Mapping[str, str] | None = None,
    names: Mapping[Path, str] | None = None,
) -> dict[str, tuple[Evaluation, ...]]:
    """The evaluations of runs on the same dataset, by arm; an arm has the training seeds of one recipe.

    data: the evaluation's name; None: the only one that the runs share. labels: names of arms by run name, instead of the
    paper's. names: names of runs by folder, instead of their own.
    """
    if not runs:
        raise InputError("no runs given; pass at least one that `sgjepa evaluate` has evaluated")
    for run in runs:
        if [other.resolve() for other in runs].count(run.resolve()) > 1:
            raise InputError(f"{run} is given twice")
    name = _same_data(runs, data)
    evaluations = [each for run in runs for each in load_evaluations(run, name)]  # only this one: others may be damaged
    return arms_of([replace(evaluation, alias=(names or {}).get(evaluation.run, "")) for evaluation in evaluations], labels)


def arms_of(evaluations: Sequence[Evaluation], labels: Mapping[str, str] | None = None) -> dict[str, tuple[Evaluation, ...]]:
    """Group evaluations on the same episodes by arm; an arm has the training seeds of one recipe.

    Runs of one method with different settings are different arms, distinguished by the run's name. Continued trainings are
    separate arms, too, and their label shows it. labels: names of arms by run name, instead of the paper's.
    """
    groups: dict[tuple[str, str], list[Evaluation]] = {}
    first = evaluations[0]
    for evaluation in evaluations:
        if evaluation.about.settings.data != first.about.settings.data or evaluation.horizons != first.horizons:
            both = f"{evaluation.folder} and {first.folder}"
            raise InputError(f"{both} are of different datasets or horizons; report them separately")
        if evaluation.about.settings.config != first.about.settings.config:
            both = f"{evaluation.folder} and {first.folder}"
            raise InputError(f"{both} have different probes or contexts; evaluate both with the same settings")
        label = (labels or {}).get(evaluation.name, evaluation.label) + _continued(evaluation)
        group = groups.setdefault((label, _recipe(evaluation)), [])
        for other in group:
            if other.about.seed == evaluation.about.seed:
                both = f"{evaluation.run} and {other.run}"
                raise InputError(f"{both} are the same training, seed {evaluation.about.seed}; give one")
        group.append(evaluation)
    for group in groups.values():
        group.sort(key=lambda evaluation: int(evaluation.about.seed))  # to pair equal seeds
    arms = [label for label, _ in groups]
    for name in (lambda run: run.about.run, lambda run: str(run.run)):  # the folder's name, or else its path
        if len(set(arms)) < len(arms):
            arms = [
                arm if arms.count(arm) == 1 else f"{label}, {name(group[0])}"
                for arm, ((label, _), group) in zip(arms, groups.items(), strict=True)
            ]
    return {arm: tuple(group) for arm, group in zip(arms, groups.values(), strict=True)}


def _continued(evaluation: Evaluation) -> str:
    """Suffix of the label of a training that was continued after its end; empty for other trainings."""
    steps = [f"{leg.step:,}" for leg in run_folder.about(evaluation.run).continued]
    return f", continued after {' and '.join(steps)} updates" if steps else ""


def _recipe(evaluation: Evaluation) -> str:
    """The settings shared by training seeds, as JSON."""
    settings = dict(run_folder.about(evaluation.run).config)
    if isinstance(train := settings.get("train"), dict):  # the decoder does not change the model
        settings["train"] = {key: value for key, value in train.items() if key != "decoder"}
    settings["continued"] = _continued(evaluation)  # continued trainings have other learning rates
    for name in ("seed", "name"):  # the name is in the label
        settings.pop(name, None)
    if settings.get("init"):  # warm starts from trainings that differ only in the seed
        settings["init"] = re.sub(r"-seed\d+$", "", str(settings["init"]))
    return json.dumps(settings, sort_keys=True)


def _same_data(runs: Sequence[Path], data: str | None) -> str:
    """The name of an evaluation with the same dataset, probe and context that every run has.

    It is `data`, or the default evaluation on the only shared test split, or the only shared evaluation.
    """
    names = [set(evaluated(run)) for run in runs]
    common = set.intersection(*names)
    for run, evaluations in zip(runs, names, strict=True):
        if data is not None and data not in evaluations:
            raise InputError(f"{run} was not evaluated on '{data}' but on {', '.join(sorted(evaluations))}")
        if not evaluations & names[0]:
            first_names, run_names = ", ".join(sorted(names[0])), ", ".join(sorted(evaluations))
            differ = f"{runs[0]} was evaluated on {first_names}, {run} on {run_names}"
            raise InputError(f"{differ}; report different datasets separately")
    if data is not None:
        return data
    if not common:
        raise InputError("these runs share no dataset they were all evaluated on; report different datasets separately")
    shared = sorted(common)
    if len(shared) > 1:
        about = {name: read_evaluation(runs[0] / EVALUATIONS / name) for name in shared}
        shared = [name for name in shared if about[name].settings.split == "test"] or shared
        shared = [name for name in shared if not about[name].differs] or shared
    name, *others = shared
    if others:
        raise InputError(f"these runs were evaluated as {', '.join([name, *others])}; choose one with --data")
    return name
