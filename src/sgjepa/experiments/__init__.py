"""Experiments: one file per question. The file's name is the command: `sgjepa study factorial`.

A file that defines `EXPERIMENT` is found by its name; `register_experiment` adds one from outside of the package.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sgjepa.core.registry import Registry

if TYPE_CHECKING:
    from sgjepa.experiments.engine import Experiment


@cache
def _questions() -> dict[str, str]:
    """The question of each experiment of the package by name, read from the files without importing them."""
    questions = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "\nEXPERIMENT = " in text else ():
            words = {word.arg: word.value for word in node.keywords} if isinstance(node, ast.Call) else {}
            name, question = words.get("name"), words.get("question")
            if isinstance(name, ast.Constant) and name.value == path.stem and isinstance(question, ast.Constant):
                questions[path.stem] = str(question.value)
    return questions


ALL_EXPERIMENTS = "all"  # instead of an experiment's name
# in order of importance, with the arms that `all` runs; without those that selected the recipes' settings
ORDER: dict[str, tuple[str, ...]] = {
    "factorial": (),
    "predictors": ("approach_ball_*",),  # the world with enough room at mini size
    **dict.fromkeys(("counterfactual", "crossover", "local_gap", "history", "conditioning", "sigreg", "post_training"), ()),
    **dict.fromkeys(("shapes", "optimiser", "learning_rate", "discount", "history_depth", "history_rollout"), ()),
    **dict.fromkeys(("coverage", "linear_surrogate", "control", "planning", "proprioception", "perception_error"), ()),
}
_NAMES = [*ORDER, *(name for name in _questions() if name not in ORDER)]
EXPERIMENTS: Registry[Experiment] = Registry("study", {name: f"{__name__}.{name}:EXPERIMENT" for name in _NAMES})


def register_experiment(experiment: Experiment) -> None:
    """Register an experiment for `sgjepa study`.

    experiment: its name must be new.
    """
    EXPERIMENTS.register(experiment.name, experiment, experiment.arms.__module__)


def listing() -> str:
    """One line per experiment: its name and its question."""
    questions = {name: _questions().get(name) or EXPERIMENTS[name].question for name in EXPERIMENTS}
    width = max(map(len, questions))
    return "\n".join(f"{name:{width}s}  {question}" for name, question in questions.items())
