"""Studies: one file per question of the paper. The file's name is the command: `sgjepa study factorial`."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from sgjepa.core.errors import unknown
from sgjepa.experiments import (
    conditioning,
    control,
    control_pose,
    control_sight,
    counterfactual,
    coverage,
    crossover,
    discount,
    factorial,
    history,
    history_depth,
    history_rollout,
    learning_rate,
    linear_surrogate,
    local_gap,
    optimiser,
    planning,
    post_training,
    predictors,
    shapes,
    sigreg,
    tuning,
    tuning_policy,
)
from sgjepa.experiments.asked import Asked


class Answers(Protocol):
    """What a study is for the command line."""

    @property
    def name(self) -> str: ...

    @property
    def question(self) -> str: ...

    def run(self, asked: Asked, /) -> Path:
        """Answer the question; returns the page."""


_ALL: tuple[Answers, ...] = (
    factorial.STUDY,
    predictors.STUDY,
    counterfactual.STUDY,
    crossover.STUDY,
    local_gap.STUDY,
    history.STUDY,
    post_training.STUDY,
    shapes.STUDY,
    conditioning.STUDY,
    sigreg.STUDY,
    optimiser.STUDY,
    learning_rate.STUDY,
    discount.STUDY,
    history_depth.STUDY,
    history_rollout.STUDY,
    coverage.STUDY,
    linear_surrogate.STUDY,
    control.STUDY,
    control_pose.STUDY,
    control_sight.STUDY,
    planning.STUDY,
    tuning.STUDY,
    tuning.REACHER,
    tuning_policy.STUDY,
)
STUDIES: dict[str, Answers] = {study.name: study for study in _ALL}
EVERYTHING = "all"  # instead of a study's name
# in the order of value, with those of its cells that `all` asks for; without tunings, which chose what the recipes are
ORDER: dict[str, tuple[str, ...]] = {
    "factorial": (),
    "predictors": ("approach_ball_*",),  # the world that the mini size can decide
    "counterfactual": (),
    "crossover": (),
    "local_gap": (),
    "history": (),
    "conditioning": (),
    "sigreg": (),
    "post_training": (),
    "shapes": (),
    "optimiser": (),
    "learning_rate": (),
    "discount": (),
    "history_depth": (),
    "history_rollout": (),
    "coverage": (),
    "linear_surrogate": (),
    "control": (),
    "planning": (),
    "control_pose": (),
    "control_sight": (),
}


def find(name: str) -> Answers:
    """The study of that name."""
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    return STUDIES[name]


def listing() -> str:
    """One line per study."""
    width = max(map(len, STUDIES))
    return "\n".join(f"{name:{width}s}  {study.question}" for name, study in STUDIES.items())
