"""Latents of a finished run: every frame is encoded once, kept beside the run, and read by probe and evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.core.run_folder import LATENTS
from sgjepa.data.store import Dataset, Split
from sgjepa.data.windows import memory_map
from sgjepa.models.dino import DinoWM
from sgjepa.models.jepa import WorldModel
from sgjepa.training.latents import cached_latents, fill, weights_digest

_BLOCK = 8  # episodes encoded at a time


def encoded(folder: Path, model: WorldModel | DinoWM, dataset: Dataset, split: str) -> np.ndarray:
    """(N, T, ...) latents of all frames of a split, as a memory map.

    folder: the run's. A frozen encoder's latents lie beside the dataset, for every run that uses them.
    """
    part = dataset.train if split == "train" else dataset.test
    check_fits(model, part)
    if isinstance(model, DinoWM):
        return cached_latents(model, part)
    place = folder / LATENTS
    place.mkdir(exist_ok=True)
    shape = (part.episodes, part.frames, model.config.latent)
    name = f"{dataset.path.name}-{split}-{part.digest[:12]}-{weights_digest(model)[:12]}.npy"
    label = f"encode {folder.name}, {split}"
    return memory_map(place / name, shape, np.float32, lambda latents: fill(model, part, latents, label, _BLOCK, chunk=None))


def check_fits(model: WorldModel | DinoWM, split: Split) -> None:
    """One line if a dataset cannot be what the model was trained for."""
    expected, found = (model.config.controls, model.config.laws), (split.control.shape[2], len(split.laws))
    if expected != found:
        raise InputError(
            f"{split.folder.parent} is a dataset of another world: {found[0]} controls and {found[1]} laws, "
            f"the model takes {expected[0]} and {expected[1]}"
        )
    size = model.config.encoder.image_size if isinstance(model, WorldModel) else split.picture[0]
    if split.picture[0] != size:
        raise InputError(f"{split.folder.parent} has pictures of {split.picture[0]} pixels, the model takes {size}")
