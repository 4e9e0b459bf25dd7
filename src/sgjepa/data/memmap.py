"""Arrays that are computed once and stored as memory maps: decoded frames, latents.

A file is an .npy as NumPy writes it, followed by a digest of everything before, which NumPy ignores. So array and digest are
renamed together.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sgjepa.core import files
from sgjepa.core.errors import InputError, one_line
from sgjepa.core.files import Seen

_MARK = b"\nsgjepa sha256 "
_TAIL = len(_MARK) + 64
_BLOCK = 2**20  # bytes read at a time
_SAMPLED = 512  # blocks of a large file that are checked


def memory_map(
    path: Path,
    shape: tuple[int, ...],
    dtype: type,
    fill: Callable[[np.ndarray], None],
    sampled: bool = False,
    verify: bool = True,
) -> np.ndarray:
    """Map the array in a file, read-only. A missing file is made with `fill`, whole or not at all.

    sampled: a file of more than half a gigabyte is checked by its size, its header and blocks spread over it. That is
    enough for decoded frames, tens of gigabytes at paper size: it detects a torn or mixed-up file, not a wrong pixel.
    verify=False: another process of this training has checked it.
    """
    if not path.exists():
        _make(path, shape, dtype, fill, sampled)
    cure = "delete that file, it will be made again"
    try:
        array = np.load(path, mmap_mode="r")
    except Exception as error:  # NumPy parses the header as Python, and lets through whatever fails there
        raise InputError(f"{path} is damaged ({one_line(error, 80)}); {cure}") from error
    if not isinstance(array, np.memmap) or array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
        raise InputError(f"{path} holds other frames than the dataset beside it; delete that file")
    if verify and not (seen := Seen(path)).checked:
        end = array.offset + array.nbytes
        if not _matches_digest(path, end, sampled):
            raise InputError(f"{path} is damaged: it is not what was written; {cure}")
        seen.remember()
    return array


def _make(path: Path, shape: tuple[int, ...], dtype: type, fill: Callable[[np.ndarray], None], sampled: bool) -> None:
    files.sweep(path.parent)  # killed encodings leave as much as they would have written
    temporary = files.temporary(path)
    try:
        array = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
        size = temporary.stat().st_size
        with temporary.open("r+b") as file:  # take the space now: a full disk would end a memory map with a crash
            os.posix_fallocate(file.fileno(), 0, size + _TAIL)
        fill(array)
        array.flush()
        with temporary.open("r+b") as file:
            file.seek(size)
            file.write(_MARK + _digest(temporary, size, sampled).encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _matches_digest(path: Path, end: int, sampled: bool) -> bool:
    with path.open("rb") as file:
        file.seek(end)
        tail = file.read(_TAIL + 1)
    return tail == _MARK + _digest(path, end, sampled).encode("ascii")


def _digest(path: Path, end: int, sampled: bool) -> str:
    """SHA-256 of the first `end` bytes, or of a sample of their blocks."""
    digest = hashlib.sha256(str(end).encode("ascii"))
    with path.open("rb") as file:
        for start in _starts(end, sampled):
            file.seek(start)
            digest.update(file.read(min(_BLOCK, end - start)))
    return digest.hexdigest()


def _starts(end: int, sampled: bool) -> Iterator[int]:
    """Starts of the blocks that are hashed: the first has the header, the last ends the array."""
    blocks = -(-end // _BLOCK)
    numbers = np.unique(np.linspace(0, blocks - 1, _SAMPLED).astype(int)).tolist() if sampled else range(blocks)
    return (block * _BLOCK for block in numbers)
