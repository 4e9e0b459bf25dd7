"""The common base of the conventional benchmarks: their packages' model files, and several actions per frame.

Only files of those packages are used; none of them is imported.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core.errors import MachineError
from sgjepa.envs.headless import mujoco
from sgjepa.envs.spec import Measure, Quantity
from sgjepa.envs.world3d import Spatial

PACKAGES = {"reacher": "dm_control", "cube": "ogbench"}  # by world
BLOCK = 5  # control steps of a benchmark in a frame


def installed(world: str) -> bool:
    """Whether the package that a world needs is installed; True for worlds that need none."""
    return world not in PACKAGES or find_spec(PACKAGES[world]) is not None


def package_folder(world: str) -> Path:
    """The folder of the package that a world's model comes from."""
    package = find_spec(PACKAGES[world])
    if package is None or package.origin is None:
        raise MachineError(f"{world} needs the model files of {PACKAGES[world]}: sgjepa doctor --fix conventional")
    return Path(package.origin).parent


def action_block(action: Sequence[Quantity]) -> tuple[Quantity, ...]:
    """The control of a frame, BLOCK actions in a row: shoulder_1, wrist_1, shoulder_2, ..."""
    return tuple(Quantity(f"{q.name}_{step}", q.unit) for step in range(1, BLOCK + 1) for q in action)


def goal_record(names: Sequence[str]) -> tuple[Quantity, ...]:
    """The goal as a record of every frame, for policies that observe states. names: of `EnvSpec.goal`, in m"""
    return tuple(Quantity(f"goal_{name}", "m") for name in names)


def reaching_measures(about: str) -> tuple[Measure, ...]:
    """The measures of a world with a goal. about: the condition under which it is reached"""
    return (
        Measure("success", about),
        Measure("missed_by", "how much nearer to the goal it should have come", unit="m", better=-1),
    )


@dataclass
class _ExpertBlock:
    """The expert's control at a frame, already simulated: the state after it is in `BenchmarkEnv._ahead`."""

    frame: int
    control: np.ndarray  # (5 A,) float32
    distance: float  # m: the smallest distance from the goal after one of its actions


class BenchmarkEnv(Spatial):
    """A world with a goal whose frames are five control steps of a benchmark. It builds a model, then calls `_use_model`."""

    _ahead: Any  # mujoco.MjData
    _prepared: _ExpertBlock | None = None
    _frame_distance: float = np.inf  # m: the smallest distance from the goal after one of the actions that led to this frame
    _nearest: float = np.inf  # m: the smallest so far

    @abstractmethod
    def _control_step(self, data: Any, action: np.ndarray) -> None:
        """One control step of the benchmark, (A,) float64; derived quantities follow the state."""

    @abstractmethod
    def _expert_action(self, data: Any, step: int) -> np.ndarray:
        """The expert's action, (A,), at a control step of the episode, from 0; a function of `data` and the step."""

    @abstractmethod
    def _goal_distance(self, data: Any) -> float:
        """Metres from the goal."""

    @abstractmethod
    def _success_distance(self) -> float:
        """Metres from the goal that count as reached."""

    def _use_model(self, model: Any) -> None:
        self.model, self.data, self._ahead = model, mujoco.MjData(model), mujoco.MjData(model)

    def _forget_episode(self) -> None:
        """Clear the events of the episode so far: for a launch, and for a state set by the caller."""
        self._prepared, self._frame_distance, self._nearest = None, np.inf, np.inf

    def _advance(self, control: np.ndarray) -> None:
        prepared = self._prepared
        if prepared is not None and prepared.frame == self.t and np.array_equal(prepared.control, control):
            self.data, self._ahead = self._ahead, self.data  # simulated already, on a copy of the present state
            self._frame_distance = prepared.distance
        else:
            self._frame_distance = self._run_actions(self.data, control.reshape(BLOCK, -1))
        self._prepared = None
        self._nearest = min(self._nearest, self._frame_distance)

    def _run_actions(self, data: Any, actions: np.ndarray) -> float:
        """Apply five actions, (5, A); returns the smallest distance from the goal after one of them."""
        near = np.inf
        for action in actions:
            self._control_step(data, action)
            near = min(near, self._goal_distance(data))
        return near

    def expert(self) -> np.ndarray:
        """The expert's control; it acts at every control step, so it simulates ahead on a copy, which `_advance` reuses."""
        if self._prepared is None or self._prepared.frame != self.t:
            mujoco.mj_copyData(self._ahead, self.model, self.data)
            actions, near, limit = [], np.inf, self._limit[: len(self._limit) // BLOCK]
            for step in range(BLOCK * self.t, BLOCK * (self.t + 1)):
                action = np.clip(self._expert_action(self._ahead, step), -limit, limit).astype(np.float32)
                actions.append(action)
                near = min(near, self._run_actions(self._ahead, action[None].astype(np.float64)))
            self._prepared = _ExpertBlock(self.t, np.concatenate(actions), near)
        return self._prepared.control.copy()

    def success(self) -> bool:
        return min(self._frame_distance, self._goal_distance(self.data)) <= self._success_distance()

    def measures(self) -> dict[str, float]:
        missed = max(min(self._nearest, self._goal_distance(self.data)) - self._success_distance(), 0.0)
        return {"success": float(missed == 0), "missed_by": missed}

    def decided(self) -> bool:
        return bool(self.measures()["success"])

    def records(self) -> dict[str, np.ndarray]:
        return {"goal": np.array(list(self.goal.values()))}

    def labels(self) -> dict[str, str]:
        return {"plan": self.plan, "outcome": "reached" if self.decided() else "missed"}
