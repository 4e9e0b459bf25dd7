"""Latents of a frozen encoder, computed once for every frame and kept on disk beside the dataset."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from sgjepa import config
from sgjepa.data.store import Split
from sgjepa.data.windows import memory_map
from sgjepa.models.dino import DinoWM
from sgjepa.progress import progress

_BLOCK = 4  # episodes encoded at a time


def cached_latents(model: DinoWM, split: Split) -> np.ndarray:
    """(N, T, P, C) float16, as a memory map; made on the first call, which shows its progress."""
    name = hashlib.sha256(str(config.to_dict(model.config.encoder)).encode()).hexdigest()[:12]
    path = split.folder.with_name(f"{split.name}.latents-{name}.npy")
    shape = (split.episodes, split.frames, model.encoder.patches, model.encoder.channels)
    return memory_map(path, shape, np.float16, lambda latents: _fill(model, split, latents))


def _fill(model: DinoWM, split: Split, latents: np.ndarray) -> None:
    device = next(model.parameters()).device
    with progress(split.episodes, 0, f"{model.name}, {split.name}", " episodes") as bar:
        for start in range(0, split.episodes, _BLOCK):
            numbers = np.arange(start, min(start + _BLOCK, split.episodes))
            frames = torch.from_numpy(split.pixels(numbers)).to(device)
            latents[numbers] = model.encode(frames, chunk=64).cpu().numpy()
            bar.update(len(numbers))
