"""What may be read out of a dataset's frames: what a world lets a probe read, and what it shows without pictures."""

from __future__ import annotations

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.data.store import Split
from sgjepa.data.targets import Targets
from sgjepa.envs.world import World

_WINDOW = 4  # frames, in a world that says nothing


def targets_in(split: Split) -> Targets:
    """What the split's world declares to be readable; an InputError if that is nothing."""
    found = readable_in(split)
    if found is None:
        raise InputError(
            f"{split.about['task']} cannot be probed: it declares nothing that a probe could read (World.probed)"
        )
    return found


def readable_in(split: Split) -> Targets | None:
    """The same; None if the world declares nothing."""
    about = split.about
    return _readable(split.spec, tuple(name for name, _ in about["state"]), about["fps"])


def readable_of(world: World) -> Targets | None:
    """What can be read of a world's own frames."""
    return _readable(world, tuple(quantity.name for quantity in world.state), world.fps)


def _readable(world: World, state: tuple[str, ...], fps: float) -> Targets | None:
    probed = world.probed
    if probed is None:
        return None
    turning = (probed.angle, probed.rate, probed.symmetry)
    return Targets(state, probed.position, probed.velocity, *turning, frame_dt=1.0 / fps)


def usual_window(world: World, pixels: int) -> int:
    """Frames that a probe sees in a world, in pictures of that size: as in the smallest usual one that is as large."""
    if world.usual is None:
        return _WINDOW
    sizes = sorted(world.usual.sizes.values(), key=lambda size: size.pixels)
    return next((size for size in sizes if size.pixels >= pixels), sizes[-1]).window


def seen_states(split: Split) -> np.ndarray:
    """Every frame without its picture, (N, T, S) in the order of `World.seen`: what `Env.seen_state` says in the world."""
    return np.concatenate([split.state, *(split.record(name) for name in split.spec.own)], axis=-1)
