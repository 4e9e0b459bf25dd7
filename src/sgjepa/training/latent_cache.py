"""A cache of latents of an encoder that does not change: every frame of a split is encoded once, into a memory map.

A file is named after the determinants of its content: the encoder's settings and weights, and the data. Latents of a
pretrained frozen encoder lie next to the dataset, for all runs that use it; those of an encoder trained by a run lie in the
run's folder, for its probes, its forecasts and predictors trained on it. A neighbouring run with the same encoder, such as
another predictor on it, need not encode again: its file is a hard link.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.core.run_folder import LATENTS
from sgjepa.data.memmap import memory_map
from sgjepa.data.store import Split
from sgjepa.models.base import FourMethods, WorldModel
from sgjepa.training import distributed
from sgjepa.training.distributed import Group

_BLOCK = 4  # episodes encoded at a time
_CHUNK = 64  # frames of them that pass the encoder at a time


def latents_of(model: WorldModel, split: Split, folder: Path, group: Group = None) -> np.ndarray:
    """Latents (N, T, ...) of all frames of a split; made on the first call, which shows its progress.

    folder: the run's folder. group: processes that share the work; all of them must call.
    """
    check_fits(model, split)
    path, dtype = _path(model, split, folder), np.float16 if in_half(model) else np.float32
    shape = (split.episodes, split.frames, *model.latent_shape)

    def fill(latents: np.ndarray | None) -> None:
        for numbers, block in _encoded(model, split, group):
            if latents is not None:
                latents[numbers] = block

    def exists() -> bool:
        return path.exists() or (model.frozen_encoder is None and _linked(path, shape, dtype))

    if not distributed.decided_by_first(exists, group):
        if distributed.rank(group) == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            memory_map(path, shape, dtype, fill)
        else:
            fill(None)  # the others encode their share; the first process writes
    verify = distributed.rank(group) == 0
    return distributed.first_before_others(lambda: memory_map(path, shape, dtype, fill, verify=verify), group)


def in_half(model: WorldModel) -> bool:
    """Whether latents are cached in float16: the patch grids of a pretrained encoder, which are large."""
    return model.frozen_encoder is not None and len(model.latent_shape) > 1


def _path(model: WorldModel, split: Split, folder: Path) -> Path:
    settings = json.dumps(model.encoder_settings, sort_keys=True)
    weights = weights_digest(*model.encoder_modules())
    key = hashlib.sha256(f"{settings} {weights} {split.digest}".encode()).hexdigest()[:12]
    if model.frozen_encoder is not None:
        return split.folder.with_name(f"{split.name}.latents-{key}.npy")
    return folder / LATENTS / f"{split.folder.parent.name}-{split.name}-{key}.npy"


def _linked(path: Path, shape: tuple[int, ...], dtype: type) -> bool:
    """Link the same file of a neighbouring run, if there is one that is not damaged; returns whether it was linked."""
    try:
        runs = sorted(path.absolute().parents[2].iterdir())
    except OSError:  # missing, or not readable
        return False
    for made in (run / LATENTS / path.name for run in runs):
        try:
            if made.is_file():
                memory_map(made, shape, dtype, _refuse)
                path.parent.mkdir(parents=True, exist_ok=True)
                os.link(made, path)
                return True
        except (InputError, OSError):  # damaged, or a file system without hard links
            continue
    return False


def _refuse(_: np.ndarray) -> None:
    raise InputError("it was there a moment ago")


def weights_digest(*modules: nn.Module) -> str:
    """SHA-256 of all parameters and buffers, with their names."""
    digest = hashlib.sha256()
    for module in modules:
        for name, value in sorted(module.state_dict().items()):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


@torch.no_grad()
def _encoded(model: WorldModel, split: Split, group: Group) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield episode numbers (n,) and their latents (n, T, ...) in blocks, on every process: each encodes a share of them."""
    device = next(model.parameters()).device
    share = _BLOCK * distributed.world_size(group)
    label = f"encode {split.folder.parent.name}, {split.name}"
    with _eval_mode(model), progress(split.episodes, 0, label, "episodes") as bar:
        for start in range(0, split.episodes, share):
            numbers = np.arange(start, min(start + share, split.episodes))
            latents = torch.zeros(len(numbers), split.frames, *model.latent_shape, device=device)
            mine = slice(distributed.rank(group) * _BLOCK, (distributed.rank(group) + 1) * _BLOCK)
            if len(numbers[mine]):
                frames = torch.from_numpy(split.pixels(numbers[mine])).to(device)
                latents[mine] = model.encode(frames, _CHUNK)
            yield numbers, distributed.sum_over_ranks(latents, group).cpu().numpy()
            bar.update(len(numbers))


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Set every module to eval mode, and restore the modes afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@torch.no_grad()
def encode_split(model: FourMethods, split: Split, name: str) -> np.ndarray:
    """Latents (N, T, ...) float32 of all frames of a split, in memory, by any module with the four methods."""
    parameters = list(model.parameters()) if isinstance(model, nn.Module) else []
    device = parameters[0].device if parameters else torch.device("cpu")
    latents = []
    with progress(split.episodes, 0, f"encode {name}, {split.name}", "episodes") as bar:
        for start in range(0, split.episodes, _BLOCK):
            numbers = np.arange(start, min(start + _BLOCK, split.episodes))
            z = model.encode(torch.from_numpy(split.pixels(numbers)).to(device))
            if z.ndim < 3 or z.shape[:2] != (len(numbers), split.frames):
                wanted = f"({len(numbers)}, {split.frames}, ...)"
                raise InputError(f"{name}.encode should answer latents {wanted} for so many frames, got {tuple(z.shape)}")
            latents.append(z.float().cpu().numpy())
            bar.update(len(numbers))
    return np.concatenate(latents)


def check_fits(model: WorldModel, split: Split, who: str = "the model") -> None:
    """Refuse a dataset whose controls, laws or pictures do not fit the model. who: the model's name in errors."""
    expected, actual = (model.controls, model.laws), (split.control.shape[2], len(split.laws))
    if expected != actual:
        raise InputError(
            f"{split.folder.parent} is a dataset of another world: {actual[0]} controls and {actual[1]} laws, "
            f"{who} takes {expected[0]} and {expected[1]}"
        )
    if model.image_size not in (None, split.picture[0]):
        raise InputError(f"{split.folder.parent} has pictures of {split.picture[0]} pixels, {who} takes {model.image_size}")
