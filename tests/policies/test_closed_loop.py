"""Policies drive worlds: the same episodes alone, side by side and in processes; what is decided stays decided."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from fixtures.datasets import small
from fixtures.waves import drive_in_waves

from sgjepa.core.errors import InputError, MachineError
from sgjepa.data.config import make_env, policy_seed
from sgjepa.data.episode import reset_options, simulate
from sgjepa.envs import ENVS
from sgjepa.envs.arm_world import ArmWorld
from sgjepa.policies.base import Observation, Part, Policy
from sgjepa.policies.closed_loop import Driven
from sgjepa.policies.goal_tasks import starts
from sgjepa.policies.scripted import SIMPLE, HoldStill, Random, simple
from sgjepa.policies.vector_env import Fleet, observe, stack

TASKS = [name for name, env in ENVS.items() if env.env_spec.has_task]
CATCHER = "arm_catcher_ball"


class Follower:
    """Moves towards what is red in the picture: its controls hang on every frame it is shown."""

    observes: Sequence[Part] = ("frame",)
    by_chance = False

    def reset(self, laws: np.ndarray, seeds: Sequence[int]) -> None:
        self._last = np.zeros((len(seeds), 3), np.float32)

    def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
        seen = observation["frame"]
        red = seen[..., 0].astype(np.float32) - seen[..., 2]
        side = np.linspace(-1, 1, seen.shape[1], dtype=np.float32)
        weight = np.maximum(red, 0).sum(axis=(1, 2)) + 1
        across = (np.maximum(red, 0).sum(axis=1) @ side) / weight
        up = -(np.maximum(red, 0).sum(axis=2) @ side) / weight
        self._last = 0.5 * self._last + 0.5 * np.stack([across, 0 * across, up], axis=1)
        return self._last


def equal(one: Driven, other: Driven) -> None:
    for mine, theirs in ((one.rows, other.rows), (one.controls, other.controls)):
        assert list(mine) == list(theirs)
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)


@pytest.mark.parametrize("world", TASKS)
def test_the_demonstrator_in_the_loop_is_the_demonstrator_of_the_dataset(world: str) -> None:
    settings = small(world)
    found = drive_in_waves(simple("expert", ENVS[world].env_spec), settings, "test", range(3), 0, 1)
    env = make_env(settings)
    for row, start in enumerate(starts(settings, "test", range(3))):
        recorded = simulate(env, start.seed, start.law, env.env_spec.success_plan)
        steps = int(found.rows["steps"][row])
        mine = found.controls["episode"] == start.number
        names = [f"control.{one.name}" for one in env.env_spec.control]
        given = np.stack([found.controls[name][mine] for name in names], axis=1)
        np.testing.assert_array_equal(given, recorded.control[:steps])
        assert found.rows["success"][row] == recorded.success
        assert found.rows[env.env_spec.outcome_label][row] == recorded.labels[env.env_spec.outcome_label]


@pytest.mark.opengl
@pytest.mark.parametrize("policy", [Follower(), Random(ENVS[CATCHER].env_spec)], ids=["frames", "chance"])
def test_any_number_of_processes_and_one_episode_at_a_time_give_the_same(policy: Policy) -> None:
    settings, numbers = small(CATCHER), [3, 7, 11, 20, 21]
    alone = drive_in_waves(policy, settings, "test", numbers, 5, processes=1, wave=1)
    assert len(np.unique(alone.rows["steps"])) > 1, "episodes that end together would prove little"
    equal(drive_in_waves(policy, settings, "test", numbers, 5, processes=1), alone)
    equal(drive_in_waves(policy, settings, "test", numbers, 5, processes=2, wave=3), alone)


@pytest.mark.opengl
def test_a_policy_is_shown_the_pictures_that_the_world_itself_would_draw() -> None:
    settings, shown = small(CATCHER), []

    class Watcher(Follower):
        def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
            shown.append(observation["frame"])
            return super().act(observation, laws)

    found = drive_in_waves(Watcher(), settings, "test", [4, 5], 0, 1)
    start = starts(settings, "test", [5])[0]
    env = make_env(settings)
    frames = [env.reset(seed=start.seed, options=reset_options(start.law, env.env_spec.success_plan))[0]]
    controls = np.stack([found.controls[f"control.{one.name}"] for one in env.env_spec.control], axis=1)
    for control in controls[found.controls["episode"] == 5]:
        frames.append(env.step(control)[0])
    for t, frame in enumerate(frames[:-1]):
        np.testing.assert_array_equal(shown[t][1], frame)
    assert found.rows["success"][1] == env.success()


@pytest.mark.parametrize("world", TASKS)
def test_what_is_decided_stays_as_it_is(world: str) -> None:
    settings, policy = small(world), Random(ENVS[world].env_spec)
    env = make_env(settings)
    decided = 0
    for start in starts(settings, "test", range(0, 50, 9)):  # in turn by chance and as demonstrated: failures and successes
        env.begin(start.seed, reset_options(start.law, env.env_spec.success_plan))
        policy.reset(np.zeros((1, 1)), [start.seed])
        known = None
        for _ in range(env.env_spec.frames - 1):
            by_chance = policy.act({"state": env.state_observation()[None]}, np.zeros((1, 1)))[0]
            env.advance(by_chance if start.number % 2 else env.expert())
            now = env.measures(), env.labels()[env.env_spec.outcome_label]
            assert known is None or (env.decided() and str(now) == str(known))
            known = now if env.decided() else None
        decided += known is not None
    assert decided


@pytest.mark.parametrize("world", TASKS)
def test_a_task_says_what_it_measures(world: str) -> None:
    declared = ENVS[world].env_spec
    env = ENVS[world](image_size=8)
    env.begin(seed=0)
    assert declared.measures[0].name == "success"
    assert list(env.measures()) == [one.name for one in declared.measures]
    assert declared.success_plan in declared.expert_plans
    assert declared.outcome_label in declared.labels
    assert {measure.condition for measure in declared.measures} <= {"", *env.measures()}


@pytest.mark.parametrize("world", [name for name, env in ENVS.items() if issubclass(env, ArmWorld)])
def test_who_holds_still_does_not_move(world: str) -> None:
    env = ENVS[world](image_size=8)
    assert isinstance(env, ArmWorld)
    policy = HoldStill(env.env_spec)
    env.begin(seed=1)
    before, facing = (part.copy() for part in env.tool())
    for _ in range(5):  # before the ball can be there
        env.advance(policy.act({"state": env.state_observation()[None]}, np.zeros((1, 1)))[0])
    after, turned = env.tool()
    assert np.abs(after - before).max() < 2e-3
    assert np.abs(turned - facing).max() < 0.01


def test_chance_is_of_the_sampling_seed_and_the_episode_alone() -> None:
    seeds = {policy_seed(sampling, "test", number) for sampling in range(5) for number in range(50)}
    assert len(seeds) == 250
    assert policy_seed(0, "test", 7) != starts(small(CATCHER), "test", [7])[0].seed


@pytest.mark.parametrize("name", SIMPLE)
def test_controls_lie_within_the_limits(name: str) -> None:
    for world in TASKS:
        env = ENVS[world](image_size=8)
        policy = simple(name, env.env_spec)
        policy.reset(np.zeros((2, 1)), [1, 2])
        env.begin(seed=0)
        controls = policy.act(stack([observe(env, policy.observes)] * 2), np.zeros((2, 1)))
        assert controls.dtype == np.float32
        assert (np.abs(controls) <= env.action_space.high).all()


@pytest.mark.opengl
def test_a_worker_that_is_killed_is_one_line() -> None:
    settings = small(CATCHER)

    def killed_between_two_steps() -> None:
        with Fleet(settings, ("state",), 2) as fleet:
            fleet.begin(starts(settings, "test", [0, 1, 2]))
            for process in fleet._pools[1]._pool._processes.values():
                process.kill()
            fleet.step(np.zeros((3, 3), np.float32))

    with pytest.raises(MachineError, match="a worker process was killed"):
        killed_between_two_steps()


def test_a_world_without_a_task_and_a_policy_that_says_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="square has no task"):
        drive_in_waves(HoldStill(ENVS[CATCHER].env_spec), small(), "test", [0], 0)

    class Mute(HoldStill):
        def act(self, observation: Observation, laws: np.ndarray) -> np.ndarray:
            return np.full((len(laws), 3), np.nan)

    with pytest.raises(InputError, match="not 1 x 3 finite numbers"):
        drive_in_waves(Mute(ENVS[CATCHER].env_spec), small(CATCHER), "test", [0], 0, 1)
