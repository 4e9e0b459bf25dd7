"""The settings of a dataset, and the seeds, laws, plan and environment of each of its episodes.

Each decision depends on seed, split and episode number alone, so any episode can be made by itself, and a small dataset is
the beginning of a large one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sgjepa import laws
from sgjepa.core.config import check_bounds, from_dict
from sgjepa.core.errors import InputError, unknown
from sgjepa.data import episode
from sgjepa.data.codec import CODECS
from sgjepa.data.episode import SPLITS
from sgjepa.envs import get_env
from sgjepa.envs.robots import MENAGERIE
from sgjepa.envs.spec import EnvSpec
from sgjepa.laws import Sampler

if TYPE_CHECKING:
    from sgjepa.envs.base import Env

SPLIT_SEED = 42  # of training against validation episodes, the default of all trainings
MOST_EPISODES = 100_000_000  # more is refused as a typing error


def episode_seed(seed: int, split: str, number: int) -> int:
    """The seed for `Env.reset` in an episode."""
    return _seed(seed, SPLITS[split], number)


def policy_seed(sampling: int, split: str, number: int) -> int:
    """The seed of a policy in an episode. sampling: the number of the repeat on the same episodes"""
    return _seed(sampling, SPLITS[split], number, 3)


def _seed(seed: int, *key: int) -> int:
    high, low = np.random.SeedSequence(seed, spawn_key=key).generate_state(2, np.uint32).tolist()
    return int(high >> 1) << 32 | int(low)  # 63 bits: fits a signed integer anywhere


def episode_law(samplers: Mapping[str, Sampler], seed: int, split: str, number: int) -> dict[str, float]:
    """The laws of one episode, from a random stream of their own, rounded to float32 as in the dataset's columns."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SPLITS[split], number, 1)))
    return {name: float(np.float32(value)) for name, value in laws.draw(samplers, rng, number).items()}


def episode_plan(plans: Sequence[str], seed: int, split: str, number: int) -> str:
    """The outcome that the expert aims at in an episode; empty in worlds without plans.

    Each block of as many episodes as there are plans has all of them, in a random order: the shares are exact.
    """
    if not plans:
        return ""
    block, position = divmod(number, len(plans))
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SPLITS[split], block, 2)))
    return plans[int(rng.permutation(len(plans))[position])]


@dataclass(frozen=True)
class Part:
    """The settings of a split: number of episodes, and their laws."""

    episodes: int
    laws: dict[str, Sampler]

    def __post_init__(self) -> None:
        check_bounds(self, episodes=(-MOST_EPISODES, MOST_EPISODES))  # `check` refuses too few


@dataclass(frozen=True)
class DatasetConfig:
    """The settings that determine a dataset's bytes."""

    world: str
    image_size: int
    train: Part
    test: Part
    codec: str = "lz4"
    env: dict[str, str] = field(default_factory=dict)  # options of the world, such as contact; and see `with_mesh_digest`
    seed: int = 0
    recorded: EnvSpec | None = None  # of a world that is not simulated here: its episodes are recordings

    def __post_init__(self) -> None:
        check_bounds(self, image_size=(1, 16_384))
        if self.recorded is not None and self.recorded.name != self.world:
            raise InputError(f"DatasetConfig.recorded is of the world {self.recorded.name}, not {self.world}")

    @property
    def env_spec(self) -> EnvSpec:
        """The specification of the world."""
        return get_env(self.world).env_spec if self.recorded is None else self.recorded

    def part(self, split: str) -> Part:
        return {"train": self.train, "test": self.test}[split]


def env_spec_of(name: str, recorded: Mapping[str, Any]) -> EnvSpec:
    """The specification of a registered world, or of a recorded one as a run stores it (`RunRecord.recorded`)."""
    return from_dict(EnvSpec, recorded[name]) if name in recorded else get_env(name).env_spec


def with_mesh_digest(settings: DatasetConfig) -> DatasetConfig:
    """The settings with a digest of the robot's meshes in `env`, if SGJEPA_MENAGERIE names any: frames show them."""
    from sgjepa.envs.arm_world import ArmWorld  # brings MuJoCo

    env = {key: value for key, value in settings.env.items() if key != MENAGERIE}
    if os.environ.get(MENAGERIE) and issubclass(get_env(settings.world), ArmWorld):
        model = get_env(settings.world)(image_size=8).model
        look = b"".join(part.tobytes() for part in (model.mesh_vert, model.mesh_face, model.geom_rgba))
        env[MENAGERIE] = hashlib.sha256(look).hexdigest()[:12]
    if MENAGERIE in settings.env and env != settings.env:
        raise InputError(f"these settings are for the meshes {settings.env[MENAGERIE]}; set {MENAGERIE} to their folder")
    return replace(settings, env=env)


def env_options(settings: DatasetConfig) -> dict[str, str]:
    """Constructor options of the world's environment, without the size of its pictures."""
    return {key: value for key, value in settings.env.items() if key != MENAGERIE}


def make_env(settings: DatasetConfig) -> Env:
    """The environment that makes the dataset's episodes."""
    if settings.recorded is not None:
        raise InputError(f"{settings.world} was recorded elsewhere: there is no simulator for it here")
    options: dict[str, Any] = dict(env_options(settings))
    return get_env(settings.world)(image_size=settings.image_size, **options)


def make_episode(settings: DatasetConfig, env: Env, split: str, number: int) -> episode.Episode:
    """Simulate a single episode of the dataset."""
    return episode.simulate(env, *_launch(settings, env, split, number))


def begin_episode(settings: DatasetConfig, env: Env, split: str, number: int) -> None:
    """Reset the environment to the start of an episode, without rendering."""
    seed, law, plan = _launch(settings, env, split, number)
    env.begin(seed, episode.reset_options(law, plan))


def _launch(settings: DatasetConfig, env: Env, split: str, number: int) -> tuple[int, dict[str, float], str]:
    """Seed, laws and plan of an episode."""
    law = episode_law(settings.part(split).laws, settings.seed, split, number)
    plan = episode_plan(env.env_spec.expert_plans, settings.seed, split, number)
    return episode_seed(settings.seed, split, number), law, plan


def check(settings: DatasetConfig) -> None:
    """Refuse settings that would fail in a worker."""
    spec = settings.env_spec
    CODECS.lookup(settings.codec)
    for key, value in settings.env.items():
        if key == MENAGERIE:  # from `with_mesh_digest`
            continue
        if not spec.options:
            raise InputError(f"{spec.name} has no options, so none called '{key}'")
        if key not in spec.options:
            raise unknown(f"option of {spec.name}", key, spec.options)
        if value not in spec.options[key]:
            raise unknown(key, value, spec.options[key])
    if settings.seed < 0:
        raise InputError(f"seed must not be negative, got {settings.seed}")
    for split in episode.SPLITS:
        _check_part(settings.part(split), split)
        spec.check_laws(settings.part(split).laws)
    for name in settings.train.laws.keys() ^ settings.test.laws.keys():
        raise InputError(f"law '{name}' must be given for both splits, or for none")
    for name in settings.train.laws.keys() & (episode.COLUMNS.keys() | spec.records.keys()):
        raise InputError(f"a law cannot be called '{name}': a dataset has a column of that name already")
    env = make_env(settings)
    env.reset(seed=0)  # draws a frame, so a renderer that cannot work is refused here
    env.close()


def _check_part(part: Part, split: str) -> None:
    if part.episodes < 1:
        raise InputError(f"a dataset needs at least one {split} episode, got {part.episodes}")
    for name, sampler in part.laws.items():
        if not sampler.parameters:
            raise InputError(f"the {split} grid of law '{name}' is empty")
        for value in sampler.parameters:
            laws.check({name: value})
