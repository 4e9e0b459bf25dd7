"""What an experiment will cost, before it starts: trainings, those that are finished, and how long the rest takes here."""

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

_WORTH = 100  # updates of one kind that are left; for fewer, timing them would take as long as they do


@dataclass(frozen=True)
class Cost:
    """updates: still to be made. seconds: that they take, None where there are too few to be timed."""

    trainings: int
    finished: int
    begun: int
    updates: int
    seconds: float | None
    processes: int

    def words(self, experiment: str) -> str:
        """For a person, before the work."""
        kept = f"{self.finished} of them there already" + (f", {self.begun} begun" if self.begun else "")
        message = f"{experiment}: {counted(self.trainings, 'training')}, {kept}"
        if self.trainings == self.finished:
            return message
        processes = "one process" if self.processes == 1 else f"{self.processes} processes"
        time = "" if self.seconds is None else f", about {duration(self.seconds)} on {processes}"
        return f"{message}; {self.updates:,} updates to go{time}, and probes and evaluations"


def cost(jobs: Sequence[Job], workers: int | None) -> Cost:
    """Look at what is finished, and time a few updates of each kind of training that is not."""
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
    """Runs that take equally long have the same one: rates and weights make no difference."""
    loss = replace(run.loss, sigreg=float(run.loss.sigreg > 0))
    loss = replace(loss, discount=1.0) if isinstance(loss, RolloutLoss) else loss
    optim = replace(run.optim, lr=1.0, lr_matrix=1.0)
    return replace(run, name="", data=run.data[:1], init=None, seed=0, loss=loss, optim=optim)


def _seconds(run: Run, processes: int) -> float:
    """One update's, with the threads that each of so many processes will have."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, threads.cores() // processes))
    try:
        return float(steps(run, outline(run))["time"]["seconds_per_step"])
    finally:
        torch.set_num_threads(before)
