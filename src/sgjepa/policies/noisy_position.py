"""Positions with an error instead of features: how well would an encoder have to see?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.data.probe_targets import state_observations
from sgjepa.data.store import Split
from sgjepa.envs.spec import EnvSpec
from sgjepa.policies.base import Observation, Part
from sgjepa.policies.files import STATE, Source
from sgjepa.policies.tasks import to_vector


class NoisyPositions:
    """The position of what moves, with an error, and the robot's own pose without one; no speeds.

    blur: the standard deviation of the error in each direction, in m. An error belongs to its state as an encoder's belongs
    to its picture: the same state always has the same error, in a dataset and in the world. From frame to frame of a
    ball that moves errors are independent, which an encoder's need not be. Another blur scales the same errors.
    """

    observes: Sequence[Part] = ("state",)

    def __init__(self, spec: EnvSpec, blur: float):
        if spec.probed is None or not spec.observed_records:
            raise InputError(f"{spec.name} has no robot, or nothing whose place could be seen; leave --blur out")
        if not 0 <= blur <= 1e3:
            raise InputError(f"the error of a place is 0 m or more, got {blur}; choose another --blur")
        state, own = (
            [quantity.name for quantity in some] for some in (spec.state, spec.state_observation[len(spec.state) :])
        )
        self._places, self._first = [state.index(name) for name in spec.probed.position], len(state)
        self._names, self._blur = [*spec.probed.position, *own], blur
        self.width, self.pixels, self.encoder = len(self._names), None, None

    def source(self, folder: Path) -> Source:
        return Source(STATE, blur=self._blur)

    def of_split(self, split: Split, episodes: np.ndarray) -> np.ndarray:
        return self._features(state_observations(split)[episodes])

    def of_observation(self, observation: Observation) -> np.ndarray:
        return self._features(observation["state"])

    def _features(self, states: np.ndarray) -> np.ndarray:
        states = np.ascontiguousarray(states, np.float32)  # (..., S)
        places = states[..., self._places] + self._blur * errors_of(states, len(self._places))
        return to_vector(np.concatenate([places, states[..., self._first :]], axis=-1, dtype=np.float32), self._names)


def errors_of(states: np.ndarray, count: int) -> np.ndarray:
    """Standard normal numbers that belong to states, (..., S) float32 -> (..., count): drawn from their very bits."""
    rows = states.reshape(-1, states.shape[-1]).view(np.uint32)
    drawn = [np.random.default_rng(row).standard_normal(count) for row in rows]
    return np.reshape(drawn, (*states.shape[:-1], count))
