"""What a study will cost, before it starts: how many trainings, which are there, how long the rest takes on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from sgjepa.core import run_folder
from sgjepa.core import threads as machine
from sgjepa.experiments.chains import Chain, steps_there
from sgjepa.experiments.remaining import duration
from sgjepa.training.config import Run
from sgjepa.training.losses import RolloutLoss
from sgjepa.training.profile import outline, steps

_WORTH = 100  # updates of one kind that are left; for fewer, timing them would take as long as they do


@dataclass(frozen=True)
class Budget:
    """updates: still to be made. seconds: that they take, None where there are too few to be timed."""

    study: str
    trainings: int
    finished: int
    begun: int
    updates: int
    seconds: float | None
    processes: int

    def words(self, runs: Path, page: Path) -> str:
        """For a person, before the work."""
        left = self.trainings - self.finished
        there = f"{self.finished} of them there already" + (f", {self.begun} begun" if self.begun else "")
        said = f"{self.study}: {machine.counted(self.trainings, 'training')}, {there}"
        if left:
            took = "" if self.seconds is None else f", about {duration(self.seconds)} on {_processes(self.processes)}"
            said += f"; {self.updates:,} updates to go{took}, and probes and evaluations"
        return f"{said}\n  trainings  {runs}\n  report     {page}"


def budget(study: str, chains: Sequence[Chain], workers: int | None) -> Budget:
    """Look at what is there, and time a few updates of each kind of run that is not."""
    processes = min(len(chains), workers or machine.cores())
    finished = [chain for chain in chains if (chain.folder / run_folder.MODEL).is_file()]
    left = {chain: chain.updates - steps_there(chain) for chain in chains if chain not in finished}
    kinds: dict[Run, int] = {}
    for chain, updates in left.items():
        kind = _kind(chain.run)
        kinds[kind] = kinds.get(kind, 0) + updates
    timed = {kind: _seconds(kind, processes) for kind, updates in kinds.items() if updates >= _WORTH}
    return Budget(
        study=study,
        trainings=len(chains),
        finished=len(finished),
        begun=sum(updates < chain.updates for chain, updates in left.items()),
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
    """Of an update, with the threads that each of so many processes will have."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, machine.cores() // processes))
    try:
        return float(steps(run, outline(run))["time"]["seconds_per_step"])
    finally:
        torch.set_num_threads(threads)


def _processes(number: int) -> str:
    return "one process" if number == 1 else f"{number} processes"
