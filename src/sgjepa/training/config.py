"""The settings of a training run, and its random numbers.

Random numbers are a function of the run's seed, the step and a stream, so a checkpoint needs no generator states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError, unknown
from sgjepa.data.config import SPLIT_SEED
from sgjepa.models.base import Model
from sgjepa.training.losses import OneStepLoss, RolloutLoss
from sgjepa.training.optim import OptimConfig

WEIGHTS, DROPOUT, DIRECTIONS, DECODING, NOISE = 1, 2, 3, 4, 5  # streams


def mix(*numbers: int) -> int:
    """Hash several numbers, such as run, step and stream, to a seed; similar numbers give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


Trained: TypeAlias = Literal["all", "predictor"]


@dataclass(frozen=True)
class Train:
    """Length, sampling and memory use of a training. training/data.py explains stretches, windows and updates."""

    epochs: int
    batch: int  # stretches per update, over all processes
    frames: int  # the frames of a stretch: H + K for the paper's clips, up to the whole episode for dense windows
    updates: int | None = None  # updates per epoch; None: as many as see every stretch once
    drawn: int | None = None  # dense: how many windows are drawn from each stretch, anew for every update; None: all
    skip: int = 0  # dense: frames of a stretch before its first window, so that a shorter history answers the same frames
    trains: Trained = "all"  # "predictor": a fresh predictor on the encoder of `Run.init`, which stays as it is
    decoder: bool = False  # also train a picture decoder, on detached latents
    decoder_width: int = 256  # the decoder's channels of its first map; the paper's
    decoder_frames: int = 64  # the number of frames per update that the decoder is trained on
    chunk: int | None = None  # frames encoded at a time, recomputed in the backward pass; None: all at once
    patience: int | None = None  # epochs without a lower validation loss after which to stop; the last weights are kept
    validation: int | None = None  # the highest number of validation batches per epoch; None: all
    save_every: int = 200  # updates between checkpoints

    def __post_init__(self) -> None:
        if self.trains not in get_args(Trained):
            raise unknown("part to train", self.trains, get_args(Trained))
        counts = ("epochs", "batch", "frames", "save_every", "updates", "drawn", "chunk", "patience", "validation")
        check_bounds(self, **dict.fromkeys(counts, (1, 1e9)), decoder_width=(1, 65_536), decoder_frames=(1, 1e9))
        check_bounds(self, skip=(0, 1e9))


@dataclass(frozen=True)
class Run:
    """One training run. `data` names dataset folders; several are trained on together."""

    name: str
    data: tuple[str, ...]
    model: Model
    loss: RolloutLoss | OneStepLoss
    train: Train
    optim: OptimConfig = field(default_factory=OptimConfig)
    init: str | None = None  # a finished run whose weights to start from, with a fresh optimiser
    seed: int = 0
    split_seed: int = SPLIT_SEED  # not the training seed, so that trainings share their validation episodes

    def __post_init__(self) -> None:
        if not self.data or not all(self.data):
            raise InputError(f"{self.name}: a run needs at least one dataset, got {list(self.data)}")
        check_bounds(self, seed=(-1e18, 1e18), split_seed=(-1e18, 1e18))  # their lower bounds are checked below
        if self.seed < 0 or self.split_seed < 0:
            raise InputError(f"seeds must not be negative, got {self.seed} and {self.split_seed}")
        window = self.history + self.loss.steps
        if self.train.skip and (self.loss.windows == "clip" or self.train.frames < self.train.skip + window):
            raise InputError(
                f"{self.name}: after {self.train.skip} skipped frames a window of {window} must fit into a stretch of "
                f"{self.train.frames}, with dense windows"
            )
        if self.train.frames < window or (self.loss.windows == "clip" and self.train.frames != window):
            relation = "exactly" if self.loss.windows == "clip" else "at least"
            raise InputError(
                f"{self.name}: a stretch needs {relation} {window} frames "
                f"(history {self.history} and {self.loss.steps} predicted), got {self.train.frames}"
            )

    @property
    def history(self) -> int:
        """H, the number of frames that a prediction sees."""
        return self.model.history
