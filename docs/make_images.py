"""The pictures in the README, made by the project: `python docs/make_images.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sgjepa.data import episode, preview
from sgjepa.envs import ENVS

OUT = Path(__file__).parent / "images"
SHOWN = {"square": -2.0, "right_triangle": 1.0, "pentagon": 4.0, "house": 10.0}


def main() -> None:
    """One episode of each planar world, each under another gravity."""
    frames, labels = [], []
    for world, gravity in SHOWN.items():
        frames.append(episode.simulate(ENVS[world](), seed=7, law={"gravity": gravity}).frames)
        labels.append(f"{world.replace('_', ' ')}\ng = {gravity:g} m/s^2")
    OUT.mkdir(exist_ok=True)
    path = OUT / "worlds.png"
    preview.contact_sheet(np.stack(frames), labels, "").save(path, optimize=True)
    print(path)


if __name__ == "__main__":
    main()
