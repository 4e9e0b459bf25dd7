"""What a person sees of a training: progress bar, rows, TensorBoard, and a word when latents collapse."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from torch.utils.tensorboard.writer import SummaryWriter

from sgjepa import monitor, rows
from sgjepa.progress import progress

_SHOWN = ("loss", "rollout", "one_step", "sigreg", "rank", "frames_per_second")


class TrainingLog:
    """Active on the first process only. Rows reach the disk with every validation and every 200 steps."""

    def __init__(self, folder: Path, name: str, step: int, total: int, active: bool):
        self.folder, self.active = folder, active
        self._began = self._since = time.perf_counter()
        self._records: list[dict[str, Any]] = []
        self._warned: set[str] = set()
        self._seen: dict[str, float] = {}  # the newest value of each term
        if active:
            self._bar = progress(total, step, name, " steps")
            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, *_: object) -> None:
        if self.active:
            self.flush()
            self._bar.close()
            self._board.close()

    def step(self, step: int, parts: dict[str, float], frames: int) -> None:
        """Note the loss terms of one update that trained on so many frames."""
        if not self.active:
            return
        now = time.perf_counter()
        parts = {**parts, "frames_per_second": frames / (now - self._since)}
        self._since = now
        self._seen |= parts
        self._bar.set_postfix({name: f"{self._seen[name]:.3g}" for name in _SHOWN if name in self._seen}, refresh=False)
        self._bar.update(1)
        self._note(step, parts, "train")
        if len(self._records) >= 200:
            self.flush()

    def validation(self, step: int, parts: dict[str, float], latent: int | None) -> None:
        """Note an epoch's validation; `latent` is the width of latents that can collapse, None for a frozen encoder's."""
        if not self.active:
            return
        self._note(step, parts, "validation")
        self.flush()
        words = monitor.warning(parts, latent) if latent is not None else None
        if words and words.split(":")[0] not in self._warned:
            self._warned.add(words.split(":")[0])
            self._bar.write(f"warning at step {step}: {words}")
        self._since = time.perf_counter()

    def flush(self) -> None:
        """Bring all records to the disk, before a checkpoint that counts on them."""
        if self.active:
            rows.append(self.folder, self._records)
            self._records = []

    def _note(self, step: int, parts: dict[str, float], split: str) -> None:
        seconds = round(time.perf_counter() - self._began, 2)  # of this process, validation included
        self._records.append({"stage": "train", "split": split, "step": step, "seconds": seconds, **parts})
        for name, value in parts.items():
            self._board.add_scalar(f"{split}/{name}", value, step)
