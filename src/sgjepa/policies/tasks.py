"""Two angles as a vector: (phi, theta) -> sin(theta) (cos phi, sin phi), where a face leans by theta towards phi.

An upright face has no phi, and around it phi jumps: a small lean to the left and one to the right are half a turn apart. The
vector does not jump, so it is what is learned and looked at; executed are the angles. Both arm worlds with a blade name
their angles so (`TILT`), and neither leans beyond a right angle, up to which the way back is unique.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.data.store import Split
from sgjepa.envs import ENVS, get_env
from sgjepa.envs.spec import EnvSpec

PHI, THETA = "phi", "theta"


def to_vector(values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Values (..., C) with the angles among them, if there are any, replaced by the vector."""
    if (places := _places(names)) is None:
        return values
    lean = np.sin(values[..., places[1]])
    phi = values[..., places[0]]
    out = values.copy()
    out[..., places[0]], out[..., places[1]] = lean * np.cos(phi), lean * np.sin(phi)
    return out


def to_angles(values: np.ndarray, names: Sequence[str], steepest: float) -> np.ndarray:
    """The way back, (..., C); theta up to `steepest`, at most a right angle."""
    if (places := _places(names)) is None:
        return values
    x, y = values[..., places[0]], values[..., places[1]]
    lean = np.hypot(x, y)
    out = values.copy()
    out[..., places[0]] = np.where(lean > 1e-6, np.arctan2(y, x), 0.0)
    out[..., places[1]] = np.arcsin(np.minimum(lean, np.sin(min(steepest, np.pi / 2))))
    return out


def _places(names: Sequence[str]) -> tuple[int, int] | None:
    names = list(names)
    return (names.index(PHI), names.index(THETA)) if PHI in names and THETA in names else None


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
    return [name for name, env in ENVS.items() if env.env_spec.has_task]


def task_of(world: str) -> Task:
    """The task of a world; an InputError if it has none."""
    if not get_env(world).env_spec.has_task:
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


def learned(spec: EnvSpec, control: np.ndarray) -> np.ndarray:
    """Controls (..., A) in the form in which they are learned."""
    return to_vector(control, [q.name for q in spec.control])


def executable(spec: EnvSpec, values: np.ndarray) -> np.ndarray:
    """What was learned (..., A) as controls that the world takes: within its limits, float32."""
    names = [q.name for q in spec.control]
    limit = np.broadcast_to(np.asarray(spec.control_limit, np.float32), len(names))
    steepest = float(limit[names.index(THETA)]) if THETA in names else 0.0
    return np.clip(to_angles(values, names, steepest), -limit, limit).astype(np.float32)
