"""Policies that learn from demonstrations: training, loading and acting, for any network.

A policy plans A controls from the features of the last H frames, executes E of them, and plans again. A kind of policy
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
    """A trained network that plans. how: its settings that are not of the training, for the record of a trial."""

    @property
    def how(self) -> dict[str, Any]: ...

    def plan(self, history: Tensor, law: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        """Scaled controls (n, A, C) from scaled features (n, H, F) and laws (n, L), with a generator for each."""


class PolicyTraining(Trainable):
    """The training of a policy. policy: the module that is saved."""

    policy: nn.Module

    def finish(self, folder: Path, state: State) -> None:
        """Write the weights; the record gets their digests and scores before they are moved into place."""
        last = {row["split"]: row["loss"] for row in run_folder.read(folder) if "split" in row}

        def note(digests: Digests) -> None:
            scores = Scores(last["train"], last.get("validation"), state.seconds)
            artifact.write_record(folder, replace(read_policy(folder), scores=scores, files=digests))

        checkpoint.publish(folder, {WEIGHTS: self.policy}, note)


class PolicyConfig(Protocol):
    """The settings of a policy: a frozen dataclass, saved in its record."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def seed(self) -> int: ...

    @property
    def updates(self) -> int: ...

    @property
    def save_every(self) -> int: ...

    @property
    def law(self) -> bool:
        """Whether the policy is conditioned on the law."""

    @property
    def history(self) -> int:
        """H, the number of observed frames."""

    @property
    def horizon(self) -> int:
        """A, the number of planned controls."""

    def build(self, features: int, controls: int, laws: int) -> nn.Module:
        """A new module to load trained weights into. laws: 0 if the policy is not conditioned on the law."""

    def training(self, training: Windows, validation: Windows, name: str) -> PolicyTraining:
        """The training, for training/loop.py. name: for the progress bar."""

    def controller(self, network: nn.Module, **how: Any) -> Controller:
        """A controller that plans with the trained module, which is in eval mode."""


LEARNED: Registry[type[PolicyConfig]] = Registry(
    "learned policy", {"DiffusionConfig": "sgjepa.policies.diffusion:DiffusionConfig"}
)


def config_of(record: PolicyRecord) -> PolicyConfig:
    """Read the settings of a policy from its record."""
    return config.from_dict(LEARNED.lookup(str(record.settings.config.get("type"))), record.settings.config)


# --- training ---------------------------------------------------------------------------------------------------------


def train_policy(cfg: PolicyConfig, features: Features, dataset: Dataset, folder: Path) -> Path:
    """Train the policy in `folder`, resume its training, or do nothing if it is finished. Returns `folder`."""
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
        _check(folder, settings)  # another process may have started or finished meanwhile
        if not (folder / WEIGHTS).is_file():
            checkpoint.remove_leftovers(folder)
            _train(cfg, features, dataset, folder, settings)
    return folder


def _train(cfg: PolicyConfig, features: Features, dataset: Dataset, folder: Path, settings: Settings) -> None:
    """Prepare the data, then run the training loop from the newest checkpoint, if there is one."""
    scaling, training, validation = demonstrations(cfg, features, settings.source.split_seed, dataset)
    machine = {"threads": torch.get_num_threads()}
    about = PolicyRecord(settings, scaling, counts(training, validation), provenance() | machine)
    if not (folder / RECORD).is_file():
        artifact.write_record(folder, about)
    run_loop(cfg.training(training, validation, folder.name), folder, about, checkpoint.newest(folder), device())


def _check(folder: Path, settings: Settings) -> None:
    """Raise an InputError if the folder holds something other than a policy with these settings."""
    artifact.require_free(folder, TRAINED_BY)
    if is_policy(folder):
        config.require_same(
            config.to_dict(read_policy(folder).settings), config.to_dict(settings), f"{folder} holds a policy"
        )


# --- acting -----------------------------------------------------------------------------------------------------------


@dataclass
class _Episodes:
    """The state of a batch of N episodes."""

    seeds: tuple[int, ...]
    running: np.ndarray  # rows of episodes that are not over
    history: np.ndarray  # (N, H, F) scaled features, oldest first
    plan: np.ndarray  # (N, A, C) controls
    t: int = 0


class LearnedPolicy:
    """A trained policy (policies/base.py). An episode's controls depend only on its own seed and observations."""

    by_chance = True  # plans may be sampled

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
        """Side of its pictures in pixels; None if it takes any size, or no pictures."""
        return self._features.pixels

    @property
    def encoder(self) -> str | None:
        """The name of a pretrained encoder of its features; None for a trained one, or without an encoder."""
        return self._features.encoder

    def check(self, dataset: Dataset) -> None:
        """Raise an InputError for a dataset of another world, with other laws, or with changed data under the same name."""
        own, name, digest = self.record.settings, dataset.path.resolve().name, dataset.manifest.digest
        if dataset.settings.world != own.world:
            raise InputError(
                f"{name} is a dataset of {dataset.settings.world}, and the policy was trained for {own.world}; "
                f"give a dataset of that world"
            )
        if dataset.train.laws != own.laws:
            trained, has = ", ".join(own.laws) or "none", ", ".join(dataset.train.laws) or "none"
            raise InputError(
                f"{name} has the laws {has}, and the policy was trained with {trained}; give a dataset with these"
            )
        if own.data.get(name, digest) != digest:
            raise run_folder.swapped("the policy", name, own.data[name], digest)
        pixels = dataset.settings.image_size
        if self._features.pixels not in (None, pixels):
            raise InputError(
                f"{name} has pictures of {pixels} pixels, and the policy's encoder {own.source.name} takes "
                f"{self._features.pixels}; give a dataset with that size"
            )

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        """Begin N episodes (see `Policy`)."""
        if laws.shape != (len(seeds), len(self.record.settings.laws)):
            names = ", ".join(self.record.settings.laws) or "none"
            raise InputError(f"the policy takes the laws {names} of each of {len(seeds)} episodes, got {laws.shape}")
        self._episodes = self._begin(tuple(int(seed) for seed in seeds))

    def _begin(self, seeds: tuple[int, ...]) -> _Episodes:
        history = np.empty((len(seeds), self.config.history, self._features.width), np.float32)
        plan = np.empty((len(seeds), self.config.horizon, len(self._spec.control)), np.float32)
        return _Episodes(seeds, np.arange(len(seeds)), history, plan)

    def rest(self, over: np.ndarray) -> None:
        """Stop planning for episodes that are over, (N,) bool."""
        self._episodes.running = np.flatnonzero(~over)

    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        """The controls from this frame to the next, (N, A) float32."""
        now, running = self._episodes, self._episodes.running
        if any(len(values) != len(now.seeds) for values in observation.values()):
            count = len(next(iter(observation.values())))
            raise InputError(f"the policy drives {len(now.seeds)} episodes, got an observation of {count}")
        # (n, F) of episodes that are not over
        features = self._features.of_observation({part: values[running] for part, values in observation.items()})
        if features.shape[1] != self._features.width:
            raise InputError(f"the policy takes {self._features.width} features of a frame, got {features.shape[1]}")
        newest = self.record.scaling.features(features)[:, None]
        before = np.repeat(newest, self.config.history, axis=1) if now.t == 0 else now.history[running]
        now.history[running] = np.concatenate([before[:, 1:], newest], axis=1)
        replan, step = divmod(now.t, self.execute)
        if step == 0:
            now.plan[running] = self._plan(now, laws, replan)
        now.t += 1
        return now.plan[:, step].copy()

    def _plan(self, now: _Episodes, laws: np.ndarray, replan: int) -> np.ndarray:
        """Planned controls (n, A, C) of the episodes that are not over. replan: number of this plan, for the random seed."""
        rngs = [np.random.default_rng([now.seeds[row], replan]) for row in now.running]
        scaling, known = self.record.scaling, np.zeros((len(rngs), 0), np.float32)
        if self.config.law:
            known = scaling.law(laws[now.running])
        history, law = (torch.from_numpy(x).to(device()) for x in (now.history[now.running], known))
        learned = self._controller.plan(history, law, rngs).cpu().numpy()
        return executable(self._spec, scaling.control.undo(learned))


def load_policy(folder: Path, execute: int | None = None, run: Path | None = None, **how: Any) -> LearnedPolicy:
    """Load the finished policy in a folder.

    execute: E (default: the task's). run: folder of the run of its features, if it was moved. how: settings of its
    controller, such as the sampler and its steps (default: those of training).
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
        raise InputError(f"{folder} plans {cfg.horizon} controls: it can execute 1 to {cfg.horizon}, not {execute}")
    features = _features(folder, record, run)
    width, controls = len(record.scaling.features.mean), len(record.scaling.control.low)
    if features.width != width:
        raise InputError(
            f"{folder} takes {width} features of a frame, and {record.settings.source.name} has {features.width}; "
            "restore the run that it was trained on"
        )
    network = cfg.build(width, controls, len(record.settings.laws) if cfg.law else 0)
    load_weights(artifact.checked(folder, WEIGHTS), network)
    controller = cfg.controller(network.to(device()).eval(), **how)
    return LearnedPolicy(record, cfg, controller, features, execute)


def _features(folder: Path, record: PolicyRecord, run: Path | None) -> Features:
    """Open the features that a policy was trained on; an InputError if they have changed."""
    source = record.settings.source
    spec = get_env(record.settings.world).env_spec
    if source.name in (STATE, POSE) and not source.run:
        return open_features(None, spec, pose=source.name == POSE, blur=source.blur)
    run = folder / source.run if run is None else run
    if not run.is_dir():
        raise InputError(f"{folder} needs the features of the run {source.name}, and {run} does not exist; restore that run")
    features = open_features(run, spec, source.pose)
    if features.source(folder).model != source.model:
        raise InputError(
            f"{folder} was trained on other weights of {source.name} than {run} has now; train the policy again in "
            "another --out, or restore that run"
        )
    return features
