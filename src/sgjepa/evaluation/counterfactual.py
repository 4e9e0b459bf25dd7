"""Counterfactual laws: forecasts from the same frames with another law. If the model uses the law, the true one errs least.

The paper feeds g in {0, 2, 4, 6, 8} to test episodes of true g in {2, 4, 6}. With several laws, each law that varies is
changed in turn, and the others keep their true values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.core.tables import Table, join, write_table
from sgjepa.data.store import Dataset, Split, training_samplers
from sgjepa.evaluation import metrics
from sgjepa.evaluation.evaluate import ForecastConfig, folder_name, non_default_settings
from sgjepa.evaluation.forecast import blocks, imagine
from sgjepa.evaluation.probes import fit_to
from sgjepa.evaluation.records import MADE_BY
from sgjepa.laws import coordinates_moved_by
from sgjepa.models.base import WorldModel
from sgjepa.training import checkpoint
from sgjepa.training.config import Run
from sgjepa.training.latent_cache import latents_of

PAPER = {"true": (2.0, 4.0, 6.0), "given": (0.0, 2.0, 4.0, 6.0, 8.0)}


@dataclass(frozen=True)
class CounterfactualConfig:
    """True law values of the episodes, and values fed in. None: the paper's if they fit, else spread over the test laws."""

    true: tuple[float, ...] | None = None
    given: tuple[float, ...] | None = None
    forecast: ForecastConfig = field(default_factory=ForecastConfig)


def varying(split: Split) -> tuple[str, ...]:
    """Names of the laws that differ between the episodes."""
    return tuple(name for name, values in zip(split.laws, split.law.T, strict=True) if len(np.unique(values)) > 1)


def counterfactual(folder: Path, dataset: Dataset, cfg: CounterfactualConfig) -> Path:
    """Write counterfactual forecasts to `folder/counterfactual/<dataset>[-<settings>]`; a finished evaluation is reused.

    The table has a row per law, episode, given value and horizon. <settings> are those that are not the default.
    """
    run, model = checkpoint.load_run(folder)
    differs = non_default_settings(cfg.forecast, dataset.settings)
    out = folder / run_folder.COUNTERFACTUALS / folder_name(dataset.path.name, differs)
    settings = {
        "config": config.to_dict(cfg),
        "model": files.file_digest(folder / run_folder.MODEL),
        "data": dataset.test.digest,
    }
    with artifact.artifact(out, {"settings": settings}, MADE_BY, inside=folder) as new:
        if not new.finished:
            table = _measure(folder, run, model, dataset, cfg)
            write_table(new.path / run_folder.COUNTERFACTUAL_ROWS, table)
            new.about = {"laws": list(varying(dataset.test))}
    return out


def _measure(folder: Path, run: Run, model: WorldModel, dataset: Dataset, cfg: CounterfactualConfig) -> Table:
    """The table of errors, with a row per law, episode, given value and horizon."""
    part, names = dataset.test, varying(dataset.test)
    if not names:
        raise InputError(f"{dataset.path} has no law that varies: a model cannot be fed another value")
    fitted = fit_to(folder, run, model, dataset, cfg.forecast.probe)
    latents = latents_of(model, part, folder)
    context = cfg.forecast.context
    steps = cfg.forecast.steps or part.frames - context
    pairs = [(name, *pair) for name in names for pair in _pairs(dataset, name, cfg)]
    tables: list[Table] = []
    moved = coordinates_moved_by(part.laws)
    with progress(len(pairs), 0, f"counterfactual {folder.name}", "pairs") as bar:
        for name, true, fed in pairs:
            column = part.laws.index(name)
            numbers = np.flatnonzero(np.isclose(part.law[:, column], true))
            states = []
            for rows in blocks(numbers, latents, context + steps):
                z = torch.from_numpy(np.array(latents[numbers[rows], :context], dtype=np.float32))
                law = torch.tensor(part.law[numbers[rows]])
                law[:, column] = fed
                c = model.condition(torch.tensor(part.control[numbers[rows]]), law)
                states.append(imagine(model, fitted, z, c, steps, run.history)[0])
            truth = fitted.targets.of(part.state[numbers].astype(np.float64))[:, context : context + steps]
            guess = metrics.Guess(fitted.targets, np.concatenate(states)[:, 1:], truth, fitted.std, moved=moved)
            errors = metrics.errors(guess)
            count = len(numbers) * steps
            tables.append(
                {
                    "law": np.full(count, name),
                    "episode": np.repeat(numbers.astype(np.int32), steps),
                    "law.true": np.full(count, true),
                    "law.given": np.full(count, fed),
                    "horizon": np.tile(np.arange(1, steps + 1, dtype=np.int16), len(numbers)),
                    **{metric: values.ravel() for metric, values in errors.items()},
                }
            )
            bar.update(1)
    return join(tables)


def _pairs(dataset: Dataset, name: str, cfg: CounterfactualConfig) -> list[tuple[float, float]]:
    """Pairs of a law's true value and a value fed in, which may be equal."""
    values = np.unique(dataset.test.law[:, dataset.test.laws.index(name)].astype(float))
    if cfg.true is None and cfg.given is None:
        low, high = training_samplers(dataset)[name].bounds
        as_paper = name == "gravity" and np.isin(PAPER["given"], values).all() and low <= PAPER["true"][1] <= high
        true, fed = (PAPER["true"], PAPER["given"]) if as_paper else (_spread(values, 3), _spread(values, 5))
    else:
        true, fed = cfg.true or _spread(values, 3), cfg.given or _spread(values, 5)
    for value in true:
        if not np.isclose(values, value).any():
            raise InputError(f"{dataset.path} has no test episode with {name} = {value:g}")
    return [(value, other) for value in true for other in sorted({*fed, value})]


def _spread(values: np.ndarray, count: int) -> tuple[float, ...]:
    """`count` of the values, evenly spread and without the two ends."""
    inner = np.linspace(0, len(values) - 1, count + 2)[1:-1].round().astype(int)
    return tuple(dict.fromkeys(values[inner].tolist()))
