"""A study: one question of the paper, the claim it decides, the runs that are compared, and what is computed from them.

`run_study` makes what is missing (datasets, trainings, evaluations), then the report with the study's own section. Every
stage is kept: interrupted, the same call goes on where it was.
"""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sgjepa.core import files, output, records
from sgjepa.core.errors import InputError, unknown
from sgjepa.data.collect import collect
from sgjepa.data.config import DatasetConfig
from sgjepa.evaluation.probe import Kind
from sgjepa.recipes.datasets import named
from sgjepa.report.content import Finding
from sgjepa.report.overview import overview
from sgjepa.report.write import ANSWER, PAGE, report
from sgjepa.results.compare import Method
from sgjepa.results.gather import Results, gather
from sgjepa.results.verdicts import Claims, Measured, write_claims
from sgjepa.studies.budget import budget
from sgjepa.studies.chains import Chain, evaluation_of, run_chains
from sgjepa.studies.places import Place, place_of
from sgjepa.training.budget import updates_there, with_updates
from sgjepa.training.run import Run

ABOUT = "study.json"
# the world that a question is put to: at mini size the one that can answer it, else the one the paper asks
WORLDS = {"mini": "approach_ball", "small": "square", "paper": "square"}


@dataclass(frozen=True)
class Cell:
    """One of the compared trainings. start: the name of another cell, whose weights of the same seed it starts from.

    judged_on: the dataset that it is probed and evaluated on; None for the first it is trained on.
    """

    run: Run
    start: str | None = None
    judged_on: str | None = None


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
    analyse: Callable[[Done], Finding] | None = None
    overview: Callable[[Mapping[str, Results]], Finding] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=lambda: {"mini": 3, "paper": 1})
    counterfactual: bool = False
    split: str = "test"
    probe: Kind = "mlp"
    context: Mapping[str, int] = field(default_factory=dict)
    datasets: Callable[[str], Mapping[str, DatasetConfig]] = lambda _: {}

    @property
    def command(self) -> str:
        """What makes its report's folder."""
        return f"sgjepa study {self.name}"

    def run(self, size: str, out: Path, datasets: Path, **options: Any) -> Path:
        """`run_study` of this one."""
        return run_study(self, size, out, datasets, **options)


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


def run_study(
    study: Study,
    size: str,
    out: Path,
    datasets: Path,
    *,
    seeds: int | None = None,
    updates: int | None = None,
    workers: int | None = None,
    only: Sequence[str] = (),
    page: str = "report",
    note: str = "",
    runs: Path | None = None,
) -> Path:
    """Answer the question: the report to `out/<page>`; returns its page.

    seeds, updates: instead of the study's and the recipes' own numbers. only: patterns of the cells' names, such as
    "*_gru"; all without. note: for the page's reader. runs: a folder of trainings that studies share; without one they go
    to `out/runs` under the cells' own names.
    """
    seeds = study.seeds.get(size, 1) if seeds is None else seeds
    cells = chosen(study.cells(size), only)
    chains = planned(study, cells, size, out, datasets, seeds, updates=updates, workers=workers, page=page, runs=runs)
    run_chains(chains, datasets, workers)

    folders = [chain.folder for chain in chains]
    written, claims = (_reports if study.overview else _report)(study, chains, datasets, out, page, note)
    about = StudyRecord(
        study=study.name,
        question=study.question,
        claim=study.claim,
        size=size,
        seeds=seeds,
        updates=updates,
        cells={cell.run.name: cell.run for cell in cells},
        runs=tuple(folder.name for folder in folders),
        answer=tuple((written.parent / ANSWER).read_text(encoding="utf-8").splitlines()),
        provenance=files.provenance(),
        trained={cell.run.name: tuple(c.folder.name for c in chains if c.name == cell.run.name) for cell in cells},
    )
    output.add(written.parent, ABOUT, records.to_bytes(about))
    write_claims(written.parent, study.name, size, updates, command_of(study.name, size, seeds, updates, only), claims)
    return written


def planned(
    study: Study,
    cells: Sequence[Cell],
    size: str,
    out: Path,
    datasets: Path,
    seeds: int,
    *,
    updates: int | None,
    workers: int | None,
    page: str,
    runs: Path | None,
) -> list[Chain]:
    """All before the first training: what cannot be is refused, datasets are made, and what it will take is said."""
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {seeds}")
    output.check(out / page, study.command)  # hours before it is written
    make_datasets(names_of(cells), datasets, workers, study.datasets(size))
    chains = chains_of(study, cells, size, runs or out / "runs", datasets, seeds, updates, shared=runs is not None)
    if runs is not None:
        print(budget(study.name, chains, workers).words(runs, out / page / PAGE), flush=True)
    return chains


def command_of(name: str, size: str, seeds: int, updates: int | None, only: Sequence[str]) -> str:
    """What makes the same result again."""
    more = ["--updates", str(updates)] if updates is not None else []
    return shlex.join(
        ["sgjepa", "study", name, "--size", size, "--seeds", str(seeds), *more, *(["--only", *only] if only else [])]
    )


def _report(study: Study, chains: Sequence[Chain], datasets: Path, out: Path, page: str, note: str) -> tuple[Path, Claims]:
    """One page for all runs, which are of one world."""
    claims: list[Measured] = []

    def finding(results: Results) -> Finding:
        assert study.analyse is not None
        found = study.analyse(Done(chains, results, datasets))
        claims.extend(found.claims)
        return found

    names = {chain.folder: chain.name for chain in chains}
    analyse = finding if study.analyse else None
    data = evaluation_of(chains[0], datasets)
    about: dict[str, Any] = {"named": study.labels, "names": names, "made_by": study.command}
    return report(list(names), out / page, data=data, note=note, study=analyse, **about), tuple(claims)


def _reports(study: Study, chains: Sequence[Chain], datasets: Path, out: Path, page: str, note: str) -> tuple[Path, Claims]:
    """A page for each world, and one over all."""
    assert study.overview is not None
    by_data: dict[str, list[Chain]] = {}
    for chain in chains:
        by_data.setdefault(chain.data, []).append(chain)
    pages, results = {}, {}
    for data, some in by_data.items():
        names = {chain.folder: chain.name for chain in some}
        about: dict[str, Any] = {"data": evaluation_of(some[0], datasets), "named": study.labels, "names": names}
        written = report(list(names), out / f"{page}-{data}", note=note, made_by=study.command, **about)
        found = gather(list(names), **about)
        pages[found.world], results[found.world] = written, found
    finding = study.overview(results)
    return overview(finding, study.question, study.claim, pages, out / page, study.command), finding.claims


def chosen(cells: Sequence[Cell], only: Sequence[str]) -> Sequence[Cell]:
    """The cells whose names fit one of the patterns, in their own order."""
    names = [cell.run.name for cell in cells]
    for pattern in only:
        if not fnmatch.filter(names, pattern):
            raise unknown("cell", pattern, names)
    kept = {name for pattern in only for name in fnmatch.filter(names, pattern)}
    for cell in cells:
        if only and cell.run.name in kept and cell.start is not None and cell.start not in kept:
            raise InputError(f"{cell.run.name} starts from {cell.start}; add it to --only")
    return [cell for cell in cells if not only or cell.run.name in kept]


def names_of(cells: Sequence[Cell]) -> list[str]:
    """The datasets that cells are trained and judged on."""
    found = [name for cell in cells for name in (*cell.run.data, cell.judged_on) if name is not None]
    return list(dict.fromkeys(found))


def make_datasets(
    names: Sequence[str], datasets: Path, workers: int | None, own: Mapping[str, DatasetConfig] | None = None
) -> None:
    """Make those datasets that are missing and have a recipe. own: recipes besides the usual ones, by name."""
    for name in names:
        settings = (own or {}).get(name) or next(iter(named([name]) or ()), None)
        if settings is not None and not (datasets / name).exists():
            print(f"making {datasets / name}", flush=True)
            collect(settings, datasets / name, workers)


def chains_of(
    study: Study,
    cells: Sequence[Cell],
    size: str,
    runs: Path,
    datasets: Path,
    seeds: int,
    updates: int | None,
    shared: bool = False,
) -> list[Chain]:
    """Every cell with every seed, the cells of one seed together. Pictures of the first seed's models are enough.

    shared: `runs` is every study's, and a folder is named after all that decides its training.
    """
    chains: list[Chain] = []
    judged_on = {cell.run.name: cell.judged_on for cell in cells}
    for seed in range(seeds):
        asked = {cell.run.name: _asked(cell.run, seed, updates, datasets) for cell in cells}
        places: dict[str, Place] = {}
        for cell in _leaders_first(cells):
            name, leader = cell.run.name, places[cell.start] if cell.start is not None else None
            if shared:
                place = place_of(asked[name], runs, datasets, leader)
                if same := [other for other, there in places.items() if there.digest == place.digest]:
                    raise InputError(f"{study.name}: {name} is the very training that {same[0]} is; leave one out")
                places[name] = place
            else:
                init = cell.run.init if leader is None else str(leader.folder)
                places[name] = Place(replace(asked[name], init=init), runs / f"{name}-{size}-seed{seed}", "")
        for name in asked:
            run, folder = places[name].run, places[name].folder
            length, context = updates_there(run, datasets), study.context.get(size)
            how: dict[str, Any] = {"split": study.split, "probe": study.probe, "context": context, "cell": name}
            chains.append(Chain(run, folder, length, study.counterfactual, judged_on=judged_on[name], **how))
    return chains


def _asked(run: Run, seed: int, updates: int | None, datasets: Path) -> Run:
    train = replace(run.train, decoder=run.train.decoder and seed == 0)
    run = replace(run, seed=seed, train=train)
    return run if updates is None else with_updates(run, updates, datasets)


def _leaders_first(cells: Sequence[Cell]) -> list[Cell]:
    """In an order in which each comes after the one that it starts from."""
    by_name, found = {cell.run.name: cell for cell in cells}, dict[str, Cell]()

    def add(cell: Cell) -> None:
        if cell.start is not None and cell.start not in found:
            add(by_name[cell.start])
        found.setdefault(cell.run.name, cell)

    for cell in cells:
        add(cell)
    return list(found.values())
