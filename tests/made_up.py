"""Evaluations with errors that a test chooses, for analyses whose answer is then known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from sgjepa.core.stats import Interval
from sgjepa.evaluation.records import LawRecord
from sgjepa.experiments.study import Done
from sgjepa.laws import ClippedNormal
from sgjepa.results.compare import Method
from sgjepa.results.gather import Results
from sgjepa.results.load import Evaluation

HORIZONS = 44
LAWS = np.tile(np.arange(-2.0, 10.5, 0.5), 4)  # (100,) the planar test laws, four episodes each
Errors = Mapping[str, np.ndarray]  # by metric, (episodes, horizons)


def noise(seed: int, size: float = 0.05) -> np.ndarray:
    """(episodes, horizons) around zero; what two cells share cancels in a paired difference."""
    return np.random.default_rng(seed).normal(0, size, (len(LAWS), HORIZONS))


def evaluation(name: str, world: str, seed: int, errors: Mapping[str, Errors], states: Errors | None = None) -> Evaluation:
    """errors: by source. states: what the probe read of each source, (episodes, horizons, targets)."""
    count = len(LAWS)
    metrics = dict.fromkeys(metric for by_metric in errors.values() for metric in by_metric)
    table = {
        "source": np.repeat(list(errors), count * HORIZONS).astype(object),
        "episode": np.tile(np.repeat(np.arange(count), HORIZONS), len(errors)),
        "horizon": np.tile(np.arange(1, HORIZONS + 1), count * len(errors)),
        "law.gravity": np.tile(np.repeat(LAWS, HORIZONS), len(errors)),
    }
    table |= {metric: np.concatenate([by[metric].ravel() for by in errors.values()]) for metric in metrics}
    targets = SimpleNamespace(names=("x", "v"))
    about = SimpleNamespace(
        name=name,
        seed=seed,
        world=world,
        encoder=None,
        coverage=None,
        laws={"gravity": LawRecord("m/s^2", ClippedNormal(4.0, 0.5, 0.1))},
        targets=targets,
        target_std=(2.0, 4.0),
        scores=SimpleNamespace(probe={"validation_nmse": 0.02}),
    )
    one = Evaluation(Path(f"runs/{name}-seed{seed}/predict/data-test"), about, table)
    if states is not None:
        columns = {f"{source}.{target}": y[..., i].ravel() for source, y in states.items() for i, target in enumerate("xv")}
        one.__dict__["_states"] = columns  # in place of the file
    return one


def done(world: str, cells: Mapping[str, Sequence[Evaluation]]) -> Done:
    """A study of these cells, each with its seeds."""
    methods = tuple(Method(name, tuple(seeds)) for name, seeds in cells.items())
    return Done([], Results(methods, methods[0]), Path("datasets"))


def holds(one: Interval, truth: float) -> bool:
    return one.low <= truth <= one.high
