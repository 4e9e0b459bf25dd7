"""Probes of runs: each is fitted once, and kept in the run's folder with all that decides it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sgjepa.core import config, files, lock, output, records, run_folder
from sgjepa.core.errors import InputError
from sgjepa.data.readable import readable_of, seen_states, targets_in
from sgjepa.data.store import Dataset, split_episodes
from sgjepa.data.targets import Targets
from sgjepa.envs.world import World
from sgjepa.evaluation.probe import Fitted, Probe, ProbeConfig, fit, windows
from sgjepa.evaluation.records import ProbeRecord
from sgjepa.models.base import FourMethods, WorldModel
from sgjepa.training import checkpoint
from sgjepa.training.latents import latents_of, weights_digest
from sgjepa.training.run import Run
from sgjepa.training.weights import load_weights, save_weights

_SETTINGS, _WEIGHTS, _MADE_BY = "probe.json", "probe.safetensors", "sgjepa probe"


def fit_probe(folder: Path, dataset: Dataset, cfg: ProbeConfig) -> Fitted:
    """Fit a probe to the finished run in `folder`, or load it if the very same was fitted before."""
    run, model = checkpoint.load_run(folder)
    return fit_to(folder, run, model, dataset, cfg)


def fit_to(
    folder: Path, run: Run, model: WorldModel, dataset: Dataset, cfg: ProbeConfig, targets: Targets | None = None
) -> Fitted:
    """As `fit_probe`, for a model that is loaded already.

    targets: what to read of `World.seen` instead of what the world declares (`World.probed`); for a probe of its own.
    """
    place = probe_folder(folder, dataset, cfg, targets)
    settings = _settings(folder, run, dataset, cfg, targets)
    read = targets or targets_in(dataset.train)
    if there := _kept(place, settings):
        return _load(place, there, model, read, cfg)
    with lock.alone(folder):
        if there := _kept(place, settings):  # perhaps since we looked
            return _load(place, there, model, read, cfg)
        states = dataset.train.state if targets is None else seen_states(dataset.train)
        return _fit_new(folder, run, model, dataset, cfg, place, settings, read, states)


def open_probe(folder: Path, model: WorldModel, world: World) -> Fitted:
    """The first of the MLP probes in a run's folder that were fitted to its model; needs no dataset."""
    if world.probed is None:
        raise InputError(f"{world.name} cannot be probed: it declares nothing that a probe could read (World.probed)")
    found = kept_probe(folder, model, world)
    if found is None:
        raise InputError(f"{folder} has no probe of its model; run `sgjepa probe {folder}` first")
    return found


def kept_probe(folder: Path, model: WorldModel, world: World) -> Fitted | None:
    """The same; None if there is none."""
    targets, weights = readable_of(world), files.digest(folder / run_folder.MODEL)
    for place in sorted(path.parent for path in (folder / run_folder.PROBES).glob(f"*-mlp*/{_SETTINGS}")):
        there = records.read(ProbeRecord, place / _SETTINGS, f"delete {place}", {"fitted_to": "settings"})
        own = "targets" in there.settings  # it reads something of its own
        if targets is not None and there.settings["model"] == weights and not own:
            return _load(place, there, model, targets, config.from_dict(ProbeConfig, there.settings["probe"]))
    return None


def _kept(place: Path, settings: dict[str, Any]) -> ProbeRecord | None:
    return records.kept(place / _SETTINGS, settings, ProbeRecord, f"delete {place}", {"fitted_to": "settings"})


def _fit_new(
    folder: Path,
    run: Run,
    model: WorldModel,
    dataset: Dataset,
    cfg: ProbeConfig,
    place: Path,
    settings: dict[str, Any],
    targets: Targets,
    state: np.ndarray,
) -> Fitted:
    if (place / _SETTINGS).is_file():
        raise InputError(f"the probe in {place} was fitted to another model, dataset or setting; delete that folder")
    output.check(place, _MADE_BY, (_SETTINGS, _WEIGHTS))
    own = targets if "targets" in settings else None
    fitted = _leaders(run, model, dataset, cfg, own) or _fit_here(folder, run, model, dataset, cfg, targets, state)
    with output.output_folder(place, _MADE_BY, _SETTINGS, (_SETTINGS, _WEIGHTS)) as staged:
        save_weights(staged / _WEIGHTS, fitted.probe)
        digests = {_WEIGHTS: files.digest(staged / _WEIGHTS)}
        records.write(staged / _SETTINGS, ProbeRecord(settings, fitted.scores, files.provenance(), digests))
    return fitted


def _leaders(run: Run, model: WorldModel, dataset: Dataset, cfg: ProbeConfig, own: Targets | None) -> Fitted | None:
    """Where the encoder is still that of the run it was taken from, so is the probe, if one was fitted there."""
    if run.init is None or run.train.trains != "predictor" or not (Path(run.init) / run_folder.MODEL).is_file():
        return None
    leader = Path(run.init)
    place = probe_folder(leader, dataset, cfg, own)
    first, other = checkpoint.load_run(leader)
    there = _kept(place, _settings(leader, first, dataset, cfg, own))
    if there is None or _seen_by(model) != _seen_by(other) or run.split_seed != first.split_seed:
        return None
    return _load(place, there, model, own or targets_in(dataset.train), cfg)


def _seen_by(model: WorldModel) -> tuple[Any, ...]:
    """All that decides a model's features."""
    return type(model), model.encoder_settings, weights_digest(*model.encoder_modules())


def _fit_here(
    folder: Path,
    run: Run,
    model: WorldModel,
    dataset: Dataset,
    cfg: ProbeConfig,
    targets: Targets,
    state: np.ndarray,
) -> Fitted:
    latents = latents_of(model, dataset.train, folder)
    return fit_on(model, latents, state, targets, cfg, run.split_seed, folder.name)


def fit_on(
    model: FourMethods,
    latents: np.ndarray,
    state: np.ndarray,
    targets: Targets,
    cfg: ProbeConfig,
    split_seed: int,
    name: str,
) -> Fitted:
    """Fit a probe to latents (N, T, ...) and states (N, T, S) of all training episodes; part of them validates it."""
    if not cfg.window <= state.shape[1]:
        raise InputError(f"a probe's window must fit into {state.shape[1]} frames, got {cfg.window}")
    fitting, held_out = split_episodes(len(latents), seed=split_seed)
    y = targets.of(state.astype(np.float64))
    training = windows(model, latents, y, fitting, cfg, cfg.seed)
    validation = windows(model, latents, y, held_out, cfg, cfg.seed + 1)
    began = time.perf_counter()
    probe, curve = fit(cfg, *training, *validation, name=f"probe {name}")
    with torch.no_grad():
        gap = probe(validation[0]) - (validation[1] - probe.mean) / probe.std
    scores = {
        "validation_nmse": float(gap.square().mean()),
        "validation_nmse_by_target": dict(zip(targets.names, gap.square().mean(0).tolist(), strict=True)),
        "training_windows": len(training[0]),
        "validation_windows": len(validation[0]),
        "epochs": curve,
        "seconds": round(time.perf_counter() - began, 2),
    }
    return Fitted(probe, cfg, targets, scores)


def probe_folder(folder: Path, dataset: Dataset, cfg: ProbeConfig, targets: Targets | None = None) -> Path:
    """Where a run's probe lies."""
    own = "" if targets is None else f"-{'-'.join(targets.names)}"
    return folder / run_folder.PROBES / f"{dataset.path.name}-{cfg.kind}{cfg.window}-seed{cfg.seed}{own}"


def _settings(folder: Path, run: Run, dataset: Dataset, cfg: ProbeConfig, targets: Targets | None) -> dict[str, Any]:
    """What decides a probe: its config, the model's weights, the data and its split, and what it reads if not the usual."""
    return {
        "probe": config.to_dict(cfg),
        "model": files.digest(folder / run_folder.MODEL),
        "data": dataset.train.digest,
        "split_seed": run.split_seed,
        **({} if targets is None else {"targets": list(targets.names)}),
    }


def _load(place: Path, there: ProbeRecord, model: WorldModel, targets: Targets, cfg: ProbeConfig) -> Fitted:
    probe = Probe(cfg, model.feature_width, len(targets.names))
    load_weights(files.verify(place / _WEIGHTS, there.files, f"delete {place}"), probe, cure=f"delete {place}")
    return Fitted(probe.eval(), cfg, targets, there.scores, str(there.settings.get("data", "")))
