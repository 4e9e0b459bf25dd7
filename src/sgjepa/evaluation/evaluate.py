"""Evaluate a finished run: errors and states of every source on the same episodes, written to the run's folder.

Sources:
  predicted   the rollout
  true        encoded true frames: the probe's floor
  one_step    each prediction from true latents (teacher forced), probed in windows of such predictions
  stay        the true state at the last context frame, held constant
  constant_velocity   the probed state at the last context frame, moving on without a force
  simulator   the simulator from that probed state with the true law: the limit of a perfect model with this probe
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.progress import progress
from sgjepa.core.provenance import provenance
from sgjepa.core.tables import Table, join, write_table
from sgjepa.data.config import SPLIT_SEED, DatasetConfig
from sgjepa.data.probe_targets import Targets, default_probe_window, require_targets
from sgjepa.data.store import Dataset, Split, split_episodes, training_samplers
from sgjepa.evaluation import metrics
from sgjepa.evaluation.baselines import references, simulate
from sgjepa.evaluation.coverage import coverage_of
from sgjepa.evaluation.decoded_strips import load_decoder, write_strips
from sgjepa.evaluation.forecast import blocks, forecast
from sgjepa.evaluation.probes import Fitted, Kind, ProbeConfig, fit_on, fit_to
from sgjepa.evaluation.records import MADE_BY, Coverage, EvaluationRecord, LawRecord, Scores, Settings, read_evaluation
from sgjepa.laws import coordinates_moved_by
from sgjepa.models.base import FourMethods, WorldModel
from sgjepa.training import checkpoint
from sgjepa.training.config import Run
from sgjepa.training.latent_cache import encode_split, latents_of
from sgjepa.training.validation import effective_rank

RECORDED = "recorded"  # the dataset's own states, in the table of the sources' states


@dataclass(frozen=True)
class ForecastConfig:
    """Settings of an evaluation. context: true frames before the forecast. steps: predictions (None: to the end)."""

    context: int = 20
    steps: int | None = None
    probe: ProbeConfig = field(default_factory=ProbeConfig)

    def __post_init__(self) -> None:
        config.check_bounds(self, context=(1, 1e6), steps=(1, 1e6))


def default_forecast(data: DatasetConfig, kind: Kind = "mlp") -> ForecastConfig:
    """The default evaluation settings for a dataset."""
    return ForecastConfig(probe=ProbeConfig(kind=kind, window=default_probe_window(data.env_spec, data.image_size)))


def non_default_settings(cfg: ForecastConfig, data: DatasetConfig) -> str:
    """The settings that differ from the default evaluation, for a folder's name: "linear4-context30"; empty if none does."""
    default = default_forecast(data)
    probe = f"{cfg.probe.kind}{cfg.probe.window}"
    parts = {
        probe: probe == f"{default.probe.kind}{default.probe.window}",
        f"seed{cfg.probe.seed}": cfg.probe.seed == default.probe.seed,
        f"context{cfg.context}": cfg.context == default.context,
        f"steps{cfg.steps}": cfg.steps == default.steps,
    }
    return "-".join(part for part, is_default in parts.items() if not is_default)


def folder_name(*parts: str) -> str:
    """A folder's name: the parts that are not empty, joined by "-"."""
    return "-".join(part for part in parts if part)


def evaluation_name(dataset: Dataset, cfg: ForecastConfig, split: str = "test") -> str:
    """The name of an evaluation's folder."""
    return folder_name(dataset.path.name, split, non_default_settings(cfg, dataset.settings))


def evaluate(folder: Path, dataset: Dataset, cfg: ForecastConfig, split: str = "test") -> Path:
    """Evaluate the finished run in `folder`; returns `folder/evaluations/<dataset>-<split>[-<settings>]`.

    <settings> are those that differ from the default. An evaluation that is already there is not repeated.
    """
    run, model = checkpoint.load_run(folder)
    differs = non_default_settings(cfg, dataset.settings)
    out = folder / run_folder.EVALUATIONS / evaluation_name(dataset, cfg, split)
    settings = Settings(
        config=config.to_dict(cfg),
        model=files.file_digest(folder / run_folder.MODEL),
        data=(dataset.test if split == "test" else dataset.train).digest,
        split=split,
        meaning=" ".join(metrics.METRICS),  # after a change of metrics, older evaluations are repeated
    )
    outdated = artifact.made_by(out) == MADE_BY and read_evaluation(out).settings.meaning != settings.meaning
    with artifact.artifact(out, {"settings": config.to_dict(settings)}, MADE_BY, replace=outdated, inside=folder) as new:
        if not new.finished:
            load_decoder(folder, run, model)  # refuse a damaged decoder before the work
            scores = measure(folder, run, model, dataset, cfg, split)
            write_table(new.path / run_folder.EPISODES, scores.errors)
            write_table(new.path / run_folder.STATES, scores.states)
            if split == "test":
                write_strips(folder, new.path, run, model, dataset, cfg.context)
            new.about = config.to_dict(_record(folder, run, model, dataset, settings, differs, scores))
    return out


def _record(
    folder: Path, run: Run, model: WorldModel, dataset: Dataset, settings: Settings, differs: str, scores: Measured
) -> EvaluationRecord:
    coverage = coverage_of(dataset)
    return EvaluationRecord(
        run=folder.name,
        dataset=dataset.path.name,
        differs=differs,
        name=run.name,
        seed=run.seed,
        encoder=model.frozen_encoder,
        world=dataset.settings.world,
        laws={
            name: LawRecord(dataset.test.about["laws"][name], sampler)
            for name, sampler in training_samplers(dataset).items()
        },
        coverage=None if coverage is None else Coverage(tuple(map(tuple, coverage["laws"])), tuple(coverage["L_law"])),
        targets=scores.targets,
        target_names=scores.targets.names,
        target_std=scores.std,
        settings=settings,
        scores=scores.scores,
        provenance=provenance(),
    )


@dataclass(frozen=True)
class Measured:
    """Measurements of a run. errors: a row per source, episode and horizon. states: columns `source.target`."""

    errors: Table
    states: Table
    scores: Scores
    targets: Targets
    std: tuple[float, ...]  # of the targets over the probe's training windows: the unit of NMSE


def measure(folder: Path, run: Run, model: WorldModel, dataset: Dataset, cfg: ForecastConfig, split: str) -> Measured:
    """Measure all sources on all episodes of a split: "test", or the training split's "validation" episodes."""
    part, numbers = _episodes(run.split_seed, dataset, split)
    steps_of(cfg, part, run.history)
    fitted = fit_to(folder, run, model, dataset, cfg.probe)
    latents = latents_of(model, part, folder)
    return measure_with(model, run.history, fitted, latents, dataset, cfg, part, numbers, folder.name)


def measure_module(
    model: FourMethods,
    history: int,
    dataset: Dataset,
    cfg: ForecastConfig,
    split: str,
    name: str,
    probe: Fitted | None = None,
) -> Measured:
    """Measure all sources on all episodes for any module with the four methods, without a run folder.

    history: H. probe: a probe fitted to this model; None: a probe is fitted on the training episodes.
    """
    part, numbers = _episodes(SPLIT_SEED, dataset, split)
    steps_of(cfg, part, history)
    fitted = probe
    if fitted is None:
        training = encode_split(model, dataset.train, name)
        fitted = fit_on(model, training, dataset.train.state, require_targets(dataset.train), cfg.probe, SPLIT_SEED, name)
    latents = training if probe is None and split != "test" else encode_split(model, part, name)
    return measure_with(model, history, fitted, latents, dataset, cfg, part, numbers, name)


def steps_of(cfg: ForecastConfig, part: Split, history: int) -> int:
    """The number of predictions; an InputError if they do not fit into the episodes. history: H."""
    steps = part.frames - cfg.context if cfg.steps is None else cfg.steps
    if steps < 1 or cfg.context + steps > part.frames or cfg.context < max(history, cfg.probe.window):
        raise InputError(
            f"{cfg.context} context frames and {steps} predictions do not fit: an episode has {part.frames} frames, "
            f"the model sees {history}, the probe {cfg.probe.window}"
        )
    return steps


def measure_with(
    model: FourMethods,
    history: int,
    fitted: Fitted,
    latents: np.ndarray,
    dataset: Dataset,
    cfg: ForecastConfig,
    part: Split,
    numbers: np.ndarray,
    name: str,
) -> Measured:
    """Measure all sources on some episodes of a split, with a fitted probe and encoded latents.

    latents: (N, T, ...) of all of the split's episodes. numbers: the episodes to measure. name: for the progress bar.
    """
    steps = steps_of(cfg, part, history)
    truth = fitted.targets.of(part.state[numbers].astype(np.float64))  # (N, T, Y)
    errors: list[Table] = []
    states: list[Table] = []
    final, moved = [], 0
    moved_by_laws = coordinates_moved_by(part.laws)
    with progress(len(numbers), 0, f"evaluate {name}", "episodes") as bar:
        for rows in blocks(numbers, latents, cfg.context + steps):
            z = torch.from_numpy(np.array(latents[numbers[rows]], dtype=np.float32))
            law, control = part.law[numbers[rows]], part.control[numbers[rows]]
            sources = forecast(model, fitted, z, control, law, cfg.context, steps, history)
            start = sources["true"][0][:, 0]  # the probed state at the last context frame
            y = {name: probed[:, 1:] for name, (probed, _) in sources.items()}
            on_true = y["true"]
            y |= references(fitted.targets, start, truth[rows], cfg.context, steps)
            ahead = truth[rows, cfg.context : cfg.context + steps]
            if dataset.settings.recorded is None:
                y["simulator"], shifted = simulate(
                    dataset, part, numbers[rows], fitted.targets, start, truth[rows], cfg.context, steps
                )
                moved += shifted
            else:  # a recorded dataset has no simulator
                y["simulator"] = np.full_like(ahead, np.nan)
            for source, guess in y.items():
                seen, latent_error = (on_true, sources[source][1]) if source in sources else (None, None)
                measured = metrics.errors(
                    metrics.Guess(fitted.targets, guess, ahead, fitted.std, seen, latent_error, moved_by_laws)
                )
                errors.append(_long(source, numbers[rows], law, part.laws, measured))
            states.append(_wide(numbers[rows], fitted.targets.names, {RECORDED: ahead, **y}))
            final.append(model.features(z[:, cfg.context - 1 : cfg.context])[:, 0])
            bar.update(len(rows))
    scores = Scores(
        effective_rank=effective_rank(torch.cat(final)[:2000]),
        probe=fitted.scores,
        episodes=len(numbers),
        horizons=steps,
        simulator_starts_moved=moved,
    )
    return Measured(join(errors), join(states), scores, fitted.targets, fitted.std)


def _episodes(split_seed: int, dataset: Dataset, split: str) -> tuple[Split, np.ndarray]:
    if split == "test":
        return dataset.test, np.arange(dataset.test.episodes)
    return dataset.train, split_episodes(dataset.train.episodes, seed=split_seed)[1]


def _index(numbers: np.ndarray, steps: int) -> Table:
    """Episode and horizon of len(numbers) * steps rows."""
    return {
        "episode": np.repeat(numbers.astype(np.int32), steps),
        "horizon": np.tile(np.arange(1, steps + 1, dtype=np.int16), len(numbers)),
    }


def _long(source: str, numbers: np.ndarray, law: np.ndarray, names: tuple[str, ...], errors: dict[str, np.ndarray]) -> Table:
    """Errors (B, h) as columns of B * h rows."""
    count, steps = next(iter(errors.values())).shape
    table: Table = {"source": np.full(count * steps, source), **_index(numbers, steps)}
    for i, name in enumerate(names):
        table[f"law.{name}"] = np.repeat(law[:, i].astype(np.float64), steps)
    return table | {name: values.ravel() for name, values in errors.items()}


def _wide(numbers: np.ndarray, names: tuple[str, ...], states: Mapping[str, np.ndarray]) -> Table:
    """States (B, h, Y) of every source as columns `source.target` of B * h rows, float32."""
    table = _index(numbers, next(iter(states.values())).shape[1])
    for source, values in states.items():
        for i, name in enumerate(names):
            table[f"{source}.{name}"] = values[..., i].ravel().astype(np.float32)
    return table
