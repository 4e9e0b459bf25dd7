"""The quantities that a probe reads from pictures of a world. NumPy only.

A world declares it (`EnvSpec.probed`): positions, as many velocities, an angle with its rate. An angle enters as sine and
cosine of `symmetry * angle`, so poses that look the same have the same target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.data.store import Split
from sgjepa.envs.spec import EnvSpec


@dataclass(frozen=True)
class Targets:
    """The entries of a recorded state that are probed, in the order of a target y: position, velocity, [sin, cos, rate].

    state: names of the recorded state. angle, rate: empty if nothing turns. symmetry: a turn by 1/symmetry looks the
    same. frame_dt: seconds between frames.
    """

    state: tuple[str, ...]
    position: tuple[str, ...]
    velocity: tuple[str, ...]
    angle_name: str
    rate: str
    symmetry: int
    frame_dt: float

    @property
    def turns(self) -> bool:
        """Whether there is an angle to read."""
        return bool(self.angle_name)

    @property
    def names(self) -> tuple[str, ...]:
        turning = (
            (f"sin {self.symmetry}{self.angle_name}", f"cos {self.symmetry}{self.angle_name}", self.rate)
            if self.turns
            else ()
        )
        return (*self.position, *self.velocity, *turning)

    def of(self, state: np.ndarray) -> np.ndarray:
        """Recorded states (..., S) -> targets (..., Y)."""
        column = {name: state[..., i] for i, name in enumerate(self.state)}
        parts = [column[name] for name in (*self.position, *self.velocity)]
        if self.turns:
            phase = self.symmetry * column[self.angle_name]
            parts += [np.sin(phase), np.cos(phase), column[self.rate]]
        return np.stack(parts, axis=-1)

    def to_state(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """Targets (..., Y) -> state by name; of several angles that look the same, the one nearest to zero."""
        names = (*self.position, *self.velocity)
        state = {name: y[..., i] for i, name in enumerate(names)}
        if self.turns:
            state |= {self.angle_name: self.angle(y), self.rate: y[..., -1]}
        return state

    def angle(self, y: np.ndarray) -> np.ndarray:
        """The angle in radians, within half a symmetry step of zero."""
        return np.arctan2(y[..., -3], y[..., -2]) / self.symmetry


_WINDOW = 4  # frames, in a world without a default


def require_targets(split: Split) -> Targets:
    """The targets that an open split records; an InputError if its world declares none."""
    targets = split_targets(split)
    if targets is None:
        raise InputError(
            f"{split.about['task']} cannot be probed: it declares nothing that a probe could read (EnvSpec.probed)"
        )
    return targets


def split_targets(split: Split) -> Targets | None:
    """The targets that an open split records; None if its world declares none."""
    about = split.about
    return _targets(split.env_spec, tuple(name for name, _ in about["state"]), about["fps"])


def spec_targets(spec: EnvSpec) -> Targets | None:
    """The targets in a world's own frames; None if it declares none."""
    return _targets(spec, tuple(quantity.name for quantity in spec.state), spec.fps)


def _targets(spec: EnvSpec, state: tuple[str, ...], fps: float) -> Targets | None:
    probed = spec.probed
    if probed is None:
        return None
    turning = (probed.angle, probed.rate, probed.symmetry)
    return Targets(state, probed.position, probed.velocity, *turning, frame_dt=1.0 / fps)


def default_probe_window(spec: EnvSpec, pixels: int) -> int:
    """The default number of frames of a probe: that of the smallest default dataset whose pictures are at least as large."""
    if spec.defaults is None:
        return _WINDOW
    sizes = sorted(spec.defaults.sizes.values(), key=lambda size: size.pixels)
    return next((size for size in sizes if size.pixels >= pixels), sizes[-1]).probe_window


def state_observations(split: Split) -> np.ndarray:
    """`Env.state_observation` of every recorded frame, (N, T, S) in the order of `EnvSpec.state_observation`."""
    return np.concatenate([split.state, *(split.record(name) for name in split.env_spec.observed_records)], axis=-1)
