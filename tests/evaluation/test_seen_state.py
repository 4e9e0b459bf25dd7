"""What a policy without pictures is shown: the same numbers in a dataset and in the world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fixtures.datasets import small

from sgjepa.data.collect import collect
from sgjepa.data.config import make_env
from sgjepa.data.episode import reset_options
from sgjepa.data.probe_targets import state_observations
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS


@pytest.mark.parametrize("world", [name for name, env in ENVS.items() if env.env_spec.has_task])
def test_the_world_shows_what_the_dataset_holds(world: str, tmp_path: Path) -> None:
    settings = small(world)
    few = replace(settings, train=replace(settings.train, episodes=1), test=replace(settings.test, episodes=1))
    dataset = open_dataset(collect(few, tmp_path / world, workers=1))
    stored, env = state_observations(dataset.test), make_env(few)
    assert stored.shape == (1, env.env_spec.frames, len(env.env_spec.state_observation))
    note = dataset.test.metadata(0)
    env.reset(seed=note["seed"], options=reset_options(note["law"], note["labels"]["plan"]))
    shown = [env.state_observation()]
    for control in dataset.test.control[0, :-1]:
        env.step(control)
        shown.append(env.state_observation())
    assert np.array_equal(np.stack(shown), stored[0])
    assert all(seen.dtype == np.float32 for seen in shown)


@pytest.mark.parametrize("world", ENVS)
def test_a_robots_own_pose_is_among_the_records_and_named_once(world: str) -> None:
    declared = ENVS[world].env_spec
    assert set(declared.observed_records) <= set(declared.records)
    names = [quantity.name for quantity in declared.state_observation]
    assert len(set(names)) == len(names)
    assert bool(declared.observed_records) == declared.has_task
