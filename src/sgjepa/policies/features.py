"""What a policy learns from: a finished run's frozen features, with the robot's own pose or without; or no pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sgjepa.core import files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.data.probe_targets import state_observations
from sgjepa.data.store import Split
from sgjepa.envs.spec import EnvSpec
from sgjepa.models.base import WorldModel
from sgjepa.policies.base import Observation, Part
from sgjepa.policies.files import POSE, STATE, Source
from sgjepa.policies.noisy_position import NoisyPositions
from sgjepa.policies.tasks import to_vector
from sgjepa.training import checkpoint
from sgjepa.training.config import Run
from sgjepa.training.latent_cache import in_half, latents_of

ROWS = 32  # rows that go through a network together, always; of 64 episodes a third less CPU time than blocks of 16


class Features(Protocol):
    """One vector for every frame, in a dataset and in the world."""

    @property
    def observes(self) -> Sequence[Part]: ...

    @property
    def width(self) -> int: ...

    @property
    def pixels(self) -> int | None:
        """The side of the pictures that it takes; None if any will do, or none."""

    @property
    def encoder(self) -> str | None:
        """The name of a foreign encoder; None for one of our own, or none."""

    def source(self, folder: Path) -> Source:
        """How a policy in `folder` remembers where its features come from."""

    def of_split(self, split: Split, episodes: np.ndarray) -> np.ndarray:
        """The features of all frames of some episodes, (n, T, F) float32."""

    def of_observation(self, observation: Observation) -> np.ndarray:
        """The features of the newest frame of each episode, (N, F) float32."""


class StateFeatures:
    """The true state and the robot's own pose, or that pose alone; angles of a blade as a vector."""

    pixels, encoder = None, None

    def __init__(self, spec: EnvSpec, pose_alone: bool = False):
        self._part: Part = "pose" if pose_alone else "state"
        self._first = len(spec.state) if pose_alone else 0
        self._names = [quantity.name for quantity in spec.state_observation[self._first :]]
        if not self._names:
            raise InputError(
                f"{spec.name} has no robot that could know its own pose (EnvSpec.observed_records); leave it out"
            )
        self.observes, self.width = (self._part,), len(self._names)

    def source(self, folder: Path) -> Source:
        return Source(POSE if self._part == "pose" else STATE)

    def of_split(self, split: Split, episodes: np.ndarray) -> np.ndarray:
        return self._features(state_observations(split)[episodes][..., self._first :])

    def of_observation(self, observation: Observation) -> np.ndarray:
        return self._features(observation[self._part])

    def _features(self, values: np.ndarray) -> np.ndarray:
        return to_vector(np.asarray(values, np.float32), self._names)


class ModelFeatures:
    """`features` of a finished run's model, whichever it is; the model stays as it is."""

    observes: Sequence[Part] = ("frame",)

    def __init__(self, folder: Path, run: Run, model: WorldModel):
        self.folder, self.run = folder, run
        self._model = model.to(device()).eval()
        self.width, self.pixels, self.encoder = model.feature_width, model.image_size, model.frozen_encoder

    def source(self, folder: Path) -> Source:
        place = os.path.relpath(self.folder.resolve(), folder.resolve())
        digest = files.file_digest(self.folder / run_folder.MODEL)
        return Source(self.folder.resolve().name, place, digest, self.run.split_seed)

    @torch.no_grad()
    def of_split(self, split: Split, episodes: np.ndarray) -> np.ndarray:
        latents, out = latents_of(self._model, split, self.folder), []
        for block in np.array_split(episodes, max(len(episodes) // ROWS, 1)):
            z = torch.from_numpy(np.asarray(latents[block])).float().to(device())
            out.append(self._model.features(z).float().cpu().numpy())
        return np.concatenate(out)

    def of_observation(self, observation: Observation) -> np.ndarray:
        frame = observation["frame"]
        if self.pixels not in (None, frame.shape[1]):
            raise InputError(f"{self.folder} takes pictures of {self.pixels} pixels, got {frame.shape[1]}")

        def features(frames: Tensor) -> Tensor:
            latents = self._model.encode(frames[:, None])
            if in_half(self._model):  # as a policy learned from them
                latents = latents.half().float()
            return self._model.features(latents)[:, 0].float()

        return in_blocks(features, torch.from_numpy(np.ascontiguousarray(frame)).to(device())).cpu().numpy()


class PosedFeatures:
    """A model's features, and beside them the robot's own pose, as robots know it without looking."""

    def __init__(self, seen: ModelFeatures, pose: StateFeatures):
        self._seen, self._parts = seen, (seen, pose)
        self.observes: Sequence[Part] = (*seen.observes, *pose.observes)
        self.width, self.pixels, self.encoder = seen.width + pose.width, seen.pixels, seen.encoder

    def source(self, folder: Path) -> Source:
        return replace(self._seen.source(folder), pose=True)

    def of_split(self, split: Split, episodes: np.ndarray) -> np.ndarray:
        return np.concatenate([part.of_split(split, episodes) for part in self._parts], axis=-1)

    def of_observation(self, observation: Observation) -> np.ndarray:
        return np.concatenate([part.of_observation(observation) for part in self._parts], axis=-1)


def open_features(run: Path | None, spec: EnvSpec, pose: bool = False, blur: float | None = None) -> Features:
    """Of a finished run, with the robot's own pose if asked for; None: of the true state, or of that pose alone.

    blur: of the true state, places alone, with such an error in m.
    """
    if blur is not None:
        return NoisyPositions(spec, blur)
    if run is None:
        return StateFeatures(spec, pose_alone=pose)
    looked = ModelFeatures(run, *checkpoint.load_run(run))
    return PosedFeatures(looked, StateFeatures(spec, pose_alone=True)) if pose else looked


def device() -> torch.device:
    """Where networks run."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@torch.no_grad()
def in_blocks(network: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """network(*inputs) with always the same number of rows, the last block filled up: (N, ...) each -> (N, ...).

    A matrix product rounds otherwise for another number of rows; so an episode's controls do not depend on the others'.
    """
    count = len(inputs[0])
    rows = torch.arange(-(-count // ROWS) * ROWS).clamp(max=count - 1).reshape(-1, ROWS)
    return torch.cat([network(*(x[block.to(x.device)] for x in inputs)) for block in rows])[:count]
