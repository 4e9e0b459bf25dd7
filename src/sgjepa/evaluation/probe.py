"""Probes: how well a frozen representation tells the physical state (paper, "Downstream evaluation").

A probe sees the features of `window` consecutive frames, oldest first, and answers the state at the last of them. It is
fitted on the run's own training episodes and chosen on its own validation episodes; test episodes are never seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn

from sgjepa.core import config
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.progress import progress
from sgjepa.core.stats import ZScore, fit_zscore
from sgjepa.data.targets import Targets
from sgjepa.models.base import FourMethods
from sgjepa.training.readable import ridge, stack

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
    windows: int = 50_000  # at most so many, drawn without replacement, of each split
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
        """The same in physical units."""
        y: Tensor = self(x) * self.std + self.mean
        return y


@dataclass(frozen=True)
class Fitted:
    """A probe and what it was fitted to."""

    probe: Probe
    config: ProbeConfig
    targets: Targets
    scores: dict[str, Any]
    data: str = ""  # digest of the training episodes, where that was kept

    @property
    def std(self) -> tuple[float, ...]:
        """Spread of the targets over the training windows: the unit of NMSE."""
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
    """x (N, window * F), y (N, Y) in physical units. Returns the probe of the best epoch, in eval mode, and the curve."""
    score = fit_zscore(y.numpy())
    torch.manual_seed(cfg.seed)
    probe = Probe(cfg, x.shape[1] // cfg.window, y.shape[1])
    probe.mean.copy_(torch.tensor(score.mean))
    probe.std.copy_(torch.tensor(score.std))
    wanted, wanted_held = _zscored(y, score), _zscored(y_held, score)
    if cfg.kind == "linear":
        _least_squares(probe, x, wanted)
        return probe.eval(), []
    optimiser = torch.optim.AdamW(probe.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    best, kept, waited, curve = float("inf"), probe.state_dict(), 0, []
    with progress(cfg.epochs, 0, name, "epochs") as bar:
        for epoch in range(cfg.epochs):
            order = torch.from_numpy(np.random.default_rng([cfg.seed, epoch]).permutation(len(x)))
            probe.train()
            for rows in torch.split(order, cfg.batch):
                loss = nn.functional.mse_loss(probe(x[rows]), wanted[rows])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            probe.eval()
            with torch.no_grad():
                nmse = float(nn.functional.mse_loss(probe(x_held), wanted_held))
            curve.append({"epoch": epoch + 1, "validation_nmse": nmse})
            bar.set_postfix(nmse=f"{nmse:.4g}", refresh=False)
            bar.update(1)
            waited = 0 if nmse < best else waited + 1
            if nmse < best:
                best, kept = nmse, {key: value.clone() for key, value in probe.state_dict().items()}
            if waited >= cfg.patience:
                bar.set_postfix_str(f"nmse={nmse:.4g}, stopped: no better for {cfg.patience} epochs")
                break
    probe.load_state_dict(kept)
    return probe.eval(), curve


def _least_squares(probe: Probe, x: Tensor, y: Tensor) -> None:
    """The linear probe in closed form; the ridge only matters for dead features."""
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
