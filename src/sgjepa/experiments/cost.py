"""The cost of an experiment before it starts: trainings, finished ones, and the time of the rest on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from sgjepa.core import threads
from sgjepa.core.threads import counted
from sgjepa.experiments.arms import Job
from sgjepa.experiments.runner import duration
from sgjepa.training.config import Run
from sgjepa.training.losses import RolloutLoss
from sgjepa.training.profile import outline, steps

_WORTH = 100  # remaining updates of one kind for which timing is worth it


@dataclass(frozen=True)
class Cost:
    """The cost of an experiment. updates: remaining. seconds: of these, None if they are too few to time."""

    trainings: int
    finished: int
    begun: int
    updates: int
    seconds: float | None
    processes: int

    def words(self, experiment: str) -> str:
        """The cost in words."""
        progress = f"{self.finished} of them finished" + (f", {self.begun} started" if self.begun else "")
        message = f"{experiment}: {counted(self.trainings, 'training')}, {progress}"
        if self.trainings == self.finished:
            return message
        processes = "one process" if self.processes == 1 else f"{self.processes} processes"
        time = "" if self.seconds is None else f", about {duration(self.seconds)} on {processes}"
        return f"{message}; {self.updates:,} updates to go{time}, and probes and evaluations"


def cost(jobs: Sequence[Job], workers: int | None) -> Cost:
    """The cost of jobs; a few updates of each kind of unfinished training are timed."""
    processes = min(len(jobs), workers or threads.cores())
    left = {job: job.updates - job.updates_done() for job in jobs if not job.finished}
    kinds: dict[Run, int] = {}
    for job, updates in left.items():
        kind = _kind(job.run)
        kinds[kind] = kinds.get(kind, 0) + updates
    timed = {kind: _seconds(kind, processes) for kind, updates in kinds.items() if updates >= _WORTH}
    return Cost(
        trainings=len(jobs),
        finished=len(jobs) - len(left),
        begun=sum(updates < job.updates for job, updates in left.items()),
        updates=sum(left.values()),
        seconds=sum(timed[kind] * kinds[kind] for kind in timed) / processes if timed else None,
        processes=processes,
    )


def _kind(run: Run) -> Run:
    """A key that is equal for runs that take equal time, which rates and weights do not change."""
    loss = replace(run.loss, sigreg=float(run.loss.sigreg > 0))
    loss = replace(loss, discount=1.0) if isinstance(loss, RolloutLoss) else loss
    optim = replace(run.optim, lr=1.0, lr_matrix=1.0)
    return replace(run, name="", data=run.data[:1], init=None, seed=0, loss=loss, optim=optim)


def _seconds(run: Run, processes: int) -> float:
    """Seconds of an update with the number of threads that each process will have."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, threads.cores() // processes))
    try:
        return float(steps(run, outline(run))["time"]["seconds_per_step"])
    finally:
        torch.set_num_threads(before)
