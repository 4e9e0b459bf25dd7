"""Probes: how well the physical state can be read from a frozen representation (paper, "Downstream evaluation").

A probe maps the features of `window` consecutive frames, oldest first, to the state at the last of them. It is fitted on the
run's training episodes and selected on its validation episodes; it never sees test episodes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn

from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.progress import progress
from sgjepa.core.stats import ZScore, fit_zscore
from sgjepa.data.probe_targets import Targets, require_targets, spec_targets, state_observations
from sgjepa.data.store import Dataset, split_episodes
from sgjepa.envs.spec import EnvSpec
from sgjepa.evaluation.records import MADE_BY, ProbeRecord
from sgjepa.models.base import FourMethods, WorldModel
from sgjepa.models.weights import load_weights, save_weights
from sgjepa.training import checkpoint
from sgjepa.training.config import Run
from sgjepa.training.latent_cache import latents_of, weights_digest
from sgjepa.training.validation import ridge, stack

Kind: TypeAlias = Literal["mlp", "linear"]


@dataclass(frozen=True)
class ProbeConfig:
    """The paper's probe. window: 4 frames for planar worlds, 2 for Approach Ball."""

    kind: Kind = "mlp"
    window: int = 4
    hidden: tuple[int, ...] = (512, 256)
    dropout: float = 0.05
    lr: float = 1e-3
    weight_decay: float = 1e-5
    batch: int = 256
    epochs: int = 50
    patience: int = 3
    windows: int = 50_000  # at most, drawn without replacement, of each split
    seed: int = 42

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise unknown("kind of probe", self.kind, get_args(Kind))
        if self.window < 1:
            raise InputError(f"a probe's window must have at least one frame, got {self.window}")
        config.check_bounds(self, window=(1, 10_000), hidden=(1, 65_536), dropout=(0, 1), lr=(0, 1e6), weight_decay=(0, 1e6))
        config.check_bounds(self, batch=(1, 1e9), epochs=(1, 1e6), patience=(1, 1e6), windows=(1, 1e9))
        if self.seed < 0:
            raise InputError(f"a probe's seed must not be negative, got {self.seed}")


class Probe(nn.Module):
    """Features (..., window * F) -> z-scored targets (..., Y)."""

    mean: Tensor
    std: Tensor

    def __init__(self, cfg: ProbeConfig, features: int, targets: int):
        super().__init__()
        width = cfg.window * features
        layers: list[nn.Module] = []
        if cfg.kind == "mlp":
            layers.append(nn.LayerNorm(width))
            for after in cfg.hidden:
                layers += [nn.Linear(width, after), nn.GELU(), nn.Dropout(cfg.dropout)]
                width = after
        self.layers = nn.Sequential(*layers, nn.Linear(width, targets))
        self.register_buffer("mean", torch.zeros(targets))
        self.register_buffer("std", torch.ones(targets))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y

    def physical(self, x: Tensor) -> Tensor:
        """Targets (..., Y) in physical units."""
        y: Tensor = self(x) * self.std + self.mean
        return y


@dataclass(frozen=True)
class Fitted:
    """A fitted probe, with its settings, targets and scores."""

    probe: Probe
    config: ProbeConfig
    targets: Targets
    scores: dict[str, Any]
    data: str = ""  # digest of the training episodes, if it is known

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviations of the targets over the training windows: the unit of NMSE."""
        return tuple(self.probe.std.tolist())

    def read(self, features: Tensor) -> np.ndarray:
        """Features of consecutive frames (B, T, F) -> states (B, T - window + 1, Y) in physical units, float64."""
        return self.read_windows(stack(features, self.config.window))

    @torch.no_grad()
    def read_windows(self, windows: Tensor) -> np.ndarray:
        """Stacked features (..., window * F) -> states (..., Y)."""
        states: np.ndarray = self.probe.physical(windows).double().cpu().numpy()
        return states


def fit(
    cfg: ProbeConfig, x: Tensor, y: Tensor, x_held: Tensor, y_held: Tensor, name: str
) -> tuple[Probe, list[dict[str, float]]]:
    """Fit a probe to x (N, window * F) and y (N, Y) in physical units.

    Returns the probe of the best epoch, in eval mode, and the validation curve.
    """
    score = fit_zscore(y.numpy())
    torch.manual_seed(cfg.seed)
    probe = Probe(cfg, x.shape[1] // cfg.window, y.shape[1])
    probe.mean.copy_(torch.tensor(score.mean))
    probe.std.copy_(torch.tensor(score.std))
    scaled, scaled_held = _zscored(y, score), _zscored(y_held, score)
    if cfg.kind == "linear":
        _least_squares(probe, x, scaled)
        return probe.eval(), []
    optimiser = torch.optim.AdamW(probe.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    best, best_weights, waited, curve = float("inf"), probe.state_dict(), 0, []
    with progress(cfg.epochs, 0, name, "epochs") as bar:
        for epoch in range(cfg.epochs):
            order = torch.from_numpy(np.random.default_rng([cfg.seed, epoch]).permutation(len(x)))
            probe.train()
            for rows in torch.split(order, cfg.batch):
                loss = nn.functional.mse_loss(probe(x[rows]), scaled[rows])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            probe.eval()
            with torch.no_grad():
                nmse = float(nn.functional.mse_loss(probe(x_held), scaled_held))
            curve.append({"epoch": epoch + 1, "validation_nmse": nmse})
            bar.set_postfix(nmse=f"{nmse:.4g}", refresh=False)
            bar.update(1)
            waited = 0 if nmse < best else waited + 1
            if nmse < best:
                best, best_weights = nmse, {key: value.clone() for key, value in probe.state_dict().items()}
            if waited >= cfg.patience:
                bar.set_postfix_str(f"nmse={nmse:.4g}, stopped: no better for {cfg.patience} epochs")
                break
    probe.load_state_dict(best_weights)
    return probe.eval(), curve


def _least_squares(probe: Probe, x: Tensor, y: Tensor) -> None:
    """Fit the linear probe in closed form; the ridge only matters for dead features."""
    weight, offset = ridge(x.double(), y.double(), (1e-8,))  # (1, window F, Y), (1, 1, Y)
    layer = probe.layers[-1]
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.copy_(weight[0].T)
        layer.bias.copy_(offset[0, 0])


@torch.no_grad()
def windows(
    model: FourMethods, latents: np.ndarray, y: np.ndarray, episodes: np.ndarray, cfg: ProbeConfig, seed: int
) -> tuple[Tensor, Tensor]:
    """Windows drawn from the episodes: features (n, window * F) and the targets at their last frames (n, Y)."""
    starts = y.shape[1] - cfg.window + 1
    count = min(cfg.windows, len(episodes) * starts)
    drawn = np.sort(np.random.default_rng(seed).permutation(len(episodes) * starts)[:count])
    row, start = np.divmod(drawn, starts)
    features = torch.cat(
        [model.features(torch.from_numpy(np.asarray(latents[block])).float()) for block in np.array_split(episodes, 16)]
    )
    frames = torch.from_numpy(start)[:, None] + torch.arange(cfg.window)
    x = features[torch.from_numpy(row)[:, None], frames].flatten(1)
    return x, torch.from_numpy(y[episodes[row], start + cfg.window - 1]).float()


def _zscored(y: Tensor, score: ZScore) -> Tensor:
    return (y - torch.tensor(score.mean)) / torch.tensor(score.std)


_WEIGHTS = "probe.safetensors"


def fit_probe(folder: Path, dataset: Dataset, cfg: ProbeConfig) -> Fitted:
    """Fit a probe to the finished run in `folder`, or load it if it was fitted before with the same settings."""
    run, model = checkpoint.load_run(folder)
    return fit_to(folder, run, model, dataset, cfg)


def fit_to(
    folder: Path, run: Run, model: WorldModel, dataset: Dataset, cfg: ProbeConfig, targets: Targets | None = None
) -> Fitted:
    """Fit a probe to a loaded model, or load the probe if it was fitted before with the same settings.

    targets: quantities of `EnvSpec.state_observation` to read instead of `EnvSpec.probed`; such a probe has its own folder.
    """
    out, read = probe_folder(folder, dataset, cfg, targets), targets or require_targets(dataset.train)
    key = {"settings": _settings(folder, run, dataset, cfg, targets)}
    with artifact.artifact(out, key, MADE_BY, inside=folder) as new:
        if not new.finished:
            fitted = _of_init(run, model, dataset, cfg, targets)
            if fitted is None:
                state = dataset.train.state if targets is None else state_observations(dataset.train)
                latents = latents_of(model, dataset.train, folder)
                fitted = fit_on(model, latents, state, read, cfg, run.split_seed, folder.name)
            save_weights(new.path / _WEIGHTS, fitted.probe)
            new.about = {"scores": fitted.scores}
    return _load(out, model, read, cfg)


def open_probe(folder: Path, model: WorldModel, spec: EnvSpec) -> Fitted:
    """The first MLP probe in a run's folder that was fitted to its model; needs no dataset."""
    if spec.probed is None:
        raise InputError(f"{spec.name} cannot be probed: it declares no quantities to read (EnvSpec.probed)")
    fitted = probe_if_fitted(folder, model, spec)
    if fitted is None:
        raise InputError(f"{folder} has no probe of its model; run `sgjepa evaluate --probe-only {folder}` first")
    return fitted


def probe_if_fitted(folder: Path, model: WorldModel, spec: EnvSpec) -> Fitted | None:
    """The first MLP probe in a run's folder that was fitted to its model, or None; needs no dataset."""
    targets, weights = spec_targets(spec), files.file_digest(folder / run_folder.MODEL)
    for path in artifact.artifacts_in(folder / run_folder.PROBES):
        settings = artifact.read_record(ProbeRecord, path).settings
        is_default = settings["probe"]["kind"] == "mlp" and "targets" not in settings
        if targets is not None and is_default and settings["model"] == weights:
            return _load(path, model, targets, config.from_dict(ProbeConfig, settings["probe"]))
    return None


def _of_init(run: Run, model: WorldModel, dataset: Dataset, cfg: ProbeConfig, own: Targets | None) -> Fitted | None:
    """The probe of the run that the encoder was taken from, if it has one and the encoder is unchanged; else None."""
    if run.init is None or run.train.trains != "predictor" or not (Path(run.init) / run_folder.MODEL).is_file():
        return None
    init = Path(run.init)
    path = probe_folder(init, dataset, cfg, own)
    if artifact.made_by(path) is None or not artifact.is_whole(path):
        return None
    first, other = checkpoint.load_run(init)
    settings = artifact.read_record(ProbeRecord, path).settings
    same = settings == config.to_dict(_settings(init, first, dataset, cfg, own))
    if not same or _seen_by(model) != _seen_by(other) or run.split_seed != first.split_seed:
        return None
    return _load(path, model, own or require_targets(dataset.train), cfg)


def _seen_by(model: WorldModel) -> tuple[Any, ...]:
    """A key that is equal for models with equal features: type, encoder settings and weights."""
    return type(model), model.encoder_settings, weights_digest(*model.encoder_modules())


def fit_on(
    model: FourMethods,
    latents: np.ndarray,
    state: np.ndarray,
    targets: Targets,
    cfg: ProbeConfig,
    split_seed: int,
    name: str,
) -> Fitted:
    """Fit a probe to latents (N, T, ...) and states (N, T, S) of all training episodes, some of them for validation."""
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
    """The folder of a run's probe."""
    own = "" if targets is None else f"-{'-'.join(targets.names)}"
    return folder / run_folder.PROBES / f"{dataset.path.name}-{cfg.kind}{cfg.window}-seed{cfg.seed}{own}"


def _settings(folder: Path, run: Run, dataset: Dataset, cfg: ProbeConfig, targets: Targets | None) -> dict[str, Any]:
    """The settings that decide a probe: config, the model's weights, data and split, and targets if not the default."""
    return {
        "probe": config.to_dict(cfg),
        "model": files.file_digest(folder / run_folder.MODEL),
        "data": dataset.train.digest,
        "split_seed": run.split_seed,
        **({} if targets is None else {"targets": list(targets.names)}),
    }


def _load(path: Path, model: WorldModel, targets: Targets, cfg: ProbeConfig) -> Fitted:
    record, probe = artifact.read_record(ProbeRecord, path), Probe(cfg, model.feature_width, len(targets.names))
    load_weights(artifact.checked(path, _WEIGHTS), probe)
    return Fitted(probe.eval(), cfg, targets, record.scores, str(record.settings["data"]))
