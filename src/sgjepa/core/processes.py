"""Spawned worker processes; they ignore SIGINT and exit with the parent. A killed worker raises a MachineError."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any, Protocol

from sgjepa.core import registry
from sgjepa.core.errors import MachineError

_GRACE = 60.0  # seconds for an update and its checkpoint, once the parent is gone


class Executor(Protocol):
    """The interface of worker pools: `Processes` runs on this machine, a cluster's scheduler may be another one."""

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call `work` with these arguments as soon as a worker is free."""
        ...

    def stop(self) -> None:
        """Ask all running work to stop: a training saves its last update first."""
        ...

    def close(self) -> None:
        """Wait for running work, drop what was not begun, and release the workers."""
        ...


class Processes:
    """An `Executor` of worker processes, which import the plug-ins of this process. Every pool of the package is one.

    threads: torch threads of each process, unless the user has set them; None leaves that to the work.
    """

    def __init__(self, workers: int, threads: int | None = None):
        # spawn: neither Lance nor an OpenGL context survives a fork
        context = get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, mp_context=context, initializer=begin, initargs=(registry.modules(),))
        self._environment = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call `work` with these arguments as soon as a process is free. Processes start here.

        An interrupt is the parent's to handle: workers inherit the blocked signal while they start.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        previous = {name: os.environ.get(name) for name in self._environment}
        os.environ.update(self._environment)
        try:
            return self._pool.submit(work, *arguments)
        finally:
            for name, value in previous.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def stop(self) -> None:
        """Ask the processes to stop their work: a training saves its last update first."""
        for process in list(getattr(self._pool, "_processes", {}).values()):
            process.terminate()

    def close(self) -> None:
        """Wait for running work, drop what was not begun, and end the processes."""
        self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def pool(workers: int) -> Iterator[Processes]:
    """Worker processes that live as long as the block; work that was not begun when it ends is dropped."""
    processes = Processes(workers)
    try:
        yield processes
    except BrokenProcessPool as error:
        raise MachineError("a worker process was killed (out of memory?); run the same command again to go on") from error
    finally:
        processes.close()


def begin(plugins: tuple[str, ...]) -> None:
    """Prepare a worker process before its work. plugins: modules that registered something in the parent."""
    watch_parent()
    registry.import_plugins(plugins)


def watch_parent() -> None:
    """End this worker with its parent, even if that is killed outright. A training saves its last update first."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_GRACE)
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
