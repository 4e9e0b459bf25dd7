"""Tensors on disk as safetensors: written whole or not at all, and nothing is executed when they are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sgjepa.core import files
from sgjepa.core.errors import InputError, one_line


def save_weights(path: Path, module: nn.Module) -> None:
    """Save all parameters and buffers of a module."""
    save_tensors(path, module.state_dict())


def load_weights(path: Path, module: nn.Module) -> None:
    """Load a module's weights; every tensor must be present and fit."""
    tensors = load_tensors(path)
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise InputError(f"{path} holds another model ({one_line(error, 160)})") from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Save tensors by name, with text metadata."""
    temporary = files.temporary(path)
    try:
        temporary.touch()
        mode = temporary.stat().st_mode  # by the umask; safetensors itself would make the file private
        save_file({name: value.detach().contiguous() for name, value in tensors.items()}, temporary, metadata)
        temporary.chmod(mode)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a file; a number that is not finite is refused as damage, as training never saves one."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise _unreadable(path, error) from error
    for name, value in tensors.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise InputError(f"{path} is damaged: {name} holds a number that is not finite")
    return tensors


def load_metadata(path: Path) -> dict[str, str]:
    """The text metadata of a file of tensors."""
    try:
        with safe_open(path, "pt") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError, ValueError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} cannot be read ({one_line(error, 120)})")
