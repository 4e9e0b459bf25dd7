"""How long runs side by side will still take, from nothing but what was measured of them since they began."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass
class _Seen:
    """A run that is not over. Of `updates` in all, `first` were done at `since` and `done` at `latest`.

    since: None before the first updates that were seen to be made. trained: when the last one was.
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
    """Look at the runs now and then, and it says how long all of them will take from there.

    runs: updates done and updates in all, by folder, in the order in which `workers` processes take them. A run whose
    updates were not seen is taken to be as fast as the others; what follows a training is known once one run is over.
    evaluated: whether anything follows.
    """

    def __init__(
        self,
        runs: Mapping[Path, tuple[int, int]],
        workers: int,
        evaluated: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = {folder: _Seen(updates, done, done) for folder, (done, updates) in runs.items()}
        self._workers, self._clock = workers, clock
        self._paces: list[float] = []  # of runs that are over
        # seconds between the last update of a training and the end of its evaluation
        self._after: list[float] = [] if evaluated else [0.0]

    def look(self, done: Mapping[Path, int], over: Iterable[Path] = ()) -> None:
        """done: updates by now. over: runs that have been evaluated since the last look."""
        now = self._clock()
        for folder, one in self._left.items():
            if done[folder] > one.done:
                if one.since is None:  # before lie the start of a process and the reading of data
                    one.since, one.first = now, done[folder]
                one.done, one.latest = done[folder], now
                one.trained = now if one.done >= one.updates else None
        for folder in over:
            one = self._left.pop(folder)
            self._paces += [one.pace] if one.pace is not None else []
            self._after += [now - one.trained] if one.trained is not None else []

    @property
    def whole(self) -> bool:
        """Whether the estimate holds what follows a training; if not, nobody has seen it yet."""
        return bool(self._after)

    @property
    def seconds(self) -> float | None:
        """Until all runs are over, or trained if it is not the whole; None before the first updates were measured."""
        paces = [*self._paces, *(one.pace for one in self._left.values() if one.pace is not None)]
        if not paces:
            return None
        usual, after = sum(paces) / len(paces), sum(self._after) / len(self._after) if self._after else 0.0
        free = [0.0] * self._workers  # when each process will have time
        for one in self._left.values():
            heapq.heapreplace(free, free[0] + self._takes(one, usual, after))
        return max(free)

    def _takes(self, one: _Seen, usual: float, after: float) -> float:
        """Of one run, from now on."""
        now = self._clock()
        if one.trained is not None:
            return max(0.0, after - (now - one.trained))
        since = now - one.latest if one.since is not None else 0.0  # updates are written down some at a time
        return max(0.0, (one.updates - one.done) * (one.pace or usual) - since) + after

    def words(self) -> str:
        """For a person; nothing before there is a measurement."""
        seconds = self.seconds
        if seconds is None:
            return ""
        about = f"about {duration(seconds)}"
        return f"{about} to go" if self.whole else f"{about} of training to go, then probes and evaluations"


def duration(seconds: float) -> str:
    """As one would say it."""
    if seconds < 90:
        return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def exact(seconds: float) -> str:
    """What was measured: "9 min 5 s"."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{minutes} min"] if whole >= 60 else []), f"{whole % 60} s"])
