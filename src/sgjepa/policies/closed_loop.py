"""The closed loop: a policy controls the episodes of a dataset's split in the simulator; each outcome is a row.

An episode has the dataset's seed and law, and the plan with which the scripted expert succeeds, so that the expert is the
upper bound. Its random numbers come from the sampling seed and its number. So results do not depend on the batch or on the
number of processes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.core.tables import Table, join
from sgjepa.data.config import policy_seed
from sgjepa.envs.spec import EnvSpec
from sgjepa.policies.base import Observation, Policy
from sgjepa.policies.files import SECONDS
from sgjepa.policies.goal_tasks import Start, to_columns
from sgjepa.policies.vector_env import Fleet, Outcome

WAVE = 64  # episodes at a time: at 256 px their frames take 13 MB


@dataclass(frozen=True)
class Driven:
    """Outcomes of some episodes. rows: one per episode. controls: one row per episode and step, until it was decided."""

    rows: Table
    controls: Table


@dataclass(frozen=True)
class Moment:
    """All episodes at one frame, with the last observation of each episode that is over."""

    observation: Observation
    over: np.ndarray  # (N,) bool


def drive(
    policy: Policy, fleet: Fleet, spec: EnvSpec, split: str, begun: Sequence[Start], sampling: int, steps: int | None = None
) -> Driven:
    """Run the policy on a batch of episodes with these starts. steps: maximum number of steps; None: to the last frame."""
    moments = drive_by_frame(policy, fleet, spec, split, begun, sampling, steps)
    while True:
        try:
            next(moments)
        except StopIteration as end:
            driven: Driven = end.value
            return driven


def drive_by_frame(
    policy: Policy, fleet: Fleet, spec: EnvSpec, split: str, begun: Sequence[Start], sampling: int, steps: int | None = None
) -> Generator[Moment, None, Driven]:
    """Run the policy like `drive`, but yield every frame; returns the outcomes."""
    laws = np.array([list(start.law.values()) for start in begun], np.float32).reshape(len(begun), -1)  # (N, L)
    limit = np.broadcast_to(np.asarray(spec.control_limit, np.float32), len(spec.control))
    policy.reset(laws, [policy_seed(sampling, split, start.number) for start in begun])
    if hasattr(policy, "aim"):
        policy.aim(begun)
    observation, controls, seconds = fleet.begin(begun), [], []
    yield Moment(observation, np.zeros(len(begun), bool))
    for _ in range(spec.frames - 1 if steps is None else steps):
        wanted = np.asarray(policy.act(observation, laws), np.float32)  # (N, A)
        if wanted.shape != (len(begun), len(limit)) or not np.isfinite(wanted).all():
            raise InputError(f"the policy's controls for {spec.name} are not {len(begun)} x {len(limit)} finite numbers")
        controls.append(np.clip(wanted, -limit, limit))
        observation, over = fleet.step(controls[-1])
        if hasattr(policy, "seconds"):
            seconds.append(policy.seconds)
        if hasattr(policy, "rest"):
            policy.rest(over)
        yield Moment(observation, over)
        if over.all():
            break
    outcomes = fleet.outcomes()
    table = _controls(spec, begun, outcomes, np.stack(controls, axis=1))
    if seconds:
        table |= {SECONDS: _until_decided(np.stack(seconds, axis=1), outcomes)}
    return Driven(_rows(spec, begun, outcomes), table)


def together(parts: Sequence[Driven]) -> Driven:
    """Concatenate outcomes."""
    return Driven(join([part.rows for part in parts]), join([part.controls for part in parts]))


def _rows(spec: EnvSpec, begun: Sequence[Start], outcomes: Sequence[Outcome]) -> Table:
    """Rows of episodes: number, law.NAME, measures, labels except the plan (equal for all), and steps."""
    table: Table = {"episode": np.array([start.number for start in begun], np.int32)}
    table |= {f"law.{name}": np.array([start.law[name] for start in begun]) for name in begun[0].law}
    table |= {measure.name: np.array([outcome.measures[measure.name] for outcome in outcomes]) for measure in spec.measures}
    for name in spec.labels:
        if name != "plan":
            table[name] = np.array([outcome.labels[name] for outcome in outcomes], object)
    table |= {"steps": np.array([outcome.steps for outcome in outcomes], np.int32)}
    return table | to_columns(begun)


def _controls(spec: EnvSpec, begun: Sequence[Start], outcomes: Sequence[Outcome], controls: np.ndarray) -> Table:
    """Rows of executed controls, from controls (N, T, A) that go on after an episode was decided."""
    steps = [outcome.steps for outcome in outcomes]
    table: Table = {
        "episode": np.repeat(np.array([start.number for start in begun], np.int32), steps),
        "step": np.concatenate([np.arange(count, dtype=np.int32) for count in steps]),
    }
    taken = _until_decided(controls, outcomes)
    return table | {f"control.{quantity.name}": taken[:, i] for i, quantity in enumerate(spec.control)}


def _until_decided(values: np.ndarray, outcomes: Sequence[Outcome]) -> np.ndarray:
    """Values (N, T, ...) as one row per episode and executed step."""
    return np.concatenate([row[: outcome.steps] for row, outcome in zip(values, outcomes, strict=True)])
