"""What studies of policies share that look at no pictures: nothing is trained before them, and no model is compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sgjepa.core import artifact
from sgjepa.core.errors import InputError
from sgjepa.experiments.asked import Asked, Question
from sgjepa.experiments.cells import fitting, make_datasets
from sgjepa.experiments.school import Pupil, teach
from sgjepa.policies.files import Scores, read_policy
from sgjepa.report.content import Finding
from sgjepa.report.control import write_control
from sgjepa.report.overview import overview
from sgjepa.results.claims import write_claims
from sgjepa.results.control import Played, Player, gather_trials

Learned: TypeAlias = Mapping[str, Scores | None]  # how well each policy learned, by its folder's name


class SightlessStudy(Question, ABC):
    """As `Study`, for policies on what a simulator says of a world."""

    usual_seeds = 1  # trainings of each, if nothing else is asked for

    @abstractmethod
    def cells(self, asked: Asked) -> dict[str, Pupil]:
        """All that could be asked for, by name, each with its first seed; their folders are given by `pupils`."""

    @abstractmethod
    def summary(self, played: Mapping[str, Played], learned: Learned) -> Finding:
        """What was found. played: by world."""

    def run(self, asked: Asked) -> Path:
        """Train every policy, try all, and write a page for each world and one over all. only: patterns of the names."""
        if asked.settings:
            raise InputError(f"study {self.name} trains no world models, of which --set gives settings; leave --set out")
        artifact.check_output(asked.out / "report", self.command)
        seeds = self.usual_seeds if asked.seeds is None else asked.seeds
        pupils = self.pupils(asked, seeds)
        make_datasets([f"{world}-{asked.size}" for world in pupils], asked.datasets, asked.workers)
        everyone = [pupil for some in pupils.values() for pupil in some]
        kind = "held-out" if everyone[0].held_out else "test"
        print(f"{self.name}: {len(everyone)} policies to train without pictures and to try on {kind} episodes;")
        print(f"  the report goes to {asked.out / 'report'}", flush=True)
        places = teach(everyone, asked.workers)
        played = {world: gather_trials([p for one in some for p in places[one.folder]]) for world, some in pupils.items()}
        pages = {world: write_control(one, asked.out / f"report-{world}", self.command) for world, one in played.items()}
        found = self.summary(played, {one.folder.name: read_policy(one.folder).scores for one in everyone})
        page = overview(found, self.question, self.claim, pages, asked.out / "report", self.command)
        write_claims(page.parent, self.name, asked.size, asked.updates, asked.command(self.name, seeds), found.claims)
        return page

    def pupils(self, asked: Asked, seeds: int) -> dict[str, list[Pupil]]:
        """Those that are asked for, by world."""
        cells = self.cells(asked)
        found: dict[str, list[Pupil]] = {}
        for name in fitting(list(cells), asked.only):
            one = cells[name]
            for seed in range(seeds):
                folder = asked.out / "policies" / f"{name}-{asked.size}-seed{seed}"
                made = replace(one, settings=replace(one.settings, seed=seed), folder=folder)
                found.setdefault(one.data.name.rpartition("-")[0], []).append(made)  # a dataset is called WORLD-SIZE
        if not found:
            raise InputError(f"study {self.name} has nothing to train at size {asked.size}; choose another --size")
        return found


def folders_of(player: Player) -> list[str]:
    """The names of a policy's folders, one for each training."""
    return [trials[0].driver.name for trials in player.trainings]


def held_out_loss(player: Player, learned: Learned) -> float:
    """On windows of held-out episodes, the mean of its trainings; not-a-number if there are none."""
    scores = [learned[folder] for folder in folders_of(player)]
    losses = [each.validation_loss for each in scores if each and each.validation_loss is not None]
    return float(np.mean(losses)) if losses else float("nan")
