"""Results with a known answer, as studies get them: a function of the cell, the seed, the law and the horizon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core import artifact, run_folder
from sgjepa.core.artifact import RunRecord
from sgjepa.data.probe_targets import Targets
from sgjepa.evaluation.records import Coverage, EvaluationRecord, LawRecord, Scores, Settings
from sgjepa.experiments.chains import Chain
from sgjepa.experiments.study import Done
from sgjepa.laws import ClippedNormal
from sgjepa.results.compare import Method
from sgjepa.results.gather import Results
from sgjepa.results.load import Evaluation
from sgjepa.training.config import Run

LAWS = np.linspace(0.0, 8.0, 9)
EPISODES, HORIZONS = 6, 34  # of each law
SOURCES = ("predicted", "true", "one_step", "stay", "simulator", "constant_velocity")
TARGETS = Targets(("x", "z", "vx", "vz"), ("x", "z"), ("vx", "vz"), "", "", 1, 1 / 16)


@dataclass(frozen=True)
class Made:
    """What a cell came to. error: law (E,) and horizon (H,) -> (E, H) for a rollout. floor: of the probe on true frames.

    stray: by what share of themselves all its numbers differ from training to training.
    """

    error: Callable[[np.ndarray, np.ndarray], np.ndarray]
    floor: float = 0.01
    rank: float = 10.0
    probe: float = 0.02
    losses: tuple[float, ...] = (3.0, 2.0)
    sigreg: tuple[float, ...] = (2.0, 1.0)
    seconds: float = 10.0
    memory: float = 1.0
    stray: float = 0.0

    def of(self, name: str, seed: int) -> Made:
        """One training of it."""
        times = 1 + self.stray * float(np.random.default_rng([*name.encode(), seed]).normal())
        lists = {key: tuple(times * one for one in getattr(self, key)) for key in ("losses", "sigreg")}
        numbers = {key: times * getattr(self, key) for key in ("rank", "probe", "seconds")}
        return replace(self, error=lambda law, horizon: times * self.error(law, horizon), **lists, **numbers)


def flat(error: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The same at every law, growing with the horizon up to `error`."""
    return lambda law, horizon: error * (horizon / HORIZONS) * np.ones_like(law)


def done(folder: Path, runs: Sequence[Run], made: dict[str, Made], labels: Any, seeds: int = 1) -> Done:
    """A study whose cells came to this. Files are those that an analysis may read: run.json and rows.jsonl."""
    methods, chains = [], []
    for run in runs:
        found = []
        for seed in range(seeds):
            place = folder / f"{run.name}-seed{seed}"
            one = made[run.name].of(run.name, seed)
            _write_run(place, one)
            found.append(_evaluation(place, run.name, seed, one))
            chains.append(Chain(run, place, 2, cell=run.name))
        methods.append(Method(labels[run.name], tuple(found)))
    return Done(chains, Results(tuple(methods), methods[0]), folder)


def _write_run(place: Path, made: Made) -> None:
    run_folder.create(place, RunRecord({}, {}, artifact.provenance()))
    about = {"stage": "train", "split": "validation"}
    rows = [
        {**about, "step": i, "seconds": made.seconds, "loss": loss, "sigreg": sigreg}
        for i, (loss, sigreg) in enumerate(zip(made.losses, made.sigreg, strict=True), start=1)
    ]
    run_folder.append(place, [*rows, {"stage": "process", "step": 2, "peak_memory": made.memory}])


def _evaluation(place: Path, name: str, seed: int, made: Made) -> Evaluation:
    law = np.repeat(LAWS, EPISODES)[:, None]  # (E, 1)
    horizon = np.arange(1, HORIZONS + 1)[None]  # (1, H)
    noise = np.random.default_rng(seed).uniform(0.99, 1.01, (len(law), HORIZONS))
    of = {"predicted": made.error(law, horizon) * noise, "true": made.floor * noise}
    tables = []
    for source in SOURCES:
        values = of.get(source, 2.0 * noise).ravel()
        tables.append(
            {
                "source": np.full(values.size, source),
                "episode": np.repeat(np.arange(len(law), dtype=np.int32), HORIZONS),
                "horizon": np.tile(horizon[0].astype(np.int16), len(law)),
                "law.gravity": np.repeat(law[:, 0], HORIZONS),
                **dict.fromkeys(("nmse", "position_l2", "velocity_l2"), values),
                "excess_nmse": values - made.floor,
            }
        )
    table = {key: np.concatenate([part[key] for part in tables]) for key in tables[0]}
    about = EvaluationRecord(
        run=place.name,
        name=name,
        seed=seed,
        encoder=None,
        world="approach_ball",
        laws={"gravity": LawRecord("m/s^2", ClippedNormal(4.0, 0.5, 0.1))},
        coverage=Coverage(tuple((float(g),) for g in LAWS), tuple(1 + (LAWS - 4.0) ** 2)),
        targets=TARGETS,
        target_names=TARGETS.names,
        target_std=(1.0,) * 4,
        settings=Settings({}, "model", "data", "test", 2),
        scores=Scores(made.rank, {"validation_nmse": made.probe, "validation_nmse_by_target": {}}, len(law), HORIZONS, 0),
        provenance=artifact.provenance(),
    )
    return Evaluation(place / "predict" / "data-test", about, table, called=name)
