"""Latents of a frozen encoder, computed once for every frame and kept on disk beside the dataset."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import torch

from sgjepa import config
from sgjepa.data.store import Split
from sgjepa.models.dino import DinoWM
from sgjepa.progress import progress

_BLOCK = 4  # episodes encoded at a time


def cached_latents(model: DinoWM, split: Split) -> np.ndarray:
    """(N, T, P, C) float16, as a memory map; made on the first call, which shows its progress."""
    name = hashlib.sha256(str(config.to_dict(model.config.encoder)).encode()).hexdigest()[:12]
    path = split.folder.with_name(f"{split.name}.latents-{name}.npy")
    if not path.exists():
        _make(model, split, path)
    found: np.ndarray = np.load(path, mmap_mode="r")
    return found


def _make(model: DinoWM, split: Split, path: Path) -> None:
    shape = (split.episodes, split.frames, model.encoder.patches, model.encoder.channels)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    device = next(model.parameters()).device
    try:
        latents = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float16, shape=shape)
        with temporary.open("r+b") as file:  # take the space now: a full disk would end a memory map with a crash
            os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
        with progress(split.episodes, 0, f"{model.name}, {split.name}", " episodes") as bar:
            for start in range(0, split.episodes, _BLOCK):
                numbers = np.arange(start, min(start + _BLOCK, split.episodes))
                frames = torch.from_numpy(split.pixels(numbers)).to(device)
                latents[numbers] = model.encode(frames, chunk=64).cpu().numpy()
                bar.update(len(numbers))
        latents.flush()
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
