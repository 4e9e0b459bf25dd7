"""Where the benchmarks' own model files lie. Only the files are used: nothing of those packages is imported."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core.errors import MachineError
from sgjepa.envs.base import Env
from sgjepa.envs.headless import mujoco
from sgjepa.envs.spec import Measure, Quantity

PACKAGES = {"reacher": "dm_control", "cube": "ogbench"}  # by world


def installed(world: str) -> bool:
    """Whether what a world is made from is there; worlds that need nothing more say yes."""
    return world not in PACKAGES or find_spec(PACKAGES[world]) is not None


def folder(world: str) -> Path:
    """The folder of the package that a world's model comes from."""
    found = find_spec(PACKAGES[world])
    if found is None or found.origin is None:
        raise MachineError(f"{world} needs {PACKAGES[world]}: pip install 'sgjepa[conventional]'")
    return Path(found.origin).parent


BLOCK = 5


def in_blocks(action: Sequence[Quantity]) -> tuple[Quantity, ...]:
    """The control that holds so many actions: shoulder_1, wrist_1, shoulder_2, ..."""
    return tuple(Quantity(f"{q.name}_{step}", q.unit) for step in range(1, BLOCK + 1) for q in action)


def goal_record(names: Sequence[str]) -> tuple[Quantity, ...]:
    """The goal as a record of every frame, for policies that see states. names: of `EnvSpec.goal`, in m"""
    return tuple(Quantity(f"goal_{name}", "m") for name in names)


def reaching(about: str) -> tuple[Measure, ...]:
    """What is counted of an episode that has a goal. about: when it is reached"""
    return (
        Measure("success", about),
        Measure("missed_by", "how much nearer to the goal it should have come", unit="m", better=-1),
    )


@dataclass
class _Foreseen:
    """The demonstrator's block at a frame; where it leads to is in `Blocks._ahead`."""

    frame: int
    control: np.ndarray  # (5 A,) float32
    distance: float  # m: how near to the goal its actions come


class Blocks(Env):
    """A world with a goal whose frames are five control steps of a benchmark. It builds a model, then calls `_adopt`."""

    data: Any  # mujoco.MjData
    _ahead: Any  # mujoco.MjData
    _foreseen: _Foreseen | None = None
    _on_the_way: float = np.inf  # m: how near to the goal the actions came that led to this frame
    _nearest: float = np.inf  # m, of the frames so far

    @abstractmethod
    def _act(self, data: Any, action: np.ndarray) -> None:
        """One control step of the benchmark, (A,) float64; afterwards what derives from the state is brought forward."""

    @abstractmethod
    def _demonstrate(self, data: Any, step: int) -> np.ndarray:
        """The demonstrator's action, (A,), at a control step of the episode, from 0. It depends on nothing else."""

    @abstractmethod
    def _distance(self, data: Any) -> float:
        """Metres from the goal."""

    @abstractmethod
    def _radius(self) -> float:
        """Metres from the goal that count as reached."""

    def _adopt(self, model: Any) -> None:
        self.model, self.data, self._ahead = model, mujoco.MjData(model), mujoco.MjData(model)

    def _begin_anew(self) -> None:
        """Forget what was foreseen and how near the goal was: for a launch, and for a state that is put."""
        self._foreseen, self._on_the_way, self._nearest = None, np.inf, np.inf

    def _advance(self, control: np.ndarray) -> None:
        seen = self._foreseen
        if seen is not None and seen.frame == self.t and np.array_equal(seen.control, control):
            self.data, self._ahead = self._ahead, self.data  # simulated already, on a copy that began here
            self._on_the_way = seen.distance
        else:
            self._on_the_way = self._carry_out(self.data, control.reshape(BLOCK, -1))
        self._foreseen = None
        self._nearest = min(self._nearest, self._on_the_way)

    def _carry_out(self, data: Any, actions: np.ndarray) -> float:
        """Five actions, (5, A); how near to the goal they came."""
        near = np.inf
        for action in actions:
            self._act(data, action)
            near = min(near, self._distance(data))
        return near

    def expert(self) -> np.ndarray:
        """The demonstrator sees every control step, so it goes ahead on a copy; `_advance` does not simulate that again."""
        if self._foreseen is None or self._foreseen.frame != self.t:
            mujoco.mj_copyData(self._ahead, self.model, self.data)
            actions, near, limit = [], np.inf, self._limit[: len(self._limit) // BLOCK]
            for step in range(BLOCK * self.t, BLOCK * (self.t + 1)):
                action = np.clip(self._demonstrate(self._ahead, step), -limit, limit).astype(np.float32)
                actions.append(action)
                near = min(near, self._carry_out(self._ahead, action[None].astype(np.float64)))
            self._foreseen = _Foreseen(self.t, np.concatenate(actions), near)
        return self._foreseen.control.copy()

    def success(self) -> bool:
        return min(self._on_the_way, self._distance(self.data)) <= self._radius()

    def measures(self) -> dict[str, float]:
        missed = max(min(self._nearest, self._distance(self.data)) - self._radius(), 0.0)
        return {"success": float(missed == 0), "missed_by": missed}

    def decided(self) -> bool:
        return bool(self.measures()["success"])

    def records(self) -> dict[str, np.ndarray]:
        return {"goal": np.array(list(self.goal.values()))}

    def labels(self) -> dict[str, str]:
        return {"plan": self.plan, "outcome": "reached" if self.decided() else "missed"}
