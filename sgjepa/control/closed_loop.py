"""The closed loop: a policy drives the episodes of a dataset's split in the simulator, and what comes of each is a row.

An episode is the dataset's: its seed, its law; the plan is the one under which the demonstrator succeeds, so that the
demonstrator is the ceiling. Its chance comes from the sampling seed and its number. So nothing depends on which other
episodes run beside it, nor on how many processes there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sgjepa.control.fleet import Fleet, Outcome, Start
from sgjepa.control.policy import Policy
from sgjepa.control.tasks import task_of
from sgjepa.core.errors import InputError
from sgjepa.core.tables import Table, join
from sgjepa.data.config import DatasetConfig
from sgjepa.data.seeds import chance_seed, episode_law, episode_seed
from sgjepa.envs import find
from sgjepa.envs.world import World

WAVE = 64  # episodes at a time: at 256 px their frames take 13 MB


@dataclass(frozen=True)
class Driven:
    """What came of some episodes. rows: one per episode. controls: one per episode and step, until it was decided."""

    rows: Table
    controls: Table


def starts(settings: DatasetConfig, split: str, numbers: Sequence[int]) -> list[Start]:
    """How the numbered episodes begin, with all laws that hold."""
    nominal, drawn = find(settings.world).world.nominal_law, settings.part(split).laws
    return [
        Start(n, episode_seed(settings.seed, split, n), {**nominal, **episode_law(drawn, settings.seed, split, n)})
        for n in numbers
    ]


def drive(
    policy: Policy, fleet: Fleet, settings: DatasetConfig, split: str, numbers: Sequence[int], sampling: int
) -> Driven:
    """Let the policy drive these episodes, all at once."""
    task_of(settings.world)
    world = find(settings.world).world
    begun = starts(settings, split, numbers)
    laws = np.array([list(start.law.values()) for start in begun], np.float32).reshape(len(begun), -1)  # (N, L)
    limit = np.broadcast_to(np.asarray(world.control_limit, np.float32), len(world.control))
    policy.reset(laws, [chance_seed(sampling, split, number) for number in numbers])
    seen, given = fleet.begin(begun), []
    for _ in range(world.frames - 1):
        wanted = np.asarray(policy.act(seen, laws), np.float32)  # (N, A)
        if wanted.shape != (len(begun), len(limit)) or not np.isfinite(wanted).all():
            raise InputError(f"the policy's controls for {world.name} are not {len(begun)} x {len(limit)} finite numbers")
        given.append(np.clip(wanted, -limit, limit))
        seen, over = fleet.step(given[-1])
        if over.all():
            break
    outcomes = fleet.outcomes()
    return Driven(_rows(world, begun, outcomes), _controls(world, begun, outcomes, np.stack(given, axis=1)))


def drive_in_waves(
    policy: Policy,
    settings: DatasetConfig,
    split: str,
    numbers: Sequence[int],
    sampling: int,
    processes: int = 1,
    wave: int = WAVE,
) -> Driven:
    """Any number of episodes, so many at a time."""
    with Fleet(settings, policy.sees, processes) as fleet:
        parts = [numbers[first : first + wave] for first in range(0, len(numbers), wave)]
        return together([drive(policy, fleet, settings, split, part, sampling) for part in parts])


def together(parts: Sequence[Driven]) -> Driven:
    """One after the other."""
    return Driven(join([part.rows for part in parts]), join([part.controls for part in parts]))


def _rows(world: World, begun: Sequence[Start], outcomes: Sequence[Outcome]) -> Table:
    """episode, law.NAME, the measures, the labels (all but the plan, which is the same for all), and the steps taken."""
    table: Table = {"episode": np.array([start.number for start in begun], np.int32)}
    table |= {f"law.{name}": np.array([start.law[name] for start in begun]) for name in begun[0].law}
    table |= {one.name: np.array([outcome.measures[one.name] for outcome in outcomes]) for one in world.measures}
    for name in world.labels:
        if name != "plan":
            table[name] = np.array([outcome.labels[name] for outcome in outcomes], object)
    return table | {"steps": np.array([outcome.steps for outcome in outcomes], np.int32)}


def _controls(world: World, begun: Sequence[Start], outcomes: Sequence[Outcome], given: np.ndarray) -> Table:
    """given: (N, T, A), longer than the episodes that were decided before the last one."""
    steps = [outcome.steps for outcome in outcomes]
    table: Table = {
        "episode": np.repeat(np.array([start.number for start in begun], np.int32), steps),
        "step": np.concatenate([np.arange(count, dtype=np.int32) for count in steps]),
    }
    taken = np.concatenate([row[:count] for row, count in zip(given, steps, strict=True)])
    return table | {f"control.{one.name}": taken[:, i] for i, one in enumerate(world.control)}
