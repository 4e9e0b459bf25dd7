"""Train a diffusion policy on demonstrations, by the loop of training/loop.py.

Everything random is a function of the seed and the update: the windows, the steps of diffusion, the noise. The policy that
is kept is the running mean of the weights.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgjepa.core import artifact, config, run_folder
from sgjepa.core.artifact import Digests
from sgjepa.data.store import Dataset
from sgjepa.policies.demonstrations import Windows, counts, demonstrations
from sgjepa.policies.diffusion_model import Network, PolicyConfig, add_noise
from sgjepa.policies.features import Features, device
from sgjepa.policies.files import RECORD, TRAINED_BY, WEIGHTS, PolicyRecord, Scores, Settings, is_policy, read_policy
from sgjepa.policies.tasks import task_of
from sgjepa.training import checkpoint
from sgjepa.training.checkpoint import State
from sgjepa.training.config import NOISE, mix
from sgjepa.training.config import WEIGHTS as INITIAL
from sgjepa.training.loop import Lengths, Trainable, run_loop
from sgjepa.training.optim import AdamW

_BETAS = (0.95, 0.999)  # of AdamW, as in the authors' code
_POWER = 0.75  # of the running mean: how fast it slows down


def train_policy(cfg: PolicyConfig, features: Features, dataset: Dataset, folder: Path) -> Path:
    """Train the policy in `folder`, or go on with it, or do nothing if it is finished. Returns `folder`."""
    task_of(dataset.settings.world)
    settings = Settings(
        config=config.to_dict(cfg),
        source=features.source(folder),
        world=dataset.settings.world,
        laws=dataset.train.laws,
        data={dataset.path.resolve().name: dataset.manifest.digest},
    )
    _check(folder, settings)
    if (folder / WEIGHTS).is_file():
        return folder
    with artifact.locked(folder):
        _check(folder, settings)  # somebody may have begun, or even ended, since we looked
        if not (folder / WEIGHTS).is_file():
            checkpoint.remove_leftovers(folder)
            _train(cfg, features, dataset, folder, settings)
    return folder


def _train(cfg: PolicyConfig, features: Features, dataset: Dataset, folder: Path, settings: Settings) -> None:
    """Prepare everything, then run the loop, from the first update or from the newest checkpoint on."""
    scaling, training, validation = demonstrations(cfg, features, settings.source.split_seed, dataset)
    machine = {"threads": torch.get_num_threads()}
    about = PolicyRecord(settings, scaling, counts(training, validation), artifact.provenance() | machine)
    if not (folder / RECORD).is_file():
        artifact.write_record(folder, about)
    trainable = DiffusionTraining(cfg, training, validation, folder.name)
    run_loop(trainable, folder, about, checkpoint.newest(folder), device())


class Averaged(nn.Module):
    """What is saved together: the network and the running mean of its weights."""

    def __init__(self, network: Network):
        super().__init__()
        self.network, self.mean = network, copy.deepcopy(network).requires_grad_(False)


@dataclass(frozen=True)
class Drawn:
    """The windows of an update, and the episodes they are of."""

    windows: tuple[Tensor, Tensor, Tensor]
    episode: np.ndarray


class DiffusionTraining(Trainable):
    """A diffusion policy and the running mean of its weights, which is what is kept."""

    def __init__(self, cfg: PolicyConfig, training: Windows, validation: Windows, name: str):
        self.cfg, self.training, self.validation = cfg, training, validation
        self.name, self.frames = name, cfg.batch
        self.lengths = Lengths(cfg.updates, cfg.validate_every, cfg.save_every, cfg.log_every)
        torch.manual_seed(mix(cfg.seed, 0, INITIAL))
        features, controls, law = (x.shape[-1] for x in (training.features, training.control, training.law))
        network = cfg.network.build(features, controls, law)
        if network.pace is not None:
            network.pace.copy_(pace(training.features))
        self.modules = self.averaged = Averaged(network).to(device())
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

    def finish(self, folder: Path, state: State) -> None:
        """Write the weights; before they take their place, policy.json knows them and how well they do."""
        last = {row["split"]: row["loss"] for row in run_folder.read(folder) if "split" in row}

        def note(digests: Digests) -> None:
            scores = Scores(last["train"], last.get("validation"), state.seconds)
            artifact.write_record(folder, replace(read_policy(folder), scores=scores, files=digests))

        checkpoint.publish(folder, {WEIGHTS: self.averaged.mean}, note)


def rate(step: int, cfg: PolicyConfig) -> float:
    """Factor on the learning rate at update `step` of 0 .. updates - 1: linear up, then half a cosine down to nothing."""
    if step < cfg.warmup:
        return (step + 1) / cfg.warmup
    return (1 + math.cos(math.pi * (step - cfg.warmup) / max(cfg.updates - cfg.warmup, 1))) / 2


@torch.no_grad()
def follow(mean: nn.Module, network: nn.Module, step: int, slowest: float) -> None:
    """Move the running mean of all that is a float towards the network's, ever more slowly."""
    decay = min(slowest, 1 - (1 + step) ** -_POWER)
    there = network.state_dict()
    for name, value in mean.state_dict().items():
        if value.is_floating_point():
            value.lerp_(there[name], 1 - decay)
        else:
            value.copy_(there[name])


@torch.no_grad()
def validate(cfg: PolicyConfig, network: Network, windows: Windows) -> float:
    """Mean loss over held-out windows, with the same noise each time."""
    size = min(cfg.batch, len(windows))
    count = min(len(windows) // size, cfg.validation)
    chosen = np.linspace(0, len(windows) - 1, count * size).astype(int).reshape(count, size)
    found = [noise_loss(cfg, network, windows.batch(some), mix(0, index, NOISE)) for index, some in enumerate(chosen)]
    return float(torch.stack(found).mean())


def noise_loss(cfg: PolicyConfig, network: Network, batch: tuple[Tensor, Tensor, Tensor], seed: int) -> Tensor:
    """Mean squared error of the predicted noise, at a step drawn for every window."""
    generator = torch.Generator().manual_seed(seed)
    seen, law, controls = batch
    noise = torch.randn(controls.shape, generator=generator)
    step = torch.randint(cfg.diffusion.steps, (len(controls),), generator=generator)
    seen, law, controls, noise, step = (x.to(device()) for x in (seen, law, controls, noise, step))
    x = add_noise(controls, noise, step, cfg.diffusion.steps)
    with torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
        found = network(x, step, network.seen(seen, law))
    return F.mse_loss(found.float(), noise)


# --- before and around the loop ------------------------------------------------------------------------------------


def _check(folder: Path, settings: Settings) -> None:
    """Refuse a folder that holds something else; one with the very same settings, or none, is fine."""
    artifact.require_free(folder, TRAINED_BY)
    if is_policy(folder):
        config.require_same(
            config.to_dict(read_policy(folder).settings), config.to_dict(settings), f"{folder} holds a policy"
        )


def pace(features: Tensor) -> Tensor:
    """How much features, (E, T, F), change from frame to frame: root mean squares (F,), 1 for one that never does."""
    found = features.diff(dim=1).square().mean(dim=(0, 1)).sqrt()
    return torch.where(found > 0, found, 1)
