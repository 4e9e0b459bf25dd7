"""A trained diffusion policy at work: it plans A controls from the last H frames, carries out E of them, and plans again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sgjepa.core import artifact, config, run_folder
from sgjepa.core.errors import InputError
from sgjepa.data.store import Dataset
from sgjepa.envs import find
from sgjepa.models.weights import load_weights
from sgjepa.policies.base import Observation, Part
from sgjepa.policies.diffusion_model import Diffusion, Network, PolicyConfig, Sampler, sample
from sgjepa.policies.features import Features, device, in_blocks, open_features
from sgjepa.policies.files import POSE, RECORD, STATE, WEIGHTS, PolicyRecord, read_policy
from sgjepa.policies.tasks import executable, task_of

_FEW = 10  # steps of DDIM, unless something else is said


@dataclass
class _Episodes:
    """N episodes that run side by side."""

    seeds: tuple[int, ...]
    running: np.ndarray  # rows of those that are not over
    history: np.ndarray  # (N, H, F) scaled features, oldest first
    plan: np.ndarray  # (N, A, C) controls
    t: int = 0


class DiffusionPolicy:
    """Drives N episodes side by side (policies/base.py). An episode's controls depend on its own seed and frames alone."""

    by_chance = True  # controls begin as noise

    def __init__(self, record: PolicyRecord, network: Network, features: Features, diffusion: Diffusion, execute: int):
        self.record, self.diffusion, self.execute = record, diffusion, execute
        self._network, self._features = network.to(device()).eval(), features
        settings = config.from_dict(PolicyConfig, record.settings.config)
        self._history, self._told = settings.network.history, settings.law
        self._spec = find(record.settings.world).env_spec
        self._episodes = self._begun(())

    @property
    def observes(self) -> Sequence[Part]:
        return self._features.observes

    @property
    def pixels(self) -> int | None:
        """Of the pictures that it takes; None if any will do, or none."""
        return self._features.pixels

    @property
    def encoder(self) -> str | None:
        """The name of a foreign encoder that it looks through; None for one of our own, or none."""
        return self._features.encoder

    def check(self, dataset: Dataset) -> None:
        """Refuse episodes of another world, under other laws, or of another dataset that is called as the policy's own."""
        there, name, digest = self.record.settings, dataset.path.resolve().name, dataset.manifest.digest
        if dataset.settings.world != there.world:
            raise InputError(
                f"{name} is a dataset of {dataset.settings.world}, and the policy was trained for {there.world}; "
                f"give one of that world"
            )
        if dataset.train.laws != there.laws:
            told, has = ", ".join(there.laws) or "none", ", ".join(dataset.train.laws) or "none"
            raise InputError(f"{name} has the laws {has}, and the policy was trained under {told}; give one with these")
        if there.data.get(name, digest) != digest:
            raise run_folder.swapped("the policy", name, there.data[name], digest)
        pixels = dataset.settings.image_size
        if self._features.pixels not in (None, pixels):
            raise InputError(
                f"{name} has pictures of {pixels} pixels, and the policy sees through {there.source.name}, which takes "
                f"{self._features.pixels}; give a dataset with these"
            )

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        """Begin N episodes; see the protocol."""
        if laws.shape != (len(seeds), len(self.record.settings.laws)):
            names = ", ".join(self.record.settings.laws) or "none"
            raise InputError(f"the policy knows the laws {names} of each of {len(seeds)} episodes, got {laws.shape}")
        self._episodes = self._begun(tuple(int(seed) for seed in seeds))

    def _begun(self, seeds: tuple[int, ...]) -> _Episodes:
        history = np.empty((len(seeds), self._history, self._features.width), np.float32)
        plan = np.empty((len(seeds), self._network.horizon, self._network.controls), np.float32)
        return _Episodes(seeds, np.arange(len(seeds)), history, plan)

    def rest(self, over: np.ndarray) -> None:
        """Episodes that are over, (N,) bool, cost nothing more."""
        self._episodes.running = np.flatnonzero(~over)

    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        """The controls from this frame to the next, (N, A) float32."""
        now, running = self._episodes, self._episodes.running
        if any(len(values) != len(now.seeds) for values in observation.values()):
            count = len(next(iter(observation.values())))
            raise InputError(f"the policy drives {len(now.seeds)} episodes, got an observation of {count}")
        # (n, F) of those that are not over
        found = self._features.of_observation({part: values[running] for part, values in observation.items()})
        if found.shape[1] != self._features.width:
            raise InputError(f"the policy sees {self._features.width} features of a frame, got {found.shape[1]}")
        newest = self.record.scaling.features(found)[:, None]
        before = np.repeat(newest, self._history, axis=1) if now.t == 0 else now.history[running]
        now.history[running] = np.concatenate([before[:, 1:], newest], axis=1)
        replan, place = divmod(now.t, self.execute)
        if place == 0:
            now.plan[running] = self._plan(now, laws, replan)
        now.t += 1
        return now.plan[:, place].copy()

    def _plan(self, now: _Episodes, laws: np.ndarray, replan: int) -> np.ndarray:
        """(n, A, C) controls of those that are not over, from the noise of this planning."""
        shape = (self.diffusion.draws, self._network.horizon, self._network.controls)
        streams = [np.random.default_rng([now.seeds[row], replan]) for row in now.running]
        noise = np.stack([stream.standard_normal(shape, dtype=np.float32) for stream in streams])
        told = self.record.scaling.law(laws[now.running]) if self._told else np.zeros((len(noise), 0), np.float32)
        inputs = (torch.from_numpy(x).to(device()) for x in (now.history[now.running], told, noise))
        learned = in_blocks(self._sample, *inputs).cpu().numpy()
        return executable(self._spec, self.record.scaling.control.undo(learned))

    def _sample(self, history: Tensor, law: Tensor, noise: Tensor) -> Tensor:
        seen = self._network.seen(history, law)

        def predict(x: Tensor, step: int) -> Tensor:
            found: Tensor = self._network(x, torch.full((len(x),), step, device=x.device), seen)
            return found

        return sample(predict, noise, self.diffusion)


def load_policy(
    folder: Path,
    execute: int | None = None,
    sampler: Sampler | None = None,
    steps: int | None = None,
    run: Path | None = None,
) -> DiffusionPolicy:
    """The finished policy in a folder. What is None is as it was trained to be, execute as its task says.

    execute: E. steps: of the sampler. run: where the run is whose features it sees, if it was moved.
    """
    record = read_policy(folder)
    if not (folder / WEIGHTS).is_file():
        raise InputError(f"{folder} has no finished policy; run its `sgjepa train-policy` command again first")
    try:
        cfg = config.from_dict(PolicyConfig, record.settings.config)
    except InputError as error:
        raise InputError(f"{folder / RECORD} was edited, or written by other code: {error}") from error
    execute = task_of(record.settings.world).execute if execute is None else execute
    if not 1 <= execute <= cfg.network.horizon:
        raise InputError(f"{folder} plans {cfg.network.horizon} controls: it can carry out 1 to so many, not {execute}")
    features = _features(folder, record, run)
    scaling = record.scaling
    width, controls = len(scaling.features.mean), len(scaling.control.low)
    if features.width != width:
        raise InputError(
            f"{folder} sees {width} features of a frame, and {record.settings.source.name} has {features.width}; "
            "put the run back that it was trained on"
        )
    network = cfg.network.build(width, controls, len(record.settings.laws) if cfg.law else 0)
    load_weights(artifact.checked(folder, WEIGHTS), network)
    return DiffusionPolicy(record, network, features, _sampling(cfg.diffusion, sampler, steps), execute)


def _sampling(usual: Diffusion, sampler: Sampler | None, steps: int | None) -> Diffusion:
    """How a policy is sampled: as usual, or as one says."""
    if sampler is None or sampler == usual.sampler:
        return usual if steps is None else replace(usual, sampled=steps)
    few = min(_FEW, usual.steps) if sampler == "ddim" else usual.steps
    return replace(usual, sampler=sampler, sampled=few if steps is None else steps)


def _features(folder: Path, record: PolicyRecord, run: Path | None) -> Features:
    """What the policy was trained to see, after a check that it is still the same."""
    source = record.settings.source
    spec = find(record.settings.world).env_spec
    if source.name in (STATE, POSE) and not source.run:
        return open_features(None, spec, pose=source.name == POSE, blur=source.blur)
    place = folder / source.run if run is None else run
    if not place.is_dir():
        raise InputError(f"{folder} sees through the run {source.name}, and {place} does not exist; put that run back there")
    found = open_features(place, spec, source.pose)
    if found.source(folder).model != source.model:
        raise InputError(
            f"{folder} was trained on other weights of {source.name} than {place} has now; train the policy again in "
            "another --out, or put that run back"
        )
    return found
