"""A price without a goal: how near a robot's tool and what it should meet come, read by a probe from imagined latents.

The probe reads the ball's place and the tool's from the features of a few frames, so the newest true latents stand before
the imagined ones. A plan costs the smallest squared distance in any of its frames: a ball that was met may fly on.
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


class Meeting:
    """Distance of the first half of what a probe reads to the second, both places."""

    def __init__(self, model: WorldModel, fitted: Fitted):
        self._model, self._fitted, self._places = model, fitted, len(fitted.targets.position) // 2
        self.window = fitted.config.window

    def __call__(self, past: Tensor, futures: Tensor, episodes: Tensor) -> Tensor:
        count = futures.shape[1]
        before = self._model.features(past[:, past.shape[1] - self.window + 1 :])  # (E, w - 1, F)
        after = self._model.features(futures.flatten(0, 1))  # (E N, P, F)
        rows = torch.cat([before.repeat_interleave(count, dim=0), after], dim=1)
        read = self._fitted.probe.physical(stack(rows, self.window))  # (E N, P, Y)
        gap = read[..., : self._places] - read[..., self._places : 2 * self._places]
        return gap.square().sum(dim=-1).amin(dim=1).view(-1, count)


def meeting_targets(spec: EnvSpec) -> Targets:
    """The two places that `EnvSpec.interception` names."""
    names = tuple(quantity.name for quantity in spec.state_observation)
    return Targets(names, tuple(name for place in spec.interception for name in place), (), "", "", 1, spec.frame_dt)


def meeting(folder: Path, run: Run, model: WorldModel, dataset: Dataset) -> Meeting:
    """The price of a finished run, with a probe of its own that is fitted once and kept beside the others."""
    cfg = ProbeConfig(window=default_probe_window(dataset.env_spec, dataset.settings.image_size))
    return Meeting(model, fit_to(folder, run, model, dataset, cfg, meeting_targets(dataset.env_spec)))
