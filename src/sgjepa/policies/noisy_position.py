"""Noisy position observations (no velocities), to measure how accurate an encoder has to be."""

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
    """The object's position with an error, and exact proprioception; no velocities.

    blur: the standard deviation of the error along each axis, in m. As with an encoder, the error is a function of the
    state: equal states have equal errors, in a dataset and in the simulator. Errors of different frames are independent,
    which an encoder's need not be. Another blur scales the same errors.
    """

    observes: Sequence[Part] = ("state",)

    def __init__(self, spec: EnvSpec, blur: float):
        if spec.probed is None or not spec.observed_records:
            raise InputError(f"{spec.name} has no robot, or no object with a position; leave --blur out")
        if not 0 <= blur <= 1e3:
            raise InputError(f"the error of a position is 0 m or more, got {blur}; set another --blur")
        state, own = (
            [quantity.name for quantity in quantities]
            for quantities in (spec.state, spec.state_observation[len(spec.state) :])
        )
        self._columns, self._first = [state.index(name) for name in spec.probed.position], len(state)
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
        positions = states[..., self._columns] + self._blur * errors_of(states, len(self._columns))
        return to_vector(np.concatenate([positions, states[..., self._first :]], axis=-1, dtype=np.float32), self._names)


def errors_of(states: np.ndarray, count: int) -> np.ndarray:
    """Standard normal numbers (..., count) as a function of states (..., S) float32: their bits are the seeds."""
    rows = states.reshape(-1, states.shape[-1]).view(np.uint32)
    drawn = [np.random.default_rng(row).standard_normal(count) for row in rows]
    return np.reshape(drawn, (*states.shape[:-1], count))
