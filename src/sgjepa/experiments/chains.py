"""Several runs from training to evaluation, side by side: one process per core, one thread each.

On a CPU two trainings with a thread each get more done than one with two. A run that starts from another one's weights
waits for it. Every stage of every run is kept: interrupted, the same call goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sgjepa.core import errors, run_folder
from sgjepa.core import threads as machine
from sgjepa.core.errors import InputError, MachineError, one_line
from sgjepa.core.processes import end, executor, submit
from sgjepa.core.progress import progress
from sgjepa.experiments.remaining import Remaining
from sgjepa.training.config import Run

if TYPE_CHECKING:  # a process says first how many threads torch may have
    from sgjepa.data.store import Dataset
    from sgjepa.evaluation.evaluate import ForecastConfig

_POLL = 2.0  # seconds between looks at the runs' rows


@dataclass(frozen=True)
class Chain:
    """One run and what follows its training."""

    run: Run
    folder: Path
    updates: int  # of its training, for the progress bar
    counterfactual: bool = False
    split: str = "test"  # or "validation", for what chooses settings
    probe: Literal["mlp", "linear"] = "mlp"
    evaluated: bool = True
    context: int | None = None  # true frames that the evaluation is given; None: the usual number
    cell: str = ""  # what the study calls it; else as the run itself
    judged_on: str | None = None  # the dataset it is probed and evaluated on; None: the first of the run's

    @property
    def name(self) -> str:
        return self.cell or self.run.name

    @property
    def data(self) -> str:
        """The dataset it is judged on."""
        return self.judged_on or self.run.data[0]


def run_chains(chains: Sequence[Chain], datasets: Path, workers: int | None = None) -> None:
    """Train, probe and evaluate every run; shows one bar for all. What each process says goes to `<run>.log` beside it.

    How long it will take is said once the first updates were measured, and again whenever a run is over.
    datasets: where the runs' datasets lie; each run is evaluated on the one that its chain names.
    """
    workers = min(len(chains), workers or machine.cores())
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(max(1, machine.cores() // workers))  # what the processes start with
    pool = executor(workers)
    total = sum(chain.updates for chain in chains)
    try:
        left, working = list(chains), _submit(chains, chains, pool, datasets)
        steps = _steps(chains)
        done, there = sum(steps.values()), {chain.folder: (steps[chain.folder], chain.updates) for chain in chains}
        remaining = Remaining(there, workers, any(chain.evaluated for chain in chains))
        said = False
        with progress(total, done, f"{len(chains)} runs", "steps", left=False) as bar:
            while left:
                finished, _ = wait(working, timeout=_POLL, return_when=FIRST_COMPLETED)
                steps = _steps(chains)
                now = sum(steps.values())
                bar.update(now - done)
                done, over = now, []
                for future in finished:
                    chain = working.pop(future)
                    _raise(future, chain)
                    left.remove(chain)
                    over.append(chain.folder)
                    followers = [other for other in left if other.run.init == str(chain.folder)]
                    working |= _submit(followers, left, pool, datasets)
                remaining.look(steps, over)
                words = remaining.words() if left else ""
                bar.set_postfix_str(words or f"{len(left)} to go", refresh=False)
                if words and (over or not said):
                    bar.write(f"   measured over {now:,} of {total:,} updates: {words}", file=sys.stdout)
                    sys.stdout.flush()
                    said = True
    except BaseException:
        end(pool)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads


def _submit(
    chains: Sequence[Chain], left: Sequence[Chain], pool: ProcessPoolExecutor, datasets: Path
) -> dict[Future[None], Chain]:
    """Start those chains that wait for none of what is left. Ctrl-C is this process's: it ends the others (`end`)."""
    unfinished = {str(chain.folder) for chain in left}
    ready = [chain for chain in chains if chain.run.init not in unfinished]
    return dict(zip(submit(pool, _work, *((chain, datasets) for chain in ready)), ready, strict=True))


def evaluation_of(chain: Chain, datasets: Path) -> str:
    """The name of its evaluation: a run that several studies share may have others too."""
    from sgjepa.data.store import open_dataset
    from sgjepa.evaluation.evaluate import evaluation_name

    dataset = open_dataset(datasets / chain.data, verify=False)
    return evaluation_name(dataset, _forecast(chain, dataset), chain.split)


def _forecast(chain: Chain, dataset: Dataset) -> ForecastConfig:
    """How it is evaluated."""
    from sgjepa.evaluation.evaluate import usual_forecast

    usual = usual_forecast(dataset.settings, chain.probe)
    return usual if chain.context is None else replace(usual, context=chain.context)


def log_of(folder: Path) -> Path:
    """What the processes of a run have printed."""
    return folder.with_name(f"{folder.name}.log")


def _work(chain: Chain, datasets: Path) -> None:
    """In a process of its own: from nothing to the evaluation."""
    machine.prepare()
    from sgjepa.data.store import open_dataset
    from sgjepa.evaluation.counterfactual import CounterfactualConfig, counterfactual, varying
    from sgjepa.evaluation.evaluate import evaluate

    chain.folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        log_of(chain.folder).open("a", encoding="utf-8") as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        try:
            _train(chain, datasets)
            if not chain.evaluated:
                return
            dataset = open_dataset(datasets / chain.data)
            settings = _forecast(chain, dataset)
            evaluate(chain.folder, dataset, settings, chain.split)
            if chain.counterfactual and varying(dataset.test):
                counterfactual(chain.folder, dataset, CounterfactualConfig(forecast=settings))
        except InputError:
            raise
        except KeyboardInterrupt as stop:
            print(stop, file=log, flush=True)
            os._exit(1)  # a training has saved its last update; a pool's process would take up the next run
        except Exception as error:  # a process pool loses the traceback's text
            traceback.print_exc(file=log)
            known = errors.expected(error) or RuntimeError(f"{type(error).__name__}: {one_line(error, 160)}")
            raise type(known)(f"{known} (the whole story: {log_of(chain.folder)})") from None


def _train(chain: Chain, datasets: Path) -> None:
    """And note the most memory that it took, unless it was finished before."""
    from sgjepa.training.world_model import train

    finished = (chain.folder / run_folder.MODEL).is_file()
    machine.forget_peak_memory()
    train(chain.run, chain.folder, datasets)
    if not finished:
        note = {"stage": "process", "step": chain.updates, "peak_memory": machine.peak_memory()}
        run_folder.append(chain.folder, [note])


def _raise(future: Future[None], chain: Chain) -> None:
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        error = MachineError(f"the process ended early ({one_line(error, 80)}); see {log_of(chain.folder)}")
    if isinstance(error, InputError | RuntimeError):
        raise type(error)(f"{chain.folder.name}: {error}")
    if error is not None:
        raise error


def _steps(chains: Sequence[Chain]) -> dict[Path, int]:
    """Updates done so far by each run."""
    return {chain.folder: steps_there(chain) for chain in chains}


def steps_there(chain: Chain) -> int:
    """Updates done so far, from the end of a run's rows."""
    if (chain.folder / run_folder.MODEL).is_file():  # also one that stopped early
        return chain.updates
    return min(chain.updates, _last_step(chain.folder / run_folder.ROWS))


def _last_step(path: Path) -> int:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().split(b"\n")
    except OSError:
        return 0
    for line in reversed(lines[:-1]):  # the last is empty or torn
        with contextlib.suppress(ValueError):
            return int(json.loads(line).get("step", 0))
    return 0
