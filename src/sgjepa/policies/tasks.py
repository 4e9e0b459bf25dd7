"""Task settings of worlds, and tilt vectors: (phi, theta) -> sin(theta) (cos phi, sin phi), a tilt by theta towards phi.

At theta = 0 phi is not defined, and near it phi is discontinuous: small tilts to the left and to the right are half a turn
apart. The vector is continuous, so policies learn and observe it, and execute the angles. Both arm worlds with a blade use
these names of angles (`TILT`) and tilt by at most a right angle, up to which the inverse is unique.
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
    """Values (..., C) with the tilt angles, if there are any, replaced by the vector."""
    if (columns := _tilt_columns(names)) is None:
        return values
    lean = np.sin(values[..., columns[1]])
    phi = values[..., columns[0]]
    out = values.copy()
    out[..., columns[0]], out[..., columns[1]] = lean * np.cos(phi), lean * np.sin(phi)
    return out


def to_angles(values: np.ndarray, names: Sequence[str], steepest: float) -> np.ndarray:
    """Values (..., C) with the tilt vector, if there is one, replaced by angles. steepest: limit of theta, up to π/2."""
    if (columns := _tilt_columns(names)) is None:
        return values
    x, y = values[..., columns[0]], values[..., columns[1]]
    lean = np.hypot(x, y)
    out = values.copy()
    out[..., columns[0]] = np.where(lean > 1e-6, np.arctan2(y, x), 0.0)
    out[..., columns[1]] = np.arcsin(np.minimum(lean, np.sin(min(steepest, np.pi / 2))))
    return out


def _tilt_columns(names: Sequence[str]) -> tuple[int, int] | None:
    names = list(names)
    return (names.index(PHI), names.index(THETA)) if PHI in names and THETA in names else None


@dataclass(frozen=True)
class Task:
    """Settings of learning a task. execute: E, controls of a plan that are executed before the next plan."""

    execute: int = 8
    until: tuple[str, str] | None = None  # a record and its flag: frames from the flag on are not used for training
    urgent: int = 16  # half of a batch begins within this many frames before the flag


TASKS = {
    "arm_paddle_ball": Task(execute=4),  # uniform weights of windows: the authors' fit their own episodes only
    "franka_basket": Task(until=("event", "blade_contact")),  # the motion after the strike does not matter
}


def _with_tasks() -> list[str]:
    return [name for name, env in ENVS.items() if env.env_spec.has_task]


def task_of(world: str) -> Task:
    """The task of a world; an InputError if it has none."""
    if not get_env(world).env_spec.has_task:
        raise InputError(f"{world} has no task; worlds with a task: {', '.join(_with_tasks())}")
    return TASKS.get(world, Task())


def ends(task: Task, split: Split) -> np.ndarray:
    """The first frame (N,) of each episode that is not used for training; the number of frames if all are used."""
    if task.until is None:
        return np.full(split.episodes, split.frames)
    record, flag = task.until
    column = [name for name, _ in split.about["records"][record]].index(flag)
    set_ = split.record(record)[..., column] > 0
    return np.where(set_.any(axis=1), set_.argmax(axis=1), split.frames)


def learned(spec: EnvSpec, control: np.ndarray) -> np.ndarray:
    """Controls (..., A) as policies learn them, with tilt vectors."""
    return to_vector(control, [q.name for q in spec.control])


def executable(spec: EnvSpec, values: np.ndarray) -> np.ndarray:
    """Learned values (..., A) as controls of the world: with angles, within its limits, float32."""
    names = [q.name for q in spec.control]
    limit = np.broadcast_to(np.asarray(spec.control_limit, np.float32), len(names))
    steepest = float(limit[names.index(THETA)]) if THETA in names else 0.0
    return np.clip(to_angles(values, names, steepest), -limit, limit).astype(np.float32)
