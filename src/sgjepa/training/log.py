"""The log of a training: a progress bar, a row for every measurement, TensorBoard, and warnings when latents collapse."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.tensorboard.writer import SummaryWriter

from sgjepa.core import run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.training import checkpoint
from sgjepa.training.validation import PREFIX, ProbeWatch, warning

_BUFFERED = 20  # records before they are written
_ON_BAR = ("loss", "rollout", "one_step", "sigreg", "rank", "frames_per_second")


class TrainingLog:
    """Writes on the first process only. Rows reach the disk with every validation, every checkpoint and every 20 steps.

    frames: of an update     constant: entries of every row     seconds: trained before the checkpoint it resumes from
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        step: int,
        total: int,
        frames: int,
        seconds: float,
        constant: dict[str, Any],
        active: bool,
    ):
        self.folder, self.active = folder, active
        self._frames, self._constant, self._settled = frames, constant, step
        self._since = time.perf_counter()
        self._began = self._since - seconds
        self._waiting: list[tuple[int, dict[str, Tensor], np.ndarray]] = []
        self._records: list[dict[str, Any]] = []
        self._warned: set[str] = set()
        self._seen: dict[str, float] = {}  # the newest value of each term
        if active:
            self._bar = progress(total, step, name, "steps")
            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
            self._watch = ProbeWatch()
            for row in run_folder.read(folder):  # warnings given before an interruption
                if row.get("split") == "validation":
                    self._watch.warnings(_probe_errors(row))

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, *_: object) -> None:
        if self.active:
            self.flush()
            self._bar.close()
            self._board.close()

    @property
    def seconds(self) -> float:
        """Seconds trained so far, with validation, but without updates lost by a kill after the last checkpoint."""
        return round(time.perf_counter() - self._began, 2)

    def step(self, step: int, parts: dict[str, Tensor], episodes: np.ndarray) -> None:
        """Record an update's loss terms without reading them from the device, which would wait for it."""
        self._waiting.append((step, parts, episodes))

    def settle(self) -> None:
        """Read all pending terms at once, and note them. A number that is not finite ends the run, on every process."""
        if not self._waiting:
            return
        values = iter(torch.cat([torch.stack(list(parts.values())) for _, parts, _ in self._waiting]).tolist())
        now = time.perf_counter()
        done = self._waiting[-1][0] - self._settled  # more than wait if not every update was kept
        speed = self._frames * done / (now - self._since)
        waiting, self._waiting, self._since, self._settled = self._waiting, [], now, self._waiting[-1][0]
        for step, parts, episodes in waiting:
            numbers = {name: next(values) for name in parts}
            if not all(math.isfinite(value) for value in numbers.values()):
                affected = sorted(set(episodes.tolist()))
                raise InputError(
                    f"the loss or its gradient is not finite at step {step - 1} (episodes {affected}); "
                    f"last good checkpoint: {checkpoint.newest(self.folder) or 'none'}; "
                    f"try a lower learning rate in another --out"
                )
            if self.active:
                self._note(step, {**numbers, "frames_per_second": speed}, "train")
        if self.active:
            latest = {name: f"{self._seen[name]:.3g}" for name in _ON_BAR if name in self._seen}
            self._bar.set_postfix(latest, refresh=False)
            self._bar.update(done)
        if len(self._records) >= _BUFFERED:
            self.flush()

    def validation(self, step: int, parts: dict[str, float], latent: int | None) -> None:
        """Note an epoch's validation; `latent` is the width of latents that can collapse, None for a frozen encoder's."""
        if not self.active:
            return
        self._note(step, parts, "validation")
        self.flush()
        words = warning(parts, latent) if latent is not None else None
        if words and words.split(":")[0] not in self._warned:
            self._warned.add(words.split(":")[0])
            self._bar.write(f"warning at step {step}: {words}")
        for words in self._watch.warnings(_probe_errors(parts)):
            self._bar.write(f"warning at step {step}: {words}")
        self._since = time.perf_counter()

    def flush(self) -> None:
        """Write all records to disk, before a checkpoint that relies on them."""
        if self.active:
            run_folder.append(self.folder, self._records)
            self._records = []

    def _note(self, step: int, parts: dict[str, float], split: str) -> None:
        if split == "train":
            self._seen |= parts
        about = {"stage": "train", "split": split, "step": step, "seconds": self.seconds}
        self._records.append({**about, **self._constant, **parts})
        for name, value in parts.items():
            self._board.add_scalar(f"{split}/{name}", value, step)


def _probe_errors(row: dict[str, Any]) -> dict[str, float]:
    """The probe errors of a validation, by target."""
    return {name.removeprefix(PREFIX): value for name, value in row.items() if name.startswith(PREFIX)}
