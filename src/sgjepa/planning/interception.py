"""Interception cost: the predicted minimum distance between a robot's tool and its target, probed from imagined latents.

The probe reads both positions from the features of a few frames, so the newest true latents are put before the imagined
ones. A plan costs the smallest squared distance in any of its frames: after the interception the ball may fly on.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from sgjepa.data.probe_targets import Targets, default_probe_window
from sgjepa.data.store import Dataset
from sgjepa.envs.spec import EnvSpec
from sgjepa.evaluation.probes import Fitted, ProbeConfig, fit_to
from sgjepa.models.base import WorldModel
from sgjepa.training.config import Run
from sgjepa.training.validation import stack


class InterceptionCost:
    """The squared distance between the two positions that a probe reads, its minimum over the frames of a plan."""

    def __init__(self, model: WorldModel, fitted: Fitted):
        self._model, self._fitted, self._axes = model, fitted, len(fitted.targets.position) // 2
        self.window = fitted.config.window

    def __call__(self, past: Tensor, futures: Tensor, episodes: Tensor) -> Tensor:
        count = futures.shape[1]
        before = self._model.features(past[:, past.shape[1] - self.window + 1 :])  # (E, w - 1, F)
        after = self._model.features(futures.flatten(0, 1))  # (E N, P, F)
        rows = torch.cat([before.repeat_interleave(count, dim=0), after], dim=1)
        read = self._fitted.probe.physical(stack(rows, self.window))  # (E N, P, Y)
        gap = read[..., : self._axes] - read[..., self._axes : 2 * self._axes]
        return gap.square().sum(dim=-1).amin(dim=1).view(-1, count)


def interception_targets(spec: EnvSpec) -> Targets:
    """Probe targets: the two positions that `EnvSpec.interception` names."""
    names = tuple(quantity.name for quantity in spec.state_observation)
    return Targets(names, tuple(name for position in spec.interception for name in position), (), "", "", 1, spec.frame_dt)


def interception_cost(folder: Path, run: Run, model: WorldModel, dataset: Dataset) -> InterceptionCost:
    """The interception cost of a finished run; its probe is fitted once and saved in the run's folder."""
    cfg = ProbeConfig(window=default_probe_window(dataset.env_spec, dataset.settings.image_size))
    return InterceptionCost(model, fit_to(folder, run, model, dataset, cfg, interception_targets(dataset.env_spec)))
