"""The training loop of world models and policies: `run_loop`, to be read from top to bottom.

It trains a `Trainable`, which makes the batch of an update, computes the loss, and names the modules to save. All random
numbers are functions of the seed and the update, so a killed training resumes bitwise identically (on a CPU with the same
number of threads).
"""

from __future__ import annotations

import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from sgjepa.core import run_folder
from sgjepa.training import checkpoint, distributed
from sgjepa.training.checkpoint import State
from sgjepa.training.distributed import Group
from sgjepa.training.log import TrainingLog
from sgjepa.training.optim import Hybrid

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_READ_LOSS = {"cpu": 1, "cuda": 10}  # updates between reading the loss: each time waits for the device
T = TypeVar("T")


class Batch(Protocol):
    """The interface of an update's batch."""

    @property
    def episode(self) -> np.ndarray:
        """The numbers of its episodes, for a message about a loss that is not finite."""


B = TypeVar("B", bound=Batch)


@dataclass(frozen=True)
class Lengths:
    """A training's lengths, in updates. patience: validations without a lower loss after which to stop."""

    total: int
    validate_every: int
    save_every: int
    log_every: int = 1
    patience: int | None = None


class Trainable(ABC):
    """The interface of a training. A subclass sets the attributes and implements the methods."""

    name: str  # for the progress bar
    frames: int  # frames of an update, for the speed
    lengths: Lengths
    modules: nn.Module  # the modules that a checkpoint holds
    optimisers: Mapping[str, Hybrid]  # by the name of the trained module
    constant: Mapping[str, Any] = {}  # constant entries of every row of the log
    collapse_width: int | None = None  # the width of latents that can collapse, for the log's warnings

    @abstractmethod
    def batch(self, step: int) -> Any:
        """The batch of an update. A thread calls this ahead of time, so it depends on `step` alone."""

    @abstractmethod
    def rates(self, step: int) -> dict[str, float]:
        """The factor on each optimiser's learning rates."""

    @abstractmethod
    def loss(self, batch: Any, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, and terms for the log, which stay on the device."""

    def after_update(self, step: int) -> None:  # noqa: B027
        """Called after every update, for a running mean of the weights."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """Terms on held-out episodes, "loss" among them; empty without such episodes."""

    @abstractmethod
    def finish(self, folder: Path, state: State) -> None:
        """Write the trained modules, which makes the folder a finished run."""


def run_loop(
    trainable: Trainable, folder: Path, about: Any, begun: Path | None, device: torch.device, group: Group = None
) -> None:
    """Train from the checkpoint `begun`, or from the first update. about: the record that a checkpoint holds."""
    first, lengths, optimisers = distributed.rank(group) == 0, trainable.lengths, trainable.optimisers
    state = State() if begun is None else checkpoint.load(begun, trainable.modules, optimisers)
    if first:
        run_folder.keep(folder, state.step)
    read_every = max(lengths.log_every, _READ_LOSS[device.type])
    stops = False
    with at_the_end_of_an_update() as stop, _log(trainable, folder, state, first) as log:
        for step, batch in _ahead(trainable.batch, state.step, lengths.total):
            if lengths.patience is not None and state.waited >= lengths.patience:
                break
            for name, factor in trainable.rates(step).items():
                optimisers[name].scale_rates(factor)
                optimisers[name].zero_grad()
            loss, terms = trainable.loss(batch, step)
            loss.backward()  # type: ignore[no-untyped-call]
            for name, optimiser in optimisers.items():
                distributed.average_gradients(optimiser.parameters, group)
                terms[f"grad_norm_{name}"] = optimiser.clip_gradients()
                optimiser.step()
            trainable.after_update(step)
            state = replace(state, step=step + 1)
            stops = distributed.any_rank(stop.requested, group)
            validates = state.step % lengths.validate_every == 0 or state.step == lengths.total
            saves = state.step % lengths.save_every == 0 or state.step == lengths.total or stops
            if validates or saves or state.step % lengths.log_every == 0:
                log.step(state.step, terms, batch.episode)
            if validates or saves or state.step % read_every == 0:
                log.settle()
            if validates and (scores := trainable.validate()):
                better = state.best is None or scores["loss"] < state.best
                state = replace(state, best=scores["loss"], waited=0) if better else replace(state, waited=state.waited + 1)
                log.validation(state.step, scores, trainable.collapse_width)
            if saves and first:
                log.flush()
                state = replace(state, seconds=log.seconds)
                checkpoint.save(folder, trainable.modules, {n: o.state_dict() for n, o in optimisers.items()}, state, about)
            if stops:
                break
    if stops and state.step < lengths.total:
        raise KeyboardInterrupt(f"{folder}: stopped after step {state.step} of {lengths.total}, which is saved")
    if first:
        trainable.finish(folder, state)
    if stop.requested:  # too late to stop the training, but not the work after it
        raise KeyboardInterrupt(f"{folder} is finished")


def _ahead(make: Callable[[int], B], start: int, total: int) -> Iterator[tuple[int, B]]:
    """Yield steps start .. total - 1, each with its batch, which a thread makes during the previous update."""
    with ThreadPoolExecutor(1, "batches") as thread:
        coming = thread.submit(make, start)
        for step in range(start, total):
            batch = coming.result()
            if step + 1 < total:
                coming = thread.submit(make, step + 1)
            yield step, batch


def _log(trainable: Trainable, folder: Path, state: State, first: bool) -> TrainingLog:
    return TrainingLog(
        folder,
        trainable.name,
        step=state.step,
        total=trainable.lengths.total,
        frames=trainable.frames,
        seconds=state.seconds,
        constant=dict(trainable.constant),
        active=first,
    )


@dataclass
class Stop:
    """A flag that is set when the training should stop."""

    requested: bool = False


@contextmanager
def at_the_end_of_an_update() -> Iterator[Stop]:
    """Defer Ctrl-C and SIGTERM to the end of the update, so that it can be saved first.

    A second Ctrl-C interrupts at once. The previous handlers are restored afterwards. Only the main thread may handle
    signals: in other threads nothing changes.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, _frame: object) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.requested = True

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]  # ignored signals (nohup) stay ignored
    for number in heard:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number in heard:
            signal.signal(number, before[number] or signal.SIG_DFL)
