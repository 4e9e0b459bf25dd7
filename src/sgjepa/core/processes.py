"""Worker processes: spawned, deaf to Ctrl-C, gone when their parent is gone; one that is killed is a MachineError."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any

from sgjepa.core import registry
from sgjepa.core.errors import MachineError

_GRACE = 60.0  # seconds for an update and its checkpoint, once the parent is gone


def executor(workers: int) -> ProcessPoolExecutor:
    """So many processes, which know what was registered in this one. Every pool of the package comes from here."""
    # spawn: neither Lance nor an OpenGL context survives a fork
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=begin, initargs=(registry.modules(),))


@contextmanager
def pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """So many processes for as long as the block lasts; what was not begun when it ends is dropped."""
    made = executor(workers)
    try:
        yield made
    except BrokenProcessPool as error:
        raise MachineError("a worker process was killed (out of memory?); run the same command again to go on") from error
    finally:
        made.shutdown(wait=True, cancel_futures=True)


def submit(to: ProcessPoolExecutor, work: Callable[..., Any], *calls: Iterable[Any]) -> list[Future[Any]]:
    """A call of `work` for each tuple of arguments. The processes start here.

    An interrupt is the parent's to handle: workers inherit the blocked signal while they start.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return [to.submit(work, *call) for call in calls]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end(of: ProcessPoolExecutor) -> None:
    """Ask its processes to stop what they are at: a training saves its last update first."""
    for process in list(getattr(of, "_processes", {}).values()):
        process.terminate()


def begin(plugins: tuple[str, ...]) -> None:
    """In a worker, before its work. plugins: modules that registered something in the parent."""
    watch_parent()
    registry.import_plugins(plugins)


def watch_parent() -> None:
    """In a worker: end with the parent, also when the parent is killed outright. A training saves its last update first."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_GRACE)
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
