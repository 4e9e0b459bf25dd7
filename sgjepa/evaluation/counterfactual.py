"""Counterfactual laws: the same frames, another law told to the model. If it uses the law, the true one errs least.

The paper feeds g in {0, 2, 4, 6, 8} to test episodes of true g in {2, 4, 6}.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from sgjepa.core import config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.core.tables import Table, join, write_table
from sgjepa.data.store import Dataset
from sgjepa.evaluation.forecast import PredictConfig, blocks, imagine
from sgjepa.evaluation.probe import fit_to
from sgjepa.training import checkpoint
from sgjepa.training.latents import latents_of


@dataclass(frozen=True)
class CounterfactualConfig:
    """Laws of the episodes, laws told to the model; the rest as for `predict`."""

    true: tuple[float, ...] = (2.0, 4.0, 6.0)
    given: tuple[float, ...] = (0.0, 2.0, 4.0, 6.0, 8.0)
    predict: PredictConfig = field(default_factory=PredictConfig)


def counterfactual(folder: Path, dataset: Dataset, cfg: CounterfactualConfig) -> Path:
    """Write `folder/counterfactual/<dataset>`: one row an episode, given law and horizon. Done before: kept."""
    run, model = checkpoint.load_run(folder)
    place = folder / run_folder.COUNTERFACTUALS / dataset.path.name
    settings = {
        "config": config.to_dict(cfg),
        "model": files.digest(folder / run_folder.MODEL),
        "data": dataset.test.digest,
    }
    about = place / run_folder.COUNTERFACTUAL
    if run_folder.kept(about, settings):
        return place
    part = dataset.test
    if len(part.laws) != 1:
        raise InputError(f"{dataset.path} has {len(part.laws)} laws; a counterfactual needs one")
    fitted = fit_to(folder, run, model, dataset, cfg.predict.probe)
    latents = latents_of(model, part, folder)
    context = cfg.predict.context
    steps = cfg.predict.steps or part.frames - context
    tables: list[Table] = []
    with progress(len(cfg.true) * len(cfg.given), 0, f"counterfactual {folder.name}", " pairs") as bar:
        for true in cfg.true:
            numbers = np.flatnonzero(np.isclose(part.law[:, 0], true))
            if len(numbers) == 0:
                raise InputError(f"{dataset.path} has no test episode with {part.laws[0]} = {true:g}")
            wanted = fitted.targets.of(part.state[numbers].astype(np.float64))[:, context : context + steps]
            for given in cfg.given:
                states = []
                for rows in blocks(numbers, latents, context + steps):
                    z = torch.from_numpy(np.array(latents[numbers[rows], :context], dtype=np.float32))
                    law = torch.full((len(rows), 1), given)
                    c = model.condition(torch.tensor(part.control[numbers[rows]]), law)
                    states.append(imagine(model, fitted, z, c, steps, run.history)[0])
                errors = fitted.targets.errors(np.concatenate(states)[:, 1:], wanted, fitted.std)
                tables.append(
                    {
                        "episode": np.repeat(numbers.astype(np.int32), steps),
                        "law.true": np.full(len(numbers) * steps, true),
                        "law.given": np.full(len(numbers) * steps, given),
                        "horizon": np.tile(np.arange(1, steps + 1, dtype=np.int16), len(numbers)),
                        **{name: values.ravel() for name, values in errors.items()},
                    }
                )
                bar.update(1)
    place.mkdir(parents=True, exist_ok=True)
    about.unlink(missing_ok=True)
    write_table(place / run_folder.COUNTERFACTUAL_ROWS, join(tables))
    files.write_json(about, {"settings": settings, "law": part.laws[0], "provenance": files.provenance()})
    return place
