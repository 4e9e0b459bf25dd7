"""Starts of episodes, and planning cases: a start and a goal from a recorded episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.core.tables import Table
from sgjepa.data.config import DatasetConfig, episode_law, episode_seed, make_env
from sgjepa.data.episode import reset_options
from sgjepa.data.store import Dataset, unseen
from sgjepa.envs.spec import EnvSpec


@dataclass(frozen=True)
class Start:
    """The start of an episode: at its seed's initial state or in a given state, with or without a goal."""

    number: int  # in its split
    seed: int  # for reset
    law: dict[str, float]
    frame: int = 0  # of the dataset's episode
    state: dict[str, float] | None = None  # at that frame
    reached: dict[str, float] | None = None  # a state in which the goal is reached
    plan: str = ""  # the expert's plan in the dataset's episode, for a planning case

    def options(self, spec: EnvSpec) -> dict[str, Any]:
        """The options of `Env.reset`."""
        options = reset_options(self.law, spec.success_plan)
        if self.state is not None:
            options["state"] = self.state
        if self.reached is not None:
            options["goal"] = {name: self.reached[name] for name in spec.goal}
        return options


PLAN = "start_plan"  # a column: the expert's plan in the case's episode
_FRAME, _FROM, _TO = "start_frame", "start.", "goal."


@dataclass(frozen=True)
class Cases:
    """Settings of planning cases. offset: frames from the start to the goal. budget: controls to reach it.

    lead: true frames up to the start that a planner observes, as many as the paper's models.
    """

    count: int = 50
    offset: int = 5
    budget: int = 10
    lead: int = 10

    def __post_init__(self) -> None:
        for name, what, flag in (
            ("count", "cases", "episodes"),
            ("offset", "frames to a goal", "offset"),
            ("budget", "controls", "budget"),
        ):
            if getattr(self, name) < 1:
                raise InputError(f"{what} must be at least 1 for planning, got {getattr(self, name)} (--{flag})")
        check_bounds(self, count=(1, 1e8), offset=(1, 1e6), budget=(1, 1e6), lead=(1, 1e6))


def starts(settings: DatasetConfig, split: str, numbers: Sequence[int]) -> list[Start]:
    """The starts of the numbered episodes, with their complete laws."""
    nominal, drawn = settings.env_spec.nominal_law, settings.part(split).laws
    return [
        Start(n, episode_seed(settings.seed, split, n), {**nominal, **episode_law(drawn, settings.seed, split, n)})
        for n in numbers
    ]


def cases_of(dataset: Dataset, cfg: Cases, held_out: bool = False) -> list[Start]:
    """The first `cfg.count` planning cases from the test or held-out episodes, at most one per episode."""
    spec, (split, numbers) = dataset.env_spec, unseen(dataset, held_out)
    if not spec.goal:
        raise InputError(f"{spec.name} has no goal to reach (EnvSpec.goal)")
    last = split.frames - 1 - cfg.offset
    if last < cfg.lead - 1:
        raise InputError(
            f"goals {cfg.offset} frames on do not fit into episodes of {split.frames} frames; set a smaller --offset"
        )
    if cfg.budget > split.frames - 1:
        raise InputError(f"{spec.name} takes at most {split.frames - 1} controls in an episode, not {cfg.budget} (--budget)")
    names = [quantity.name for quantity in spec.state]
    made_for = split.label("plan") if spec.expert_plans else [""] * split.episodes
    env, cases = make_env(dataset.settings), []
    for launched in starts(dataset.settings, split.name, numbers):
        states = split.state[launched.number]
        for frame in np.random.default_rng([launched.seed, cfg.offset]).permutation(np.arange(cfg.lead - 1, last + 1)):
            now, later = (dict(zip(names, states[t].tolist(), strict=True)) for t in (frame, frame + cfg.offset))
            start = replace(launched, frame=int(frame), state=now, reached=later, plan=str(made_for[launched.number]))
            env.begin(start.seed, start.options(spec))
            if not env.success():
                cases.append(start)
                break
        if len(cases) == cfg.count:
            return cases
    raise InputError(f"{dataset.path} has {len(cases)} planning cases, not {cfg.count} (--episodes): make a larger dataset")


def goal_pictures(settings: DatasetConfig, begun: Sequence[Start], side: int | None = None) -> np.ndarray:
    """Pictures of the reached goals, (N, side, side, 3) uint8. side: the dataset's if None."""
    env = make_env(settings if side is None else replace(settings, image_size=side))
    pictures = []
    for start in begun:
        pictures.append(env.reset(seed=start.seed, options=replace(start, state=start.reached).options(env.env_spec))[0])
    env.close()
    return np.stack(pictures)


def to_columns(begun: Sequence[Start]) -> Table:
    """Start and goal of planning cases as columns; none for whole episodes."""
    if begun[0].state is None or begun[0].reached is None:
        return {}
    table: Table = {_FRAME: np.array([start.frame for start in begun], np.int32)}
    table |= {PLAN: np.array([start.plan for start in begun], object)} if begun[0].plan else {}
    for head, states in ((_FROM, [start.state for start in begun]), (_TO, [start.reached for start in begun])):
        table |= {f"{head}{name}": np.array([state[name] for state in states if state]) for name in begun[0].state}
    return table


def from_columns(table: Table, settings: DatasetConfig, split: str, numbers: Sequence[int]) -> list[Start]:
    """The starts of the numbered episodes, from the rows of their trial."""
    begun = starts(settings, split, numbers)
    if _FRAME not in table:
        return begun
    rows = [table["episode"].tolist().index(number) for number in numbers]

    def state(head: str, row: int) -> dict[str, float]:
        return {name.removeprefix(head): float(table[name][row]) for name in table if name.startswith(head)}

    made_for = table.get(PLAN, np.full(len(table["episode"]), "", object))
    return [
        replace(
            start,
            frame=int(table[_FRAME][row]),
            state=state(_FROM, row),
            reached=state(_TO, row),
            plan=str(made_for[row]),
        )
        for start, row in zip(begun, rows, strict=True)
    ]
