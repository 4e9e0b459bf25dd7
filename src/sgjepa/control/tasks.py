"""What is particular about the task of a world, for the policy that learns it: how long a plan is followed, what is learned.

A world that is not named here is learned from all windows of its successful episodes alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sgjepa.control.tilt import THETA, to_angles, to_vector
from sgjepa.core.errors import InputError
from sgjepa.data.store import Split
from sgjepa.envs import ENVS, find
from sgjepa.envs.world import World


@dataclass(frozen=True)
class Task:
    """execute: E, controls of a plan that are carried out before the next plan."""

    execute: int = 8
    until: tuple[str, str] | None = None  # a record and a flag in it: nothing is learned from the frames that have it
    urgent: int = 16  # half of a batch begins in so many last frames before that flag


TASKS = {
    "arm_paddle_ball": Task(execute=4),  # the authors' weights of windows are of their own episodes: all count alike
    "franka_basket": Task(until=("event", "blade_contact")),  # what the arm does after the strike does not matter
}


def _with_tasks() -> list[str]:
    return [name for name, env in ENVS.items() if env.world.succeeds]


def task_of(world: str) -> Task:
    """The task of a world; an InputError if it has none."""
    if not find(world).world.succeeds:
        raise InputError(
            f"{world} has no task, so there is nothing to succeed in: worlds with one: {', '.join(_with_tasks())}"
        )
    return TASKS.get(world, Task())


def ends(task: Task, split: Split) -> np.ndarray:
    """The first frame of each episode from which nothing is learned; the number of frames if there is none. (N,)"""
    if task.until is None:
        return np.full(split.episodes, split.frames)
    record, flag = task.until
    column = [name for name, _ in split.about["records"][record]].index(flag)
    set_ = split.record(record)[..., column] > 0
    return np.where(set_.any(axis=1), set_.argmax(axis=1), split.frames)


def learned(world: World, control: np.ndarray) -> np.ndarray:
    """Controls (..., A) in the form in which they are learned."""
    return to_vector(control, [q.name for q in world.control])


def executable(world: World, values: np.ndarray) -> np.ndarray:
    """What was learned (..., A) as controls that the world takes: within its limits, float32."""
    names = [q.name for q in world.control]
    limit = np.broadcast_to(np.asarray(world.control_limit, np.float32), len(names))
    steepest = float(limit[names.index(THETA)]) if THETA in names else 0.0
    return np.clip(to_angles(values, names, steepest), -limit, limit).astype(np.float32)
