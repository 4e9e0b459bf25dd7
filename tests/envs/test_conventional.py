"""DMC Reacher and OGBench-Cube: they move and succeed as the benchmarks' own environments do, in blocks of five actions."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from fixtures.datasets import small

from sgjepa.core.errors import InputError, MachineError
from sgjepa.data.collect import collect
from sgjepa.data.episode import simulate
from sgjepa.data.probe_targets import require_targets
from sgjepa.data.store import open_dataset
from sgjepa.envs import ENVS, benchmarks
from sgjepa.envs.base import Env
from sgjepa.envs.benchmarks import BLOCK, BenchmarkEnv
from sgjepa.envs.cube import Cube
from sgjepa.envs.cube_scene import ACTION, ARM, HOME
from sgjepa.envs.reacher import LINKS, Reacher, angles_at, finger_position, jacobian
from sgjepa.evaluation import baselines
from sgjepa.recipes.training import recipe

WORLDS = [name for name, env in ENVS.items() if issubclass(env, BenchmarkEnv)]


def make(world: str, image_size: int = 8, **options: Any) -> BenchmarkEnv:
    env = ENVS[world](image_size=image_size, **options)
    assert isinstance(env, BenchmarkEnv)
    return env


def named(env: Env) -> dict[str, float]:
    """The state by name, as a dataset would hold it."""
    return dict(zip((q.name for q in env.env_spec.state), env.state().astype(np.float32).tolist(), strict=True))


def by_chance(env: Env, seed: int, frames: int) -> np.ndarray:
    """Controls (frames, 5 A)."""
    return np.random.default_rng(seed).uniform(-1, 1, (frames, len(env.env_spec.control)))


# --- the benchmarks themselves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["hard", "easy"])
def test_reacher_moves_and_is_rewarded_as_dmc_does(task: str) -> None:
    suite = pytest.importorskip("dm_control.suite")
    theirs, ours = suite.load("reacher", task, task_kwargs={"random": 1}), make("reacher", task=task)
    theirs.reset()
    physics = theirs.physics
    assert physics.timestep() * BLOCK == ours.env_spec.frame_dt
    target = physics.named.data.geom_xpos["target"]
    goal = {"x": float(target[0]), "y": float(target[1])}
    angles = dict(zip(("shoulder", "wrist"), physics.data.qpos.tolist(), strict=True))
    ours.begin(0, {"goal": goal, "state": angles})
    for control in by_chance(ours, 0, 20):
        for action in control.reshape(BLOCK, -1):
            theirs.step(action)
        ours.advance(control)
        np.testing.assert_allclose(ours.data.qpos, physics.data.qpos, atol=1e-12)
        np.testing.assert_allclose(ours.state()[:2], physics.named.data.geom_xpos["finger"][:2], atol=1e-3)
    for seed in range(200):  # anywhere near the edge of the target
        angle, far = np.random.default_rng(seed).uniform([0, 0], [2 * math.pi, 0.08])
        finger = {"x": goal["x"] + far * math.cos(angle), "y": goal["y"] + far * math.sin(angle)}
        try:
            ours.put(finger)
        except InputError:  # out of the arm's reach
            continue
        with physics.reset_context():
            physics.data.qpos[:] = ours.data.qpos
        assert ours.success() == (theirs.task.get_reward(physics) == 1)


def test_the_cube_moves_and_succeeds_as_ogbench_does() -> None:
    theirs = pytest.importorskip("ogbench.manipspace.envs.cube_env").CubeEnv("single", mode="data_collection")
    theirs.reset(seed=3)
    ours = make("cube")
    ours.begin(0)
    assert theirs._control_timestep * BLOCK == ours.env_spec.frame_dt
    assert np.array_equal(theirs.action_high, ACTION)
    ours.data.qpos[:] = theirs._data.qpos
    mujoco.mj_forward(ours.model, ours.data)
    ours.goal = dict(zip("xyz", theirs._data.mocap_pos[0].tolist(), strict=True))
    for control in by_chance(ours, 1, 4):
        for action in control.reshape(BLOCK, -1):
            theirs.step(action)
            mujoco.mj_forward(theirs._model, theirs._data)  # theirs reads where the hand was 2 ms ago
        ours.advance(control)
        np.testing.assert_allclose(ours.data.qpos, theirs._data.qpos, atol=1e-6)
    for off in (0.039, 0.041):
        ours.put({"x": ours.goal["x"] + off, "y": ours.goal["y"], "z": ours.goal["z"]})
        theirs._data.qpos[14:17] = ours.state()[:3]
        assert [ours.success()] == theirs._compute_successes()


def test_the_hand_goes_where_an_action_sends_it() -> None:
    env = make("cube")
    assert isinstance(env, Cube)
    env.begin(1, {"state": dict(zip(ARM, HOME.tolist(), strict=True))})
    before = env._gripper.pose(env.data)
    env.advance(np.tile([0.2, -0.2, 0.3, 0.1, 0.0], BLOCK))
    moved = env._gripper.pose(env.data) - before
    # an action is relative to where the hand is by then, so it comes less than half as far as five of them say
    assert moved[:4] == pytest.approx(np.array([0.02, -0.02, 0.016, 0.013]), abs=0.006)
    env.advance(np.tile([0.0, 0.0, 0.0, 0.0, 1.0], BLOCK))
    assert env._gripper.pose(env.data)[4] > 0.9


def test_a_law_changes_the_cube_of_one_environment_alone() -> None:
    """Environments share a model until they are given a law."""
    one, other = make("cube"), make("cube")
    falls = {}
    for name, env, options in [("heavy", one, {"law": {"gravity": 20.0}}), ("usual", other, {})]:
        env.begin(0, {**options, "state": {"z": 0.25}})
        env.advance(np.zeros(25))
        falls[name] = env.phys()[0], env.state()[2]
    assert falls["heavy"][0] == 20.0
    assert falls["usual"][0] == 9.81
    one.begin(0)
    assert one.phys()[0] == 9.81
    assert one.model is other.model
    for law in ({"gravity": 3.0}, {"gravity": 3.0, "gravity_x": 2.0}):  # a second law makes the model anew
        one.begin(0, {"law": law})
    other.begin(0)
    assert other.model.opt.gravity.tolist() == [0.0, 0.0, -9.81]


@pytest.mark.parametrize("method", ["gru", "ssm", "transformer"])
@pytest.mark.parametrize("world", WORLDS)
def test_its_recipes_are_the_papers(world: str, method: str) -> None:
    for size, frames in (("mini", 24), ("paper", 15)):
        run = recipe(f"{world}_{method}", size)
        assert (run.history, run.loss.steps, run.train.frames) == (10, 5, frames)
        assert (run.model.laws, run.model.controls) == (0, len(ENVS[world].env_spec.control))
    assert run.train.epochs == 20


# --- blocks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_what_the_expert_foresees_is_what_happens(world: str) -> None:
    """An episode driven by its recorded controls alone is the demonstrated one, to the bit."""
    shown, driven = make(world), make(world)
    for env in (shown, driven):
        env.begin(4, {"plan": env.env_spec.success_plan})
    for _ in range(6):
        control = shown.expert()
        assert np.array_equal(control, shown.expert())
        shown.advance(control)
        driven.advance(control)
        assert np.array_equal(shown.state(), driven.state())
        assert shown.measures() == driven.measures()


def test_another_control_than_the_experts_is_simulated() -> None:
    env = make("reacher")
    env.begin(4, {"plan": "reach"})
    other = -env.expert()
    env.advance(other)
    alone = make("reacher")
    alone.begin(4, {"plan": "reach"})
    alone.advance(other)
    assert np.array_equal(env.state(), alone.state())


def test_a_goal_that_is_met_between_two_frames_counts() -> None:
    env = make("reacher")
    start = {"shoulder": 0.0, "wrist": 0.0, "shoulder_rate": 20.0, "wrist_rate": 0.0}
    env.begin(0, {"state": start, "goal": {"x": 0.24 * math.cos(1.2), "y": 0.24 * math.sin(1.2)}})
    env.advance(np.zeros(10))
    assert env._goal_distance(env.data) > env._success_distance()
    assert env.success()
    env.advance(np.zeros(10))
    assert not env.success(), "it has gone on"
    assert env.measures() == {"success": 1.0, "missed_by": 0.0}


# --- states, goals and pictures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_a_recorded_state_gives_the_picture_of_its_frame_and_goes_on_from_there(world: str) -> None:
    env, other = make(world, image_size=64), make(world, image_size=64)
    episode = simulate(env, 11, {}, env.env_spec.success_plan)
    other.begin(5)
    for t in (0, 9, 14):
        state = dict(zip((q.name for q in env.env_spec.state), episode.state[t].tolist(), strict=True))
        other.put(state)
        assert np.abs(other._frame().astype(int) - episode.frames[t]).max() <= 8
        assert named(other) == pytest.approx(state, abs=1e-5)
    other.advance(episode.control[14])
    assert other.state()[:3] == pytest.approx(episode.state[15][:3], abs=2e-3)
    env.close()
    other.close()


@pytest.mark.parametrize("world", WORLDS)
def test_a_goal_is_not_seen(world: str) -> None:
    env = make(world, image_size=32)
    goals = [dict(zip(env.env_spec.goal, place, strict=False)) for place in ((0.3, 0.1, 0.02), (0.5, -0.2, 0.02))]
    one, other = (env.reset(seed=0, options={"goal": goal})[0] for goal in goals)
    assert np.array_equal(one, other)
    assert np.array_equal(env.records()["goal"], list(goals[1].values()))
    env.close()


@pytest.mark.parametrize("world", WORLDS)
def test_the_expert_reaches_its_goal(world: str) -> None:
    env = make(world)
    found = []
    for seed in range(6):
        env.begin(seed, {"plan": env.env_spec.success_plan})
        while not env.decided() and env.t < env.env_spec.frames - 1:
            env.advance(env.expert())
        found.append(env.measures()["success"])
    assert sum(found) >= 5


@pytest.mark.parametrize("world", WORLDS)
def test_a_robot_that_is_told_nothing_stays_where_it_is(world: str) -> None:
    env = make(world)
    env.begin(2)
    before = env.state()
    for _ in range(3):
        env.advance(np.zeros(len(env.env_spec.control)))
    joints = [i for i, q in enumerate(env.env_spec.state) if q.unit == "rad"]
    sag = {"reacher": 1e-9, "cube": 0.1}[world]  # rad: OGBench's motors hold the hand where it has sunk to
    assert env.state()[joints] == pytest.approx(before[joints], abs=sag)


def test_a_state_in_which_a_swing_presses_the_wrist_into_its_limit_can_be_put() -> None:
    """The limit is soft, as DMC has it: of the states that a sweep records some lie beyond, and cases begin in them."""
    env = ENVS["reacher"](image_size=16)
    names = [quantity.name for quantity in env.env_spec.state]
    env.begin(0)
    env.put({"shoulder": 0.0, "wrist": 2.7, "shoulder_rate": 0.0, "wrist_rate": 0.0})
    farthest = env.state()
    for _ in range(6):
        env.advance(np.tile([0.0, 1.0], len(env.env_spec.control) // 2))
        farthest = max(farthest, env.state(), key=lambda state: state[names.index("wrist")])
    assert farthest[names.index("wrist")] > env.model.joint("wrist").range[1]
    env.put(dict(zip(names, farthest.astype(np.float32).tolist(), strict=True)))
    assert env.state() == pytest.approx(farthest, abs=1e-5)


@pytest.mark.parametrize(
    ("world", "state", "words"),
    [
        ("reacher", {"wrist": 3.1}, "beyond the wrist's range"),
        ("reacher", {"x": 0.2, "shoulder": 0.0, "wrist": 0.0}, "m beyond where the arm has it"),
        ("reacher", {"x": 0.0, "y": 0.0}, "beyond"),
        ("cube", {"y": 0.5}, "m into a wall or the floor; move x, y or z"),
        ("cube", {"z": -0.1}, "m into a wall or the floor"),
        ("cube", {"elbow": 4.0}, "'elbow' is 0.858 rad beyond its joint's range"),
        ("cube", {"qw": 7.0}, "must have length 1"),
    ],
)
def test_a_state_that_cannot_be_is_one_clear_line(world: str, state: dict[str, float], words: str) -> None:
    env = make(world)
    env.begin(0)
    before = env.state()
    with pytest.raises(InputError, match=words) as caught:
        env.put(state)
    assert "\n" not in str(caught.value)
    assert np.array_equal(env.state(), before)


@pytest.mark.parametrize("world", WORLDS)
def test_the_simulator_goes_on_from_what_a_probe_reads(world: str, tmp_path: Path) -> None:
    """The reference of every evaluation, from a probe that errs by nothing: only the cube or the finger is put anew."""
    base = small(world)
    settings = replace(base, image_size=8, train=replace(base.train, episodes=1), test=replace(base.test, episodes=2))
    data = open_dataset(collect(settings, tmp_path / world, workers=1))
    assert data.test.laws == ()
    targets = require_targets(data.test)
    truth = targets.of(data.test.state.astype(np.float64))
    found, moved = baselines.simulate(data, data.test, np.arange(2), targets, truth[:, 9], truth, context=10, steps=3)
    assert moved == 0
    assert np.abs(found - truth[:, 10:13])[..., : len(targets.position)].max() < 5e-3


def test_two_links_go_where_their_angles_say() -> None:
    for seed in range(20):
        angles = np.random.default_rng(seed).uniform([-3, -2.7], [3, 2.7])
        there = finger_position(angles, LINKS)
        assert angles_at(there, LINKS, angles[1]) == pytest.approx(angles)
        other = angles_at(there, LINKS, -angles[1])
        assert finger_position(other, LINKS) == pytest.approx(there)
        step = 1e-6 * np.array([0.3, -0.7])
        assert finger_position(angles + step, LINKS) - there == pytest.approx(jacobian(angles, LINKS) @ step, rel=1e-4)


# --- the extra ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [Reacher, Cube])
def test_without_the_extra_the_error_names_it(env: type[Env], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks, "find_spec", lambda name: None)
    with pytest.raises(MachineError, match=r"model files of (dm_control|ogbench): sgjepa doctor --fix conventional"):
        benchmarks.package_folder(env.env_spec.name)
    assert not benchmarks.installed(env.env_spec.name)
    assert benchmarks.installed("square")


def test_the_benchmarks_own_code_is_not_imported() -> None:
    code = (
        "import sys; from sgjepa.envs import ENVS\n"
        "for name in ('reacher', 'cube'): env = ENVS[name](image_size=8); env.begin(0); env.advance(env.expert())\n"
        "assert not {'dm_control', 'ogbench', 'scipy'} & {name.split('.')[0] for name in sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
