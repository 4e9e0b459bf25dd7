"""Latents of an encoder that stays as it is, computed once for every frame.

Those of a foreign frozen encoder are kept on disk beside the dataset, for all runs; those of an encoder that another run
trained are small, and kept in RAM.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
import torch
from torch import nn

from sgjepa.core import config
from sgjepa.core.progress import progress
from sgjepa.data.store import Split
from sgjepa.data.windows import memory_map
from sgjepa.models.dino import DinoWM
from sgjepa.models.jepa import WorldModel
from sgjepa.training import parallel
from sgjepa.training.parallel import Group

_BLOCK = 4  # episodes encoded at a time


def cached_latents(model: DinoWM, split: Split) -> np.ndarray:
    """(N, T, P, C) float16, as a memory map; made on the first call, which shows its progress.

    The file is named after all that decides its content: the encoder's settings and weights, and the dataset's.
    """
    settings = json.dumps(config.to_dict(model.config.encoder), sort_keys=True)
    key = hashlib.sha256(f"{settings} {weights_digest(model.encoder)} {split.digest}".encode()).hexdigest()[:12]
    path = split.folder.with_name(f"{split.name}.latents-{key}.npy")
    shape = (split.episodes, split.frames, model.encoder.patches, model.encoder.channels)
    label = f"{model.name}, {split.name}"
    return memory_map(path, shape, np.float16, lambda latents: fill(model, split, latents, label, _BLOCK, chunk=64))


def weights_digest(module: nn.Module) -> str:
    """SHA-256 of all parameters and buffers, with their names."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


@torch.no_grad()
def fill(model: WorldModel | DinoWM, split: Split, latents: np.ndarray, label: str, block: int, chunk: int | None) -> None:
    """Encode every frame of a split into `latents` (N, T, ...), `block` episodes at a time."""
    device = next(model.parameters()).device
    with progress(split.episodes, 0, label, " episodes") as bar:
        for start in range(0, split.episodes, block):
            numbers = np.arange(start, min(start + block, split.episodes))
            frames = torch.from_numpy(split.pixels(numbers)).to(device)
            latents[numbers] = model.encode(frames, chunk).cpu().numpy()
            bar.update(len(numbers))


@torch.no_grad()
def trained_latents(model: WorldModel, split: Split, group: Group) -> np.ndarray:
    """(N, T, D) float32 of a trained encoder, in eval mode; the ranks share the work."""
    model.eval()
    device = next(model.parameters()).device
    latents = torch.zeros(split.episodes, split.frames, model.config.latent, device=device)
    blocks = range(0, split.episodes, _BLOCK)[parallel.rank(group) :: parallel.world_size(group)]
    with progress(len(blocks), 0, f"encode {split.name}", " blocks") as bar:
        for start in blocks:
            numbers = np.arange(start, min(start + _BLOCK, split.episodes))
            latents[start : start + _BLOCK] = model.encode(torch.from_numpy(split.pixels(numbers)).to(device))
            bar.update(1)
    return parallel.sum_over_ranks(latents, group).cpu().numpy()
