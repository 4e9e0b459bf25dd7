"""Policies that learn from demonstrations, whatever their network is: how they are trained, opened, and drive.

A policy plans A controls from the features of the last H frames, carries out E of them, and plans again. A kind of policy
is a file with a frozen dataclass that follows `PolicyConfig`, a line in `LEARNED`, and a recipe in recipes/policies.py;
policies/diffusion.py is the first. `sgjepa.register_learned_policy` does the same from outside the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from sgjepa.core import artifact, config, files, run_folder
from sgjepa.core.errors import InputError
from sgjepa.core.files import Digests
from sgjepa.core.provenance import provenance
from sgjepa.core.registry import Registry
from sgjepa.data.store import Dataset
from sgjepa.envs import get_env
from sgjepa.models.weights import load_weights
from sgjepa.policies.base import Observation, Part
from sgjepa.policies.demonstrations import Windows, counts, demonstrations
from sgjepa.policies.features import Features, device, open_features
from sgjepa.policies.files import (
    POSE,
    RECORD,
    STATE,
    TRAINED_BY,
    WEIGHTS,
    PolicyRecord,
    Scores,
    Settings,
    is_policy,
    read_policy,
)
from sgjepa.policies.tasks import executable, task_of
from sgjepa.training import checkpoint
from sgjepa.training.checkpoint import State
from sgjepa.training.loop import Trainable, run_loop


class Controller(Protocol):
    """A trained network at work. how: its settings that are not of the training, for the record of a trial."""

    @property
    def how(self) -> dict[str, Any]: ...

    def plan(self, history: Tensor, law: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        """Features (n, H, F) and laws (n, L), scaled, and a generator for each -> scaled controls (n, A, C)."""


class PolicyTraining(Trainable):
    """The training of a policy. policy: the module that is kept."""

    policy: nn.Module

    def finish(self, folder: Path, state: State) -> None:
        """Write the weights; before they take their place, policy.json knows them and how well they do."""
        last = {row["split"]: row["loss"] for row in run_folder.read(folder) if "split" in row}

        def note(digests: Digests) -> None:
            scores = Scores(last["train"], last.get("validation"), state.seconds)
            artifact.write_record(folder, replace(read_policy(folder), scores=scores, files=digests))

        checkpoint.publish(folder, {WEIGHTS: self.policy}, note)


class PolicyConfig(Protocol):
    """All settings of a policy: a frozen dataclass, which is written to its record and read back."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def seed(self) -> int: ...

    @property
    def updates(self) -> int: ...

    @property
    def save_every(self) -> int: ...

    @property
    def law(self) -> bool:
        """Whether the policy is told which law holds."""

    @property
    def history(self) -> int:
        """H, frames that are looked back at."""

    @property
    def horizon(self) -> int:
        """A, controls that are planned."""

    def build(self, features: int, controls: int, laws: int) -> nn.Module:
        """A fresh module to load the weights of a trained one into. laws: 0 if the policy is not told the law."""

    def training(self, training: Windows, validation: Windows, name: str) -> PolicyTraining:
        """What training/loop.py trains. name: for the progress bar."""

    def controller(self, network: nn.Module, **how: Any) -> Controller:
        """The trained module at work, in eval mode."""


LEARNED: Registry[type[PolicyConfig]] = Registry(
    "learned policy", {"DiffusionConfig": "sgjepa.policies.diffusion:DiffusionConfig"}
)


def config_of(record: PolicyRecord) -> PolicyConfig:
    """The settings of a policy, from its record."""
    return config.from_dict(LEARNED.lookup(str(record.settings.config.get("type"))), record.settings.config)


# --- training ---------------------------------------------------------------------------------------------------------


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
    with files.locked(folder):
        _check(folder, settings)  # somebody may have begun, or even ended, since we looked
        if not (folder / WEIGHTS).is_file():
            checkpoint.remove_leftovers(folder)
            _train(cfg, features, dataset, folder, settings)
    return folder


def _train(cfg: PolicyConfig, features: Features, dataset: Dataset, folder: Path, settings: Settings) -> None:
    """Prepare everything, then run the loop, from the first update or from the newest checkpoint on."""
    scaling, training, validation = demonstrations(cfg, features, settings.source.split_seed, dataset)
    machine = {"threads": torch.get_num_threads()}
    about = PolicyRecord(settings, scaling, counts(training, validation), provenance() | machine)
    if not (folder / RECORD).is_file():
        artifact.write_record(folder, about)
    run_loop(cfg.training(training, validation, folder.name), folder, about, checkpoint.newest(folder), device())


def _check(folder: Path, settings: Settings) -> None:
    """Refuse a folder that holds something else; one with the very same settings, or none, is fine."""
    artifact.require_free(folder, TRAINED_BY)
    if is_policy(folder):
        config.require_same(
            config.to_dict(read_policy(folder).settings), config.to_dict(settings), f"{folder} holds a policy"
        )


# --- at work ----------------------------------------------------------------------------------------------------------


@dataclass
class _Episodes:
    """N episodes that run side by side."""

    seeds: tuple[int, ...]
    running: np.ndarray  # rows of those that are not over
    history: np.ndarray  # (N, H, F) scaled features, oldest first
    plan: np.ndarray  # (N, A, C) controls
    t: int = 0


class LearnedPolicy:
    """Drives N episodes side by side (policies/base.py). An episode's controls depend on its own seed and frames alone."""

    by_chance = True  # what is planned may be sampled

    def __init__(self, record: PolicyRecord, cfg: PolicyConfig, controller: Controller, features: Features, execute: int):
        self.record, self.config, self.execute = record, cfg, execute
        self.how = {"execute": execute, **controller.how}
        self._controller, self._features = controller, features
        self._spec = get_env(record.settings.world).env_spec
        self._episodes = self._begin(())

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
        own, name, digest = self.record.settings, dataset.path.resolve().name, dataset.manifest.digest
        if dataset.settings.world != own.world:
            raise InputError(
                f"{name} is a dataset of {dataset.settings.world}, and the policy was trained for {own.world}; "
                f"give one of that world"
            )
        if dataset.train.laws != own.laws:
            trained, has = ", ".join(own.laws) or "none", ", ".join(dataset.train.laws) or "none"
            raise InputError(f"{name} has the laws {has}, and the policy was trained under {trained}; give one with these")
        if own.data.get(name, digest) != digest:
            raise run_folder.swapped("the policy", name, own.data[name], digest)
        pixels = dataset.settings.image_size
        if self._features.pixels not in (None, pixels):
            raise InputError(
                f"{name} has pictures of {pixels} pixels, and the policy sees through {own.source.name}, which takes "
                f"{self._features.pixels}; give a dataset with these"
            )

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        """Begin N episodes; see the protocol."""
        if laws.shape != (len(seeds), len(self.record.settings.laws)):
            names = ", ".join(self.record.settings.laws) or "none"
            raise InputError(f"the policy knows the laws {names} of each of {len(seeds)} episodes, got {laws.shape}")
        self._episodes = self._begin(tuple(int(seed) for seed in seeds))

    def _begin(self, seeds: tuple[int, ...]) -> _Episodes:
        history = np.empty((len(seeds), self.config.history, self._features.width), np.float32)
        plan = np.empty((len(seeds), self.config.horizon, len(self._spec.control)), np.float32)
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
        features = self._features.of_observation({part: values[running] for part, values in observation.items()})
        if features.shape[1] != self._features.width:
            raise InputError(f"the policy sees {self._features.width} features of a frame, got {features.shape[1]}")
        newest = self.record.scaling.features(features)[:, None]
        before = np.repeat(newest, self.config.history, axis=1) if now.t == 0 else now.history[running]
        now.history[running] = np.concatenate([before[:, 1:], newest], axis=1)
        replan, place = divmod(now.t, self.execute)
        if place == 0:
            now.plan[running] = self._plan(now, laws, replan)
        now.t += 1
        return now.plan[:, place].copy()

    def _plan(self, now: _Episodes, laws: np.ndarray, replan: int) -> np.ndarray:
        """(n, A, C) controls of those that are not over, by the chance of this planning."""
        rngs = [np.random.default_rng([now.seeds[row], replan]) for row in now.running]
        scaling, known = self.record.scaling, np.zeros((len(rngs), 0), np.float32)
        if self.config.law:
            known = scaling.law(laws[now.running])
        history, law = (torch.from_numpy(x).to(device()) for x in (now.history[now.running], known))
        learned = self._controller.plan(history, law, rngs).cpu().numpy()
        return executable(self._spec, scaling.control.undo(learned))


def load_policy(folder: Path, execute: int | None = None, run: Path | None = None, **how: Any) -> LearnedPolicy:
    """The finished policy in a folder. What is None is as it was trained to be, execute as its task says.

    execute: E. run: where the run is whose features it sees, if it was moved. how: what its controller takes, such as the
    sampler and its steps.
    """
    record = read_policy(folder)
    if not (folder / WEIGHTS).is_file():
        raise InputError(f"{folder} has no finished policy; run its `sgjepa train-policy` command again first")
    try:
        cfg = config_of(record)
    except InputError as error:
        raise InputError(f"{folder / RECORD} was edited, or written by other code: {error}") from error
    execute = task_of(record.settings.world).execute if execute is None else execute
    if not 1 <= execute <= cfg.horizon:
        raise InputError(f"{folder} plans {cfg.horizon} controls: it can carry out 1 to so many, not {execute}")
    features = _features(folder, record, run)
    width, controls = len(record.scaling.features.mean), len(record.scaling.control.low)
    if features.width != width:
        raise InputError(
            f"{folder} sees {width} features of a frame, and {record.settings.source.name} has {features.width}; "
            "put the run back that it was trained on"
        )
    network = cfg.build(width, controls, len(record.settings.laws) if cfg.law else 0)
    load_weights(artifact.checked(folder, WEIGHTS), network)
    controller = cfg.controller(network.to(device()).eval(), **how)
    return LearnedPolicy(record, cfg, controller, features, execute)


def _features(folder: Path, record: PolicyRecord, run: Path | None) -> Features:
    """What the policy was trained to see, after a check that it is still the same."""
    source = record.settings.source
    spec = get_env(record.settings.world).env_spec
    if source.name in (STATE, POSE) and not source.run:
        return open_features(None, spec, pose=source.name == POSE, blur=source.blur)
    place = folder / source.run if run is None else run
    if not place.is_dir():
        raise InputError(f"{folder} sees through the run {source.name}, and {place} does not exist; put that run back there")
    features = open_features(place, spec, source.pose)
    if features.source(folder).model != source.model:
        raise InputError(
            f"{folder} was trained on other weights of {source.name} than {place} has now; train the policy again in "
            "another --out, or put that run back"
        )
    return features
