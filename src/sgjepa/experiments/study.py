"""A study: one question of the paper, the claim it decides, the runs that are compared, and what is computed from them.

`run_study` makes what is missing (datasets, trainings, evaluations), then the report with the study's own section. Every
stage is kept: interrupted, the same call goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sgjepa.core import artifact, config
from sgjepa.core.errors import InputError
from sgjepa.data.config import DatasetConfig
from sgjepa.evaluation.probes import Kind
from sgjepa.experiments.asked import Asked
from sgjepa.experiments.budget import budget
from sgjepa.experiments.cells import Cell, chosen, leaders_first, make_datasets, names_of
from sgjepa.experiments.chains import Chain, evaluation_of, run_chains
from sgjepa.experiments.places import Place, place_of
from sgjepa.report.content import Finding
from sgjepa.report.overview import overview
from sgjepa.report.page import ANSWER, PAGE
from sgjepa.report.write import write_report
from sgjepa.results.claims import LEAST, Claims, write_claims
from sgjepa.results.compare import Method
from sgjepa.results.gather import Results, gather
from sgjepa.training.config import Run
from sgjepa.training.data import updates_there, with_updates

ABOUT = "study.json"
# the world that a question is put to: at mini size the one that can answer it, else the one the paper asks
WORLDS = {"mini": "approach_ball", "small": "square", "paper": "square"}


@dataclass(frozen=True)
class Done:
    """A study whose cells are trained and evaluated, with every seed."""

    chains: Sequence[Chain]
    results: Results
    datasets: Path

    def method(self, cell: str) -> Method:
        """A cell by its name, with every seed."""
        found = {method.name: method for method in self.results.methods}
        if cell not in found:
            raise InputError(f"the study needs its cell {cell}; leave out --only, or add it")
        return found[cell]

    def has(self, *cells: str) -> bool:
        """Whether all these were asked for."""
        return {method.name for method in self.results.methods}.issuperset(cells)

    @property
    def seeds(self) -> int:
        """Trainings of each cell."""
        return min(len(method.seeds) for method in self.results.methods)


@dataclass(frozen=True)
class Study:
    """claim: what the paper says; the analysis says whether it holds here. seeds: trainings of each cell, by size.

    cells: of a size. analyse: where all are of one world. overview: where they are of several; each world then has a report
    of its own beside it. labels: what the report calls runs of these names. counterfactual: also tell models wrong laws.
    split: the episodes it is judged on; what chooses settings must take "validation". probe: the kind that reads latents.
    context: true frames that an evaluation is given, by size, where it is not the usual number.
    datasets: of a size, those that it brings itself, by name; others are known by theirs, WORLD-SIZE.
    """

    name: str
    question: str
    claim: str
    cells: Callable[[str], Sequence[Cell]]
    analyse: Callable[[Done], Finding | None] | None = None
    overview: Callable[[Mapping[str, Results]], Finding] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=lambda: {"mini": LEAST, "small": LEAST, "paper": 1})
    counterfactual: bool = False
    split: str = "test"
    probe: Kind = "mlp"
    context: Mapping[str, int] = field(default_factory=dict)
    datasets: Callable[[str], Mapping[str, DatasetConfig]] = lambda _: {}

    @property
    def command(self) -> str:
        """What makes its report's folder."""
        return f"sgjepa study {self.name}"

    def run(self, asked: Asked) -> Path:
        """`run_study` of this one."""
        return run_study(self, asked)


@dataclass(frozen=True)
class StudyRecord:
    """study.json: what was asked and answered. seeds: trainings of each cell. updates: None for the recipes' own."""

    study: str
    question: str
    claim: str
    size: str
    seeds: int
    updates: int | None
    cells: dict[str, Run]
    runs: tuple[str, ...]
    answer: tuple[str, ...]
    provenance: dict[str, Any]
    trained: dict[str, tuple[str, ...]] = field(default_factory=dict)  # the runs of each cell, by seed
    settings: dict[str, str] = field(default_factory=dict)  # of every training, by place, instead of the cells' own


def run_study(study: Study, asked: Asked) -> Path:
    """Answer the question; returns the page of the report."""
    seeds, size = study.seeds.get(asked.size, 1) if asked.seeds is None else asked.seeds, asked.size
    cells = chosen(study.cells(size), asked.only)
    chains = planned(study, cells, asked, seeds)
    run_chains(chains, asked.datasets, asked.workers)

    folders = [chain.folder for chain in chains]
    written, claims = (_reports if study.overview else _report)(study, chains, asked)
    about = StudyRecord(
        study=study.name,
        question=study.question,
        claim=study.claim,
        size=size,
        seeds=seeds,
        updates=asked.updates,
        cells={cell.run.name: with_settings(cell.run, asked) for cell in cells},
        runs=tuple(folder.name for folder in folders),
        answer=tuple((written.parent / ANSWER).read_text(encoding="utf-8").splitlines()),
        provenance=artifact.provenance(),
        trained={cell.run.name: tuple(c.folder.name for c in chains if c.name == cell.run.name) for cell in cells},
        settings=dict(asked.settings),
    )
    artifact.add(written.parent, ABOUT, artifact.to_json(config.to_dict(about)).encode())
    command = asked.command(study.name, seeds)
    write_claims(written.parent, study.name, size, asked.updates, command, claims, asked.settings)
    return written


def planned(
    study: Study, cells: Sequence[Cell], asked: Asked, seeds: int, needed: Callable[[list[Chain]], list[Chain]] = list
) -> list[Chain]:
    """All before the first training: what cannot be is refused, datasets are made, and what it will take is said.

    needed: those that will be trained, where not all are.
    """
    if not cells:
        raise InputError(f"study {study.name} has nothing to train at size {asked.size}; choose another --size")
    artifact.check_output(asked.out / asked.page, study.command)  # hours before it is written
    for cell in cells:
        with_settings(cell.run, asked)
    make_datasets(names_of(cells), asked.datasets, asked.workers, study.datasets(asked.size))
    chains = chains_of(study, cells, asked, seeds)
    if asked.runs is not None:
        words = budget(study.name, needed(chains), asked.workers).words(asked.runs, asked.out / asked.page / PAGE)
        print(words, flush=True)
    return chains


def _report(study: Study, chains: Sequence[Chain], asked: Asked) -> tuple[Path, Claims]:
    """One page for all runs, which are of one world."""
    results = _gathered(study, chains, asked)
    finding = study.analyse(Done(chains, results, asked.datasets)) if study.analyse else None
    question = study.question if finding else ""
    written = write_report(results, asked.out / asked.page, asked.notes, finding, study.command, question)
    return written, finding.claims if finding else ()


def _reports(study: Study, chains: Sequence[Chain], asked: Asked) -> tuple[Path, Claims]:
    """A page for each world, and one over all."""
    assert study.overview is not None
    by_data: dict[str, list[Chain]] = {}
    for chain in chains:
        by_data.setdefault(chain.data, []).append(chain)
    pages, results = {}, {}
    for data, some in by_data.items():
        found = _gathered(study, some, asked)
        place = asked.out / f"{asked.page}-{data}"
        pages[found.world] = write_report(found, place, asked.notes, made_by=study.command)
        results[found.world] = found
    finding = study.overview(results)
    return overview(finding, study.question, study.claim, pages, asked.out / asked.page, study.command), finding.claims


def _gathered(study: Study, chains: Sequence[Chain], asked: Asked) -> Results:
    """What was measured of these runs, under the names of their cells."""
    names = {chain.folder: chain.name for chain in chains}
    return gather(list(names), data=evaluation_of(chains[0], asked.datasets), named=study.labels, names=names)


def chains_of(study: Study, cells: Sequence[Cell], asked: Asked, seeds: int) -> list[Chain]:
    """Every cell with every seed, the cells of one seed together. Pictures of the first seed's models are enough.

    Where trainings are shared, a folder is named after all that decides its training.
    """
    datasets, size, runs = asked.datasets, asked.size, asked.runs or asked.out / "runs"
    chains: list[Chain] = []
    judged_on = {cell.run.name: cell.judged_on for cell in cells}
    for seed in range(seeds):
        wanted = {cell.run.name: _with_seed(cell.run, seed, asked) for cell in cells}
        places: dict[str, Place] = {}
        for cell in leaders_first(cells):
            name, leader = cell.run.name, places[cell.start] if cell.start is not None else None
            if asked.runs is not None:
                place = place_of(wanted[name], runs, datasets, leader)
                if same := [other for other, there in places.items() if there.digest == place.digest]:
                    raise InputError(f"{study.name}: {name} is the very training that {same[0]} is; leave one out")
                places[name] = place
            else:
                init = cell.run.init if leader is None else str(leader.folder)
                places[name] = Place(replace(wanted[name], init=init), runs / f"{name}-{size}-seed{seed}", "")
        for name in wanted:
            run, folder = places[name].run, places[name].folder
            length, context = updates_there(run, datasets), study.context.get(size)
            how: dict[str, Any] = {"split": study.split, "probe": study.probe, "context": context, "cell": name}
            chains.append(Chain(run, folder, length, study.counterfactual, judged_on=judged_on[name], **how))
    return chains


def _with_seed(run: Run, seed: int, asked: Asked) -> Run:
    train = replace(run.train, decoder=run.train.decoder and seed == 0)
    run = with_settings(replace(run, seed=seed, train=train), asked)
    return run if asked.updates is None else with_updates(run, asked.updates, asked.datasets)


def with_settings(run: Run, asked: Asked) -> Run:
    """A cell's run with the settings that are asked for instead of its own."""
    try:
        return config.override(run, asked.settings)
    except InputError as error:
        raise InputError(f"{run.name}: {error}") from error
