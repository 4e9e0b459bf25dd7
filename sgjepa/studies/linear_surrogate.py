"""Is it the representation or the predictor that fails at a far gravity? A linear stand-in for trained models, band by band.

For SG-JEPA (GRU) and LeWM the theory's operators are fitted by least squares to latents of true frames and to the model's
own one-step predictions: operator error ‖A_W - Â‖, closure error ‖C_W‖ (what the latent has thrown away and the next latent
needs; offered are the probed physical quantities), for bands of training gravities and for each test gravity.
Surrogate analyses: how linear a model is in each band stands beside them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from sgjepa.core import files
from sgjepa.core.stats import spearman
from sgjepa.core.tables import to_csv
from sgjepa.data.store import Dataset, Split, open_dataset
from sgjepa.evaluation.coverage import coverage_curve
from sgjepa.evaluation.probe import targets_in
from sgjepa.models.base import WorldModel
from sgjepa.models.rollout import one_step
from sgjepa.recipes.training import recipe
from sgjepa.report.html import Finding
from sgjepa.report.words import fixed
from sgjepa.studies.chains import run_chains, study_chains
from sgjepa.studies.outcome import Outcome
from sgjepa.theory.surrogate import Transitions, linear_surrogate
from sgjepa.training import checkpoint
from sgjepa.training.latents import latents_of

METHODS = ("gru", "lewm")
BAND = 0.5  # m/s^2, width of a band of training gravities
_PARTS = {
    "operator": "operator norm",
    "closure": "closure norm",
    "predictor_mse": "predictor error",
    "closure_mse": "closure error",
    "nonlinear": "nonlinear rest",
}
TABLE, SUMMARY = "linear_surrogate.csv", "linear_surrogate.json"


def main(runs: Path, datasets: Path, size: str, seeds: int, updates: int | None = None) -> Outcome:
    """Train and evaluate the models if need be, fit the surrogates, write a table beside the runs."""
    chains = study_chains([recipe(f"square_{name}", size) for name in METHODS], runs, datasets, size, seeds, updates)
    run_chains(chains, datasets)
    records, summary = [], {}
    for chain in chains:
        dataset = open_dataset(datasets / chain.run.data[0], verify=False)
        found = surrogate_of(chain.folder, dataset)
        records += [{"run": chain.folder.name, **record} for record in found]
        away = [record for record in found if record["split"] == "test"]
        summary[chain.folder.name] = {
            name: dict(
                zip(
                    ("spearman", "gravities"),
                    spearman(*(np.array([r[k] for r in away]) for k in ("L_law", name))),
                    strict=True,
                )
            )
            for name in _PARTS
        }
    out = runs.parent
    files.write_bytes(out / TABLE, to_csv(records).encode())
    files.write_json(out / SUMMARY, {"rank_correlation_with_coverage": summary, "provenance": files.provenance()})
    print(f"every band: {out / TABLE}")
    return Outcome([chain.folder for chain in chains], lambda _: _ranks(summary))


def _ranks(summary: dict[str, dict[str, dict[str, float]]]) -> Finding:
    """The report's section: which part of the error grows with the distance from the training laws?"""
    words = tuple(
        f"{name}: rank correlation with coverage over {ranks['operator']['gravities']:g} gravities: "
        + ", ".join(f"{_PARTS[key]} {fixed(value['spearman'], 2)}" for key, value in ranks.items())
        + "."
        for name, ranks in summary.items()
    )
    rows = tuple((name, *(fixed(ranks[key]["spearman"], 2) for key in _PARTS)) for name, ranks in summary.items())
    caption = (
        "Rank correlation over the test laws between coverage L_law and each part of the linear surrogate's one-step error."
    )
    return Finding("Representation or predictor?", words, caption, ("run", *_PARTS.values()), rows)


def surrogate_of(folder: Path, dataset: Dataset) -> list[dict[str, float | str | int]]:
    """One record for each band of training gravities and each test gravity."""
    run, model = checkpoint.load_run(folder)
    training = _bands(folder, model, dataset, dataset.train, run.history, width=BAND)
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
    extra = targets_in(dataset).of(split.state.astype(np.float64))
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
