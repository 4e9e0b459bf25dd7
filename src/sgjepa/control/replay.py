"""Episodes of a trial once more, as pictures: the recorded controls in the same world give the same motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sgjepa.control.cases import from_columns
from sgjepa.control.records import ControlRecord
from sgjepa.core.tables import Table
from sgjepa.data.config import make_env


def replay(about: ControlRecord, rows: Table, controls: Table, numbers: list[int], side: int) -> np.ndarray:
    """Frames of the numbered episodes, (R, T, side, side, 3) uint8; from the decision on, the last one stands."""
    env = make_env(replace(about.played, image_size=side))
    names = [f"control.{one.name}" for one in env.world.control]
    length = about.settings.cases.budget + 1 if about.settings.cases else env.world.frames
    films = []
    for start in from_columns(rows, about.played, about.settings.split, numbers):
        taken = np.stack([controls[name][controls["episode"] == start.number] for name in names], axis=1)
        frames = [env.reset(seed=start.seed, options=start.options(env.world))[0]]
        frames += [env.step(control)[0] for control in taken]
        films.append(np.stack(frames + frames[-1:] * (length - len(frames))))
    env.close()
    return np.stack(films)
