"""Windows of frames for training. Every frame is decoded once, and held as uint8 in RAM or in a memory map.

So an overlapping window costs a copy only. Decoding for every window would decode a frame 15.6 times per epoch (25-frame
windows of 64-frame episodes).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import psutil

from sgjepa.core.errors import InputError, unknown
from sgjepa.core.progress import progress
from sgjepa.data import memmap
from sgjepa.data.store import Split

KEEP = ("auto", "ram", "disk")
_BLOCK = 8  # episodes decoded at a time


@dataclass(frozen=True)
class Batch:
    """B windows of W frames. The paper's action is [control; law]."""

    frames: np.ndarray  # (B, W, h, w, 3) uint8, or features computed from the frames, (B, W, ...)
    control: np.ndarray  # (B, W, A) float32
    law: np.ndarray  # (B, L) float32
    state: np.ndarray  # (B, W, S) float32
    episode: np.ndarray  # (B,) episode numbers in the split
    start: np.ndarray  # (B,) first frame of each window


class Clips:
    """All windows of `length` frames in the given episodes, by number: windows of one episode are consecutive.

    `content` replaces the frames by other data computed for every frame of the split, (N, T, ...).
    """

    def __init__(
        self, split: Split, episodes: np.ndarray, length: int, keep: str = "auto", content: np.ndarray | None = None
    ):
        if not 1 <= length <= split.frames:
            raise InputError(f"a window must have 1 to {split.frames} frames, got {length}")
        self.split, self.episodes, self.length = split, np.asarray(episodes), length
        self._pixels, self._rows = decode(split, self.episodes, keep) if content is None else (content, self.episodes)
        self._control, self._law, self._state = split.control, split.law, split.state

    def __len__(self) -> int:
        return len(self.episodes) * self._starts

    @property
    def _starts(self) -> int:
        return self.split.frames - self.length + 1

    def batch(self, numbers: np.ndarray) -> Batch:
        """The windows with these numbers, 0 <= number < len(self)."""
        if len(numbers) and not 0 <= min(numbers) <= max(numbers) < len(self):
            raise InputError(f"windows are numbered from 0 to {len(self) - 1}, got {min(numbers)} to {max(numbers)}")
        row, start = np.divmod(np.asarray(numbers), self._starts)
        frames = np.empty((len(row), self.length, *self._pixels.shape[2:]), self._pixels.dtype)
        for i, (r, s) in enumerate(zip(self._rows[row].tolist(), start.tolist(), strict=True)):
            frames[i] = self._pixels[r, s : s + self.length]
        episode = self.episodes[row]
        steps = start[:, None] + np.arange(self.length)
        return Batch(
            frames=frames,
            control=self._control[episode[:, None], steps],
            law=self._law[episode],
            state=self._state[episode[:, None], steps],
            episode=episode,
            start=start,
        )


class JointClips:
    """Windows of several datasets as one collection; all must have the same laws, controls and picture size."""

    def __init__(self, parts: list[Clips]):
        check_alike([part.split for part in parts])
        self.parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def part_of(self, numbers: np.ndarray) -> np.ndarray:
        """The index in `parts` of each of these windows."""
        return np.searchsorted(self._ends, np.asarray(numbers), side="right")

    def batch(self, numbers: np.ndarray) -> Batch:
        """The windows with these numbers, in their order; those of the first dataset have the lowest numbers."""
        if len(self.parts) == 1:
            return self.parts[0].batch(numbers)
        numbers = np.asarray(numbers)
        which = self.part_of(numbers)
        order = np.argsort(which, kind="stable")
        batches = []
        for index in np.unique(which):
            start = 0 if index == 0 else self._ends[index - 1]
            batches.append(self.parts[index].batch(numbers[which == index] - start))
        back = np.argsort(order, kind="stable")
        joined = {f.name: np.concatenate([getattr(b, f.name) for b in batches])[back] for f in fields(Batch)}
        return Batch(**joined)


def check_alike(splits: Sequence[Split]) -> None:
    """Refuse splits that cannot be read as one collection."""
    first, *others = splits
    for other in others:
        for name in ("laws", "picture", "frames"):
            values = getattr(first, name), getattr(other, name)
            if values[0] != values[1]:
                raise InputError(f"{first.folder} and {other.folder} differ in {name}: {values[0]}, {values[1]}")
        if first.control.shape[2] != other.control.shape[2]:
            raise InputError(f"{first.folder} and {other.folder} differ in their controls")


def decode(split: Split, episodes: np.ndarray, keep: str = "auto") -> tuple[np.ndarray, np.ndarray]:
    """Frames (M, T, H, W, 3) uint8, each decoded once, and the row of each of the episodes among them.

    keep: "ram", "disk" (a memory map next to the dataset, made once for the whole split and reused by later runs),
    or "auto": RAM if the frames take at most half of the free memory.
    """
    if keep not in KEEP:
        raise unknown("place to keep frames", keep, KEEP)
    needed = len(episodes) * split.frames * int(np.prod(split.picture))
    if keep == "disk" or (keep == "auto" and needed > psutil.virtual_memory().available / 2):
        return _memory_map(split), episodes
    frames = np.empty((len(episodes), split.frames, *split.picture), np.uint8)
    _fill(split, episodes, frames)
    return frames, np.arange(len(episodes))


def _fill(split: Split, episodes: np.ndarray, frames: np.ndarray) -> None:
    blocks = [slice(i, min(i + _BLOCK, len(episodes))) for i in range(0, len(episodes), _BLOCK)]

    def work(block: slice) -> int:
        split.pixels(episodes[block], out=frames[block])
        return int(block.stop - block.start)

    with progress(len(episodes), 0, f"decode {split.name}", "episodes") as bar, ThreadPoolExecutor(os.cpu_count()) as pool:
        for count in pool.map(work, blocks):
            bar.update(count)


def _memory_map(split: Split) -> np.ndarray:
    shape = (split.episodes, split.frames, *split.picture)
    path = split.folder.with_name(f"{split.name}.frames-{split.digest}.npy")
    fill = partial(_fill, split, np.arange(split.episodes))
    return memmap.memory_map(path, shape, np.uint8, fill, sampled=True)
