"""Is it the representation or the predictor that fails at a far gravity? A linear stand-in for trained models, band by band.

For SG-JEPA (GRU) and LeWM the theory's operators are fitted by least squares to latents of true frames and to the model's
own one-step predictions: operator error ‖A_W - Â‖, closure error ‖C_W‖ (what the latent has thrown away and the next latent
needs; offered are the probed physical quantities), for bands of training gravities and for each test gravity.
Surrogate analyses: how linear a model is in each band stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sgjepa.core import artifact
from sgjepa.core.stats import Interval, bootstrap, spearman
from sgjepa.core.tables import to_csv
from sgjepa.data.probe_targets import require_targets
from sgjepa.data.store import Dataset, Split, open_dataset, training_samplers
from sgjepa.evaluation.coverage import coverage_curve
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.experiments.sweep import over_trainings
from sgjepa.models.base import WorldModel
from sgjepa.models.rollout import one_step
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.panels import Picture
from sgjepa.report.sweep_figures import Curve, against_setting
from sgjepa.report.words import count, fixed
from sgjepa.theory.surrogate import Transitions, linear_surrogate
from sgjepa.training import checkpoint
from sgjepa.training.latent_cache import latents_of

METHODS = ("gru", "lewm")
PARTS = {
    "operator": "operator norm",
    "closure": "closure norm",
    "predictor_mse": "predictor error",
    "closure_mse": "closure error",
    "nonlinear": "nonlinear rest",
}
Record = dict[str, float | str | int]  # of one band
TABLE, SUMMARY = "tables/linear_surrogate.csv", "linear_surrogate.json"


def ranks(done: Done) -> Finding:
    """Fit the surrogates; the section says which part of the error grows with distance, a table beside it has them all."""
    records: list[dict[str, Any]] = []
    found: dict[str, list[list[float]]] = {}  # by method: one row of correlations per training seed
    fitted: dict[str, list[list[Record]]] = {}  # by method and training seed: its bands
    for job in done.jobs:
        dataset = open_dataset(done.datasets / job.run.data[0], verify=False)
        bands = surrogate_of(job.folder, dataset)
        records += [{"run": job.folder.name, **record} for record in bands]
        fitted.setdefault(job.name, []).append(bands)
        away = [record for record in bands if record["split"] == "test"]
        far = np.array([record["L_law"] for record in away])
        row = [spearman(far, np.array([record[name] for record in away]))[0] for name in PARTS]
        found.setdefault(job.name, []).append(row)
    labels = {method.name: method.label for method in done.results.methods}
    # one "episode": the spread is that of the training seeds alone
    summary = {labels[name]: bootstrap(np.array(rows)[:, None]) for name, rows in found.items()}
    about = {label: {part: asdict(one) for part, one in zip(PARTS, row, strict=True)} for label, row in summary.items()}
    summarised = {"rank_correlation_with_coverage": about, "provenance": artifact.provenance()}
    more = {TABLE: to_csv(records), SUMMARY: artifact.to_json(summarised)}
    seeds = len(next(iter(found.values())))
    cells = {label: tuple(_correlation(one, seeds) for one in row) for label, row in summary.items()}
    words = tuple(
        f"{label}: rank correlation with coverage over {len(away)} gravities, {count(seeds, 'training')}: "
        + ", ".join(f"{part} {cell}" for part, cell in zip(PARTS.values(), row, strict=True))
        + "."
        for label, row in cells.items()
    )
    if not away:
        words = ("No test gravity has enough episodes to fit a linear map to its latents.",)
    caption = (
        "Rank correlation over the test laws between coverage L_law and each part of the linear surrogate's one-step error;"
        f" every band: {TABLE}."
    )
    rows = tuple((label, *row) for label, row in cells.items())
    pictures = tuple(_pictures({labels[name]: bands for name, bands in fitted.items()}))
    shown = "Each part of the surrogate's error at every test gravity; whiskers are 95 % intervals over trainings."
    return Finding("Representation or predictor?", words, caption, ("method", *PARTS.values()), rows, more, pictures, shown)


def _pictures(fitted: Mapping[str, Sequence[Sequence[Record]]]) -> list[Picture]:
    """Every part by test gravity, a line for each method."""
    found: list[Picture] = []
    for part, name in PARTS.items():
        curves: dict[str, Curve] = {}
        for label, seeds in fitted.items():
            by_law: dict[float, list[float]] = {}
            for record in (record for bands in seeds for record in bands if record["split"] == "test"):
                by_law.setdefault(float(record["gravity"]), []).append(float(record[part]))
            curves[label] = [(g, over_trainings(values)) for g, values in by_law.items()]
        found += against_setting(f"linear_surrogate_{part}", name, "gravity (m/s²)", name, curves)
    return found


def _correlation(one: Interval, seeds: int) -> str:
    """With its interval over trainings, if there are several; it cannot lie beyond 1."""
    low, high = (fixed(min(max(end, -1.0), 1.0), 2) for end in (one.low, one.high))
    return fixed(one.mean, 2) + (f" ({low} to {high})" if seeds > 1 else "")


def surrogate_of(folder: Path, dataset: Dataset) -> list[Record]:
    """One record for each band of training gravities and each test gravity."""
    run, model = checkpoint.load_run(folder)
    (sampler,) = training_samplers(dataset).values()
    # as wide as the training gravities spread: 0.5 m/s^2 in the planar worlds, 2 where a ball flies
    training = _bands(folder, model, dataset, dataset.train, run.history, width=sampler.std)
    test = _bands(folder, model, dataset, dataset.test, run.history, width=None)
    # a band's name tells the split: a training band around 4 and the test gravity 4 are different episodes
    keys = {("train", g): i for i, g in enumerate(training)} | {("test", g): len(training) + i for i, g in enumerate(test)}
    found = linear_surrogate(
        {keys["train", g]: band for g, band in training.items()}, {keys["test", g]: band for g, band in test.items()}
    )
    covered = coverage_curve(dataset.train.law[:, 0], np.array([g for _, g in keys]))
    return [
        {
            "split": split,
            "gravity": g,
            "L_law": float(covered[number]),
            "transitions": band.n,
            "operator": band.operator,
            "closure": band.closure,
            "predictor_mse": band.predictor_mse,
            "closure_mse": band.closure_mse,
            "residual_mse": band.residual_mse,
            "nonlinear": band.nonlinear,
        }
        for (split, g), number in keys.items()
        for band in [found.bands[number]]
    ]


@torch.no_grad()
def _bands(
    folder: Path, model: WorldModel, dataset: Dataset, split: Split, history: int, width: float | None
) -> dict[float, Transitions]:
    """Transitions of a split by gravity; with a width, training gravities are put into bands, and thin ones left out."""
    z = np.asarray(latents_of(model, split, folder), np.float32)
    law = split.law[:, 0].astype(np.float64)
    band = law if width is None else np.round(law / width) * width
    extra = require_targets(split).of(split.state.astype(np.float64))
    latent = torch.tensor(z)
    found = {}
    for g in np.unique(band):
        rows = np.flatnonzero(band == g)
        features = z.shape[2] + 1 + extra.shape[2]
        if len(rows) * (split.frames - history) <= 4 * features:
            continue
        c = model.condition(torch.tensor(split.control[rows]), torch.tensor(split.law[rows]))
        predicted = one_step(model, latent[rows], c, history)
        found[float(g)] = Transitions(
            z=_flat(z[rows, history - 1 : -1]),
            extra=_flat(extra[rows, history - 1 : -1]),
            z_next=_flat(z[rows, history:]),
            z_predicted=_flat(predicted.numpy()),
        )
    return found


def _flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[2]).astype(np.float64)


EXPERIMENT = Experiment(
    name="linear_surrogate",
    question="Is it the representation or the predictor that fails at a far gravity?",
    claim="The one-step error grows with the distance of a law from the training laws, as the coverage bound says.",
    arms=lambda size: [Training(recipe(f"{WORLDS[size]}_{name}", size)) for name in METHODS],
    analyse=ranks,
)
