"""What studies of policies and of planners share: world models trained first, then pages by world and one over all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sgjepa.experiments.asked import Asked, Question
from sgjepa.experiments.cells import Cell, chosen
from sgjepa.experiments.chains import Chain
from sgjepa.experiments.study import Study, planned
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.overview import overview
from sgjepa.results.claims import LEAST, write_claims


def model(name: str, size: str) -> Cell:
    """A recipe whose latents alone are wanted: nothing is decoded."""
    run = recipe(name, size)
    return Cell(replace(run, train=replace(run.train, decoder=False)))


def world_of(chain: Chain) -> str:
    """A dataset's usual name is WORLD-SIZE."""
    return chain.run.data[0].rpartition("-")[0]


@dataclass(frozen=True)
class ActingStudy(Question):
    """A study in which world models drive: they are trained, and not evaluated as predictors."""

    def seeds(self, asked: Asked) -> int:
        """Trainings of each world model: at mini size as many as a verdict takes."""
        return {"mini": LEAST, "small": LEAST}.get(asked.size, 1) if asked.seeds is None else asked.seeds

    def models(
        self, cells: Sequence[Cell], asked: Asked, follows: str, needed: Callable[[list[Chain]], list[Chain]] = list
    ) -> list[Chain]:
        """The trainings that are asked for; says what it takes, and what follows without being counted.

        needed: those that will be trained, where not all are.
        """
        few = chosen(cells, asked.only)
        study = Study(self.name, self.question, self.claim, lambda _: few)
        chains = planned(study, few, asked, self.seeds(asked), needed)
        if asked.runs is not None:
            print(f"  {follows}; that time is not counted", flush=True)
        return [replace(chain, evaluated=False) for chain in chains]

    def page(self, found: Finding, pages: Mapping[str, Path], asked: Asked) -> Path:
        """The page over all worlds, and its claims."""
        page = overview(found, self.question, self.claim, pages, asked.out / asked.page, self.command)
        command = asked.command(self.name, self.seeds(asked))
        write_claims(page.parent, self.name, asked.size, asked.updates, command, found.claims, asked.settings)
        return page
