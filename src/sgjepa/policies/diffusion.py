"""The diffusion policy: a U-Net learns to denoise planned controls, and a plan is sampled from noise.

Windows, diffusion steps and noise are functions of the seed and the update. The saved policy has the running mean of the
weights.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgjepa.core.config import check_bounds
from sgjepa.core.errors import InputError
from sgjepa.policies.demonstrations import Windows
from sgjepa.policies.diffusion_model import Diffusion, Network, NetworkConfig, Sampler, add_noise, sample
from sgjepa.policies.features import device, in_blocks
from sgjepa.policies.learned import PolicyTraining
from sgjepa.training.config import NOISE, WEIGHTS, mix
from sgjepa.training.loop import Lengths
from sgjepa.training.optim import AdamW

_BETAS = (0.95, 0.999)  # of AdamW, as in the authors' code
_POWER = 0.75  # of the running mean: how fast it slows down
_FEW = 10  # default number of DDIM steps


@dataclass(frozen=True)
class DiffusionConfig:
    """The paper's settings: 300,000 updates of 256 windows."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    diffusion: Diffusion = field(default_factory=Diffusion)
    law: bool = True  # whether the policy is conditioned on the law
    updates: int = 300_000
    batch: int = 256  # windows
    lr: float = 1e-4  # reached after `warmup` updates, then half a cosine down to nothing
    warmup: int = 500
    weight_decay: float = 1e-6
    slowest: float = 0.9999  # largest decay of the weights' running mean in an update
    validation: int = 16  # maximum number of batches of held-out windows
    log_every: int = 100  # updates
    validate_every: int = 25_000
    save_every: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        counts = ("updates", "batch", "validation", "log_every", "validate_every", "save_every")
        check_bounds(
            self, **dict.fromkeys(counts, (1, 1e9)), warmup=(0, 1e9), lr=(0, 1), weight_decay=(0, 1), slowest=(0, 1)
        )
        check_bounds(self, seed=(-1e18, 1e18))  # the lower bound is checked below
        if self.seed < 0:
            raise InputError(f"a policy's seed must not be negative, got {self.seed}")

    @property
    def history(self) -> int:
        return self.network.history

    @property
    def horizon(self) -> int:
        return self.network.horizon

    def build(self, features: int, controls: int, laws: int) -> Network:
        return self.network.build(features, controls, laws)

    def training(self, training: Windows, validation: Windows, name: str) -> DiffusionTraining:
        return DiffusionTraining(self, training, validation, name)

    def controller(self, network: nn.Module, **how: Any) -> DiffusionController:
        """A controller that samples plans. how: sampler and steps, where they differ from the config."""
        return DiffusionController(cast(Network, network), _sampling(self.diffusion, **how))


def _sampling(default: Diffusion, sampler: Sampler | None = None, steps: int | None = None) -> Diffusion:
    """The diffusion settings with another sampler or number of sampling steps, where these are not None."""
    if sampler is None or sampler == default.sampler:
        return default if steps is None else replace(default, sampled=steps)
    few = min(_FEW, default.steps) if sampler == "ddim" else default.steps
    return replace(default, sampler=sampler, sampled=few if steps is None else steps)


class Averaged(nn.Module):
    """The network and the running mean of its weights, saved together in checkpoints."""

    def __init__(self, network: Network):
        super().__init__()
        self.network, self.mean = network, copy.deepcopy(network).requires_grad_(False)


@dataclass(frozen=True)
class Drawn:
    """The windows of an update, and their episodes."""

    windows: tuple[Tensor, Tensor, Tensor]
    episode: np.ndarray


class DiffusionTraining(PolicyTraining):
    """The training of a diffusion policy; the saved policy has the running mean of the weights."""

    def __init__(self, cfg: DiffusionConfig, training: Windows, validation: Windows, name: str):
        self.cfg, self.training, self.validation = cfg, training, validation
        self.name, self.frames = name, cfg.batch
        self.lengths = Lengths(cfg.updates, cfg.validate_every, cfg.save_every, cfg.log_every)
        torch.manual_seed(mix(cfg.seed, 0, WEIGHTS))
        features, controls, law = (x.shape[-1] for x in (training.features, training.control, training.law))
        network = cfg.network.build(features, controls, law)
        if network.pace is not None:
            network.pace.copy_(pace(training.features))
        self.modules = self.averaged = Averaged(network).to(device())
        self.policy = self.averaged.mean
        self.optimisers = {"network": AdamW(self.averaged.network, cfg.lr, _BETAS, cfg.weight_decay)}

    def batch(self, step: int) -> Drawn:
        numbers = self.training.drawn(self.cfg.seed, step, self.cfg.batch)
        return Drawn(self.training.batch(numbers), self.training.episode[self.training.row[numbers]])

    def rates(self, step: int) -> dict[str, float]:
        return {"network": rate(step, self.cfg)}

    def loss(self, batch: Drawn, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        loss = noise_loss(self.cfg, self.averaged.network, batch.windows, mix(self.cfg.seed, step, NOISE))
        return loss, {"loss": loss.detach()}

    def after_update(self, step: int) -> None:
        follow(self.averaged.mean, self.averaged.network, step, self.cfg.slowest)

    def validate(self) -> dict[str, float]:
        if not len(self.validation):
            return {}
        return {"loss": validate(self.cfg, self.averaged.mean, self.validation)}


def rate(step: int, cfg: DiffusionConfig) -> float:
    """Factor on the learning rate at update `step` of 0 .. updates - 1: linear warm-up, then half a cosine down to 0."""
    if step < cfg.warmup:
        return (step + 1) / cfg.warmup
    return (1 + math.cos(math.pi * (step - cfg.warmup) / max(cfg.updates - cfg.warmup, 1))) / 2


@torch.no_grad()
def follow(mean: nn.Module, network: nn.Module, step: int, slowest: float) -> None:
    """Move the running mean of all floating-point weights towards the network's, with a decay that grows to `slowest`."""
    decay = min(slowest, 1 - (1 + step) ** -_POWER)
    weights = network.state_dict()
    for name, value in mean.state_dict().items():
        if value.is_floating_point():
            value.lerp_(weights[name], 1 - decay)
        else:
            value.copy_(weights[name])


@torch.no_grad()
def validate(cfg: DiffusionConfig, network: Network, windows: Windows) -> float:
    """Mean loss over held-out windows, with the same noise each time."""
    size = min(cfg.batch, len(windows))
    count = min(len(windows) // size, cfg.validation)
    batches = np.linspace(0, len(windows) - 1, count * size).astype(int).reshape(count, size)
    losses = [
        noise_loss(cfg, network, windows.batch(numbers), mix(0, index, NOISE)) for index, numbers in enumerate(batches)
    ]
    return float(torch.stack(losses).mean())


def noise_loss(cfg: DiffusionConfig, network: Network, batch: tuple[Tensor, Tensor, Tensor], seed: int) -> Tensor:
    """Mean squared error of the predicted noise, at a diffusion step drawn for every window."""
    generator = torch.Generator().manual_seed(seed)
    features, law, controls = batch
    noise = torch.randn(controls.shape, generator=generator)
    step = torch.randint(cfg.diffusion.steps, (len(controls),), generator=generator)
    features, law, controls, noise, step = (x.to(device()) for x in (features, law, controls, noise, step))
    x = add_noise(controls, noise, step, cfg.diffusion.steps)
    with torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
        predicted = network(x, step, network.seen(features, law))
    return F.mse_loss(predicted.float(), noise)


def pace(features: Tensor) -> Tensor:
    """Root mean squares (F,) of the changes of features (E, T, F) between frames; 1 for a constant feature."""
    change = features.diff(dim=1).square().mean(dim=(0, 1)).sqrt()
    return torch.where(change > 0, change, 1)


class DiffusionController:
    """Samples plans with a trained network. how: the sampler and its number of steps."""

    def __init__(self, network: Network, diffusion: Diffusion):
        self._network, self._diffusion = network, diffusion
        self.how = {"sampler": diffusion.sampler, "steps": diffusion.sampled}

    def plan(self, history: Tensor, law: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        """Scaled controls (n, A, C) from scaled features (n, H, F) and laws (n, L), with a generator for each."""
        shape = (self._diffusion.draws, self._network.horizon, self._network.controls)
        noise = np.stack([rng.standard_normal(shape, dtype=np.float32) for rng in rngs])
        return in_blocks(self._sample, history, law, torch.from_numpy(noise).to(history.device))

    def _sample(self, history: Tensor, law: Tensor, noise: Tensor) -> Tensor:
        seen = self._network.seen(history, law)

        def predict(x: Tensor, step: int) -> Tensor:
            predicted: Tensor = self._network(x, torch.full((len(x),), step, device=x.device), seen)
            return predicted

        return sample(predict, noise, self._diffusion)
