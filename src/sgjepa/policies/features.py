"""Observation features of policies: a run's frozen features, with or without proprioception, or the state."""

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

ROWS = 32  # fixed batch size of networks; for 64 episodes a third less CPU time than 16


class Features(Protocol):
    """Features of frames, from a dataset or from observations."""

    @property
    def observes(self) -> Sequence[Part]: ...

    @property
    def width(self) -> int: ...

    @property
    def pixels(self) -> int | None:
        """Side of its pictures in pixels; None if it takes any size, or no pictures."""

    @property
    def encoder(self) -> str | None:
        """The name of a pretrained encoder; None for a trained one, or without an encoder."""

    def source(self, folder: Path) -> Source:
        """The source of the features, for the record of a policy in `folder`."""

    def of_split(self, split: Split, episodes: np.ndarray) -> np.ndarray:
        """The features of all frames of some episodes, (n, T, F) float32."""

    def of_observation(self, observation: Observation) -> np.ndarray:
        """The features of the newest frame of each episode, (N, F) float32."""


class StateFeatures:
    """The true state with proprioception, or proprioception only; a blade's angles are a vector."""

    pixels, encoder = None, None

    def __init__(self, spec: EnvSpec, pose_only: bool = False):
        self._part: Part = "pose" if pose_only else "state"
        self._first = len(spec.state) if pose_only else 0
        self._names = [quantity.name for quantity in spec.state_observation[self._first :]]
        if not self._names:
            raise InputError(f"{spec.name} has no robot with proprioception (EnvSpec.observed_records); leave it out")
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
    """Features of a finished run's model; the model is frozen."""

    observes: Sequence[Part] = ("frame",)

    def __init__(self, folder: Path, run: Run, model: WorldModel):
        self.folder, self.run = folder, run
        self._model = model.to(device()).eval()
        self.width, self.pixels, self.encoder = model.feature_width, model.image_size, model.frozen_encoder

    def source(self, folder: Path) -> Source:
        path = os.path.relpath(self.folder.resolve(), folder.resolve())
        digest = files.file_digest(self.folder / run_folder.MODEL)
        return Source(self.folder.resolve().name, path, digest, self.run.split_seed)

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
            if in_half(self._model):  # as in the cached latents that a policy learns from
                latents = latents.half().float()
            return self._model.features(latents)[:, 0].float()

        return in_blocks(features, torch.from_numpy(np.ascontiguousarray(frame)).to(device())).cpu().numpy()


class PosedFeatures:
    """A model's features, concatenated with the robot's proprioception."""

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
    """Open the features of a finished run, or of the state if `run` is None.

    pose: with proprioception; without a run, proprioception only. blur: noisy positions with this error in m, instead.
    """
    if blur is not None:
        return NoisyPositions(spec, blur)
    if run is None:
        return StateFeatures(spec, pose_only=pose)
    features = ModelFeatures(run, *checkpoint.load_run(run))
    return PosedFeatures(features, StateFeatures(spec, pose_only=True)) if pose else features


def device() -> torch.device:
    """The torch device of networks: CUDA if available, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@torch.no_grad()
def in_blocks(network: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """network(*inputs), (N, ...), in batches of a fixed size; the last batch is padded.

    The rounding of a matrix product depends on its number of rows; with a fixed number an episode's controls do not depend
    on the other episodes.
    """
    count = len(inputs[0])
    rows = torch.arange(-(-count // ROWS) * ROWS).clamp(max=count - 1).reshape(-1, ROWS)
    return torch.cat([network(*(x[block.to(x.device)] for x in inputs)) for block in rows])[:count]
