"""What a policy looks at: the frozen features of a finished run's model, or the true state of the world."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sgjepa.control.policy import View
from sgjepa.control.policy_record import STATE, Source
from sgjepa.control.tilt import to_vector
from sgjepa.core import files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.data.readable import seen_states
from sgjepa.data.store import Split
from sgjepa.envs.world import World
from sgjepa.models.base import WorldModel
from sgjepa.training import checkpoint
from sgjepa.training.latents import in_half, latents_of
from sgjepa.training.run import Run

ROWS = 32  # rows that go through a network together, always; of 64 episodes a third less CPU time than blocks of 16


class Features(Protocol):
    """One vector for every frame, in a dataset and in the world."""

    @property
    def sees(self) -> View: ...

    @property
    def width(self) -> int: ...

    @property
    def pixels(self) -> int | None:
        """Of the pictures that it takes; None if any will do, or none."""

    @property
    def encoder(self) -> str | None:
        """The name of a foreign encoder that it looks through; None for one of our own, or none."""

    def source(self, folder: Path) -> Source:
        """How a policy in `folder` remembers where its features come from."""

    def of_split(self, split: Split, episodes: np.ndarray) -> np.ndarray:
        """Of all frames of some episodes, (n, T, F) float32."""

    def of_seen(self, seen: np.ndarray) -> np.ndarray:
        """Of the newest frame of each episode, (N, F) float32; seen as `sees` says."""


class StateFeatures:
    """The true state joined with the robot's own pose; angles of a blade as a vector."""

    sees: View = "state"

    def __init__(self, world: World):
        self._names = [quantity.name for quantity in world.seen]
        self.width, self.pixels, self.encoder = len(self._names), None, None

    def source(self, folder: Path) -> Source:
        return Source(STATE)

    def of_split(self, split: Split, episodes: np.ndarray) -> np.ndarray:
        return to_vector(seen_states(split)[episodes], self._names)

    def of_seen(self, seen: np.ndarray) -> np.ndarray:
        return to_vector(np.asarray(seen, np.float32), self._names)


class ModelFeatures:
    """`features` of a finished run's model, whichever it is; the model stays as it is."""

    sees: View = "frames"

    def __init__(self, folder: Path, run: Run, model: WorldModel):
        self.folder, self.run = folder, run
        self._model = model.to(device()).eval()
        self.width, self.pixels, self.encoder = model.feature_width, model.image_size, model.frozen_encoder

    def source(self, folder: Path) -> Source:
        place = os.path.relpath(self.folder.resolve(), folder.resolve())
        digest = files.digest(self.folder / run_folder.MODEL)
        return Source(self.folder.resolve().name, place, digest, self.run.split_seed)

    @torch.no_grad()
    def of_split(self, split: Split, episodes: np.ndarray) -> np.ndarray:
        latents, out = latents_of(self._model, split, self.folder), []
        for block in np.array_split(episodes, max(len(episodes) // ROWS, 1)):
            z = torch.from_numpy(np.asarray(latents[block])).float().to(device())
            out.append(self._model.features(z).float().cpu().numpy())
        return np.concatenate(out)

    def of_seen(self, seen: np.ndarray) -> np.ndarray:
        if self.pixels not in (None, seen.shape[1]):
            raise InputError(f"{self.folder} takes pictures of {self.pixels} pixels, got {seen.shape[1]}")

        def look(frames: Tensor) -> Tensor:
            latents = self._model.encode(frames[:, None])
            if in_half(self._model):  # as a policy learned from them
                latents = latents.half().float()
            return self._model.features(latents)[:, 0].float()

        return in_blocks(look, torch.from_numpy(np.ascontiguousarray(seen)).to(device())).cpu().numpy()


def open_features(run: Path | None, world: World) -> Features:
    """Of a finished run; None: of the true state."""
    return StateFeatures(world) if run is None else ModelFeatures(run, *checkpoint.load_run(run))


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
