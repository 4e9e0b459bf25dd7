"""Is it the representation or the predictor that fails at a far gravity? A linear stand-in for trained models, band by band.

For SG-JEPA (GRU) and LeWM the theory's operators are fitted by least squares to latents of true frames and to the model's
own one-step predictions: operator error ‖A_W - Â‖, closure error ‖C_W‖ (what the latent has thrown away and the next latent
needs; offered are the probed physical quantities), for bands of training gravities and for each test gravity.
Surrogate analyses: how linear a model is in each band stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from sgjepa.core.stats import Interval, bootstrap, spearman
from sgjepa.data.probe_targets import require_targets
from sgjepa.data.store import Dataset, Split, open_dataset, training_samplers
from sgjepa.evaluation.coverage import coverage_curve
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.experiments.sweep import over_trainings
from sgjepa.models.base import WorldModel
from sgjepa.models.rollout import one_step
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Block, Data
from sgjepa.report.figures import against_setting
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
BandRecord = dict[str, float | str | int]


def ranks(evidence: Evidence) -> Answer:
    """Fit the surrogates; which part of the error grows with distance, and every band in a file."""
    results = evidence.results
    dataset = open_dataset(evidence.datasets / results.about.dataset, verify=False)
    fitted = {arm: [surrogate_of(run.run, dataset) for run in results.evaluations(arm)] for arm in results.arms}
    records = [
        {"run": run.run.name, **record}
        for arm, seeds in fitted.items()
        for run, bands in zip(results.evaluations(arm), seeds, strict=True)
        for record in bands
    ]
    tested = {arm: [[r for r in bands if r["split"] == "test"] for bands in seeds] for arm, seeds in fitted.items()}
    correlations = {arm: np.array([_correlations(bands) for bands in seeds]) for arm, seeds in tested.items()}
    # one "episode": the spread is that of the training seeds alone
    summary = {arm: bootstrap(rows[:, None]) for arm, rows in correlations.items()}
    cells = {arm: [_cell(interval, len(tested[arm])) for interval in row] for arm, row in summary.items()}
    seeds, laws = len(next(iter(tested.values()))), len(next(iter(tested.values()))[0])
    words = [
        f"{arm}: rank correlation with coverage over {laws} gravities, {count(seeds, 'training')}: "
        f"{', '.join(f'{part} {cell}' for part, cell in zip(PARTS.values(), row, strict=True))}."
        for arm, row in cells.items()
    ]
    if not laws:
        words = ["No test gravity has enough episodes to fit a linear map to its latents."]
    caption = (
        "Rank correlation over the test laws between coverage L_law and each part of the linear surrogate's one-step error;"
        " every band: tables/linear_surrogate.csv."
    )
    summarised = [
        {"method": arm, "part": part, **interval.numbers}
        for arm, row in summary.items()
        for part, interval in zip(PARTS, row, strict=True)
    ]
    table = main_table(("method", *PARTS.values()), [(arm, *row) for arm, row in cells.items()], caption)
    data = [Data("linear_surrogate", records), Data("linear_surrogate_ranks", summarised)]
    return Answer("Representation or predictor?", words, [*_figures(tested), table, *data])


def _correlations(bands: Sequence[BandRecord]) -> list[float]:
    """Rank correlations of coverage with each part of the error, over the test gravities."""
    far = np.array([record["L_law"] for record in bands])
    return [spearman(far, np.array([record[part] for record in bands]))[0] for part in PARTS]


def _figures(tested: Mapping[str, Sequence[Sequence[BandRecord]]]) -> list[Block | None]:
    """Every part by test gravity, a line for each method."""
    drawn: list[Block | None] = []
    for part, name in PARTS.items():
        curves: dict[str, list[tuple[float, Interval]]] = {}
        for arm, seeds in tested.items():
            by_law: dict[float, list[float]] = {}
            for record in (record for bands in seeds for record in bands):
                by_law.setdefault(float(record["gravity"]), []).append(float(record[part]))
            curves[arm] = [(g, over_trainings(np.array(values))) for g, values in by_law.items()]
        figure = against_setting(f"linear_surrogate_{part}", name, "gravity (m/s²)", name, curves)
        drawn.append(figure)
    return drawn


def _cell(interval: Interval, seeds: int) -> str:
    """A correlation with its interval over trainings, if there are several; it cannot lie beyond 1."""
    low, high = (fixed(min(max(end, -1.0), 1.0), 2) for end in (interval.low, interval.high))
    return fixed(interval.mean, 2) + (f" ({low} to {high})" if seeds > 1 else "")


def surrogate_of(folder: Path, dataset: Dataset) -> list[BandRecord]:
    """One record for each band of training gravities and each test gravity."""
    run, model = checkpoint.load_run(folder)
    (sampler,) = training_samplers(dataset).values()
    # as wide as the training gravities spread: 0.5 m/s^2 in the planar worlds, 2 where a ball flies
    training = _bands(folder, model, dataset, dataset.train, run.history, width=sampler.std)
    test = _bands(folder, model, dataset, dataset.test, run.history, width=None)
    # a band's name tells the split: a training band around 4 and the test gravity 4 are different episodes
    keys = {("train", g): i for i, g in enumerate(training)} | {("test", g): len(training) + i for i, g in enumerate(test)}
    surrogate = linear_surrogate(
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
        for band in [surrogate.bands[number]]
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
    transitions = {}
    for g in np.unique(band):
        rows = np.flatnonzero(band == g)
        features = z.shape[2] + 1 + extra.shape[2]
        if len(rows) * (split.frames - history) <= 4 * features:
            continue
        c = model.condition(torch.tensor(split.control[rows]), torch.tensor(split.law[rows]))
        predicted = one_step(model, latent[rows], c, history)
        transitions[float(g)] = Transitions(
            z=_flat(z[rows, history - 1 : -1]),
            extra=_flat(extra[rows, history - 1 : -1]),
            z_next=_flat(z[rows, history:]),
            z_predicted=_flat(predicted.numpy()),
        )
    return transitions


def _flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[2]).astype(np.float64)


EXPERIMENT = Experiment(
    name="linear_surrogate",
    question="Is it the representation or the predictor that fails at a far gravity?",
    claim="The one-step error grows with the distance of a law from the training laws, as the coverage bound says.",
    arms=lambda size: [Training(recipe(f"{WORLDS[size]}_{name}", size)) for name in METHODS],
    analyse=ranks,
)
