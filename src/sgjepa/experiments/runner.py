"""Run a graph of tasks in worker processes, with a progress bar, the estimated remaining time, logs and clean stops.

On a CPU two trainings with a thread each are faster than one with two: there is one process per core, and the threads are
shared among them. Tasks save finished work, so that the same call resumes after an interruption.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import sys
import time
import traceback
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgjepa.core import errors, threads
from sgjepa.core.errors import InputError, MachineError, one_line
from sgjepa.core.processes import Executor, Processes
from sgjepa.core.progress import progress

_POLL = 2.0  # seconds between looks at what tasks have written


@dataclass(frozen=True)
class Task:
    """One call in a worker process: `work(*arguments)`.

    name: what failures call it, and what other tasks wait for. after: names of tasks that have to be over first.
    log: the file that takes what it prints. updates: how many it makes, if it is a training; done: how many so far.
    more: whether something follows its last update.
    """

    name: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    after: tuple[str, ...] = ()
    log: Path | None = None
    updates: int = 0
    done: Callable[[], int] = int
    more: bool = False


def run(tasks: Sequence[Task], label: str, workers: int | None = None, executor: Executor | None = None) -> dict[str, Any]:
    """Run all tasks; returns their results by name.

    The remaining time is printed once updates were measured, and again whenever a task ends.
    executor: runs the tasks, closed by its owner; None: worker processes on this machine.
    """
    if not tasks:
        return {}
    workers = min(len(tasks), workers or threads.cores())
    own = None if executor else Processes(workers, threads=max(1, threads.cores() // workers))
    doing = executor or own
    assert doing is not None
    try:
        return _run(tasks, label, workers, doing)
    except BaseException:
        doing.stop()
        raise
    finally:
        if own is not None:
            own.close()


def _run(tasks: Sequence[Task], label: str, workers: int, executor: Executor) -> dict[str, Any]:
    waiting, working, results = list(tasks), dict[Future[Any], Task](), dict[str, Any]()
    trainings = [task for task in tasks if task.updates]
    done = {task.name: task.done() for task in trainings}
    total, counted = sum(task.updates for task in trainings) or len(tasks), sum(done.values())
    more = any(task.more for task in trainings)
    left = Remaining({task.name: (done[task.name], task.updates) for task in trainings}, workers, more)
    unit, announced = ("steps" if trainings else "tasks"), False
    with progress(total, counted, f"{len(tasks)} {label}", unit, left=not trainings) as bar:
        while waiting or working:
            ready = [task for task in waiting if results.keys() >= set(task.after)]
            working |= {executor.submit(_work, task.work, task.arguments, task.log): task for task in ready}
            waiting = [task for task in waiting if task not in ready]
            if not working:
                raise ValueError(f"{waiting[0].name} waits for a task that is not there, or for itself")
            finished, _ = wait(working, timeout=_POLL, return_when=FIRST_COMPLETED)
            over = [working.pop(future) for future in finished]
            results |= {task.name: _result(future, task) for future, task in zip(finished, over, strict=True)}
            done = {task.name: task.done() for task in trainings}
            now = sum(done.values()) if trainings else len(results)
            bar.update(now - counted)
            counted = now
            left.look(done, [task.name for task in over if task.updates])
            words = left.words() if waiting or working else ""
            bar.set_postfix_str(words or f"{len(waiting) + len(working)} to go", refresh=False)
            if words and (over or not announced):
                bar.write(f"   measured over {now:,} of {total:,} updates: {words}", file=sys.stdout)
                sys.stdout.flush()
                announced = True
    return results


def _work(work: Callable[..., Any], arguments: tuple[Any, ...], log: Path | None) -> Any:
    """Run a task in a worker process; its output and the traceback of a failure go to the log."""
    threads.prepare()
    if log is None:
        return work(*arguments)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        try:
            return work(*arguments)
        except InputError:
            raise
        except KeyboardInterrupt as stop:
            print(stop, file=file, flush=True)
            os._exit(1)  # a training has saved its last update; a pool's process would take up the next task
        except Exception as error:  # a process pool loses the traceback's text
            traceback.print_exc(file=file)
            known = errors.expected(error) or RuntimeError(f"{type(error).__name__}: {one_line(error, 160)}")
            raise type(known)(f"{known} (the whole story: {log})") from None


def _result(future: Future[Any], task: Task) -> Any:
    """The result of a task; a failure names the task."""
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        log = f"; see {task.log}" if task.log else ""
        error = MachineError(f"the process ended early ({one_line(error, 80)}){log}")
    if isinstance(error, InputError | RuntimeError):
        raise type(error)(f"{task.name}: {error}")
    if error is not None:
        raise error
    return future.result()


@dataclass
class _Training:
    """A running training. Of all `updates`, `first` were done at `since` and `done` at `latest`.

    since: None before the first updates that were seen to be made. trained: when the last update was made.
    """

    updates: int
    first: int
    done: int
    since: float | None = None
    latest: float = 0.0
    trained: float | None = None

    @property
    def pace(self) -> float | None:
        """Seconds per update; None while too little was seen."""
        if self.since is None or self.done == self.first:
            return None
        return (self.latest - self.since) / (self.done - self.first)


class Remaining:
    """The remaining time of parallel trainings, estimated from their measured updates.

    trainings: updates done and updates in all, by name, in the order in which `workers` processes take them. A training
    whose updates were not seen is taken to be as fast as the others; what follows a training is known once one is over.
    more: whether anything follows.
    """

    def __init__(
        self,
        trainings: Mapping[Hashable, tuple[int, int]],
        workers: int,
        more: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = {name: _Training(updates, done, done) for name, (done, updates) in trainings.items()}
        self._workers, self._clock = workers, clock
        self._paces: list[float] = []  # of trainings that are over
        # seconds between the last update of a training and the end of its evaluation
        self._after: list[float] = [] if more else [0.0]

    def look(self, done: Mapping[Any, int], over: Iterable[Hashable] = ()) -> None:
        """done: updates by now. over: trainings that have been evaluated since the last look."""
        now = self._clock()
        for name, training in self._left.items():
            if done[name] > training.done:
                if training.since is None:  # before lie the start of a process and the reading of data
                    training.since, training.first = now, done[name]
                training.done, training.latest = done[name], now
                training.trained = now if training.done >= training.updates else None
        for name in over:
            training = self._left.pop(name)
            self._paces += [training.pace] if training.pace is not None else []
            self._after += [now - training.trained] if training.trained is not None else []

    @property
    def whole(self) -> bool:
        """Whether the estimate includes the work after a training, which is known once one has ended."""
        return bool(self._after)

    @property
    def seconds(self) -> float | None:
        """Seconds until all have ended (or are trained, if not `whole`); None before the first updates were measured."""
        paces = [*self._paces, *(training.pace for training in self._left.values() if training.pace is not None)]
        if not paces:
            return None
        mean_pace, after = sum(paces) / len(paces), sum(self._after) / len(self._after) if self._after else 0.0
        free = [0.0] * self._workers  # when each process will have time
        for training in self._left.values():
            heapq.heapreplace(free, free[0] + self._takes(training, mean_pace, after))
        return max(free)

    def _takes(self, training: _Training, mean_pace: float, after: float) -> float:
        """Seconds of a training from now on."""
        now = self._clock()
        if training.trained is not None:
            return max(0.0, after - (now - training.trained))
        # updates are written down some at a time
        since = now - training.latest if training.since is not None else 0.0
        return max(0.0, (training.updates - training.done) * (training.pace or mean_pace) - since) + after

    def words(self) -> str:
        """The remaining time in words; empty before the first measurement."""
        seconds = self.seconds
        if seconds is None:
            return ""
        about = f"about {duration(seconds)}"
        return f"{about} to go" if self.whole else f"{about} of training to go, then probes and evaluations"


def duration(seconds: float) -> str:
    """Rounded, as a person would say it."""
    if seconds < 90:
        return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def exact(seconds: float) -> str:
    """To the second, as what was measured: "9 min 5 s"."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{minutes} min"] if whole >= 60 else []), f"{whole % 60} s"])
