"""Facts that hold in every world, flat or not: the Gymnasium interface, determinism, and frames that show something."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from sgjepa.core.errors import InputError
from sgjepa.data.config import DatasetConfig, Part, check
from sgjepa.data.episode import Episode, simulate
from sgjepa.envs import ENVS
from sgjepa.envs.arm_world import ArmWorld
from sgjepa.envs.base import Env
from sgjepa.envs.benchmarks import BenchmarkEnv
from sgjepa.laws import LAWS, Grid
from sgjepa.recipes.datasets import SIZES


def episode(world: str, seed: int, **law: float) -> Episode:
    env = ENVS[world](image_size=32)
    try:
        return simulate(env, seed, law)
    finally:
        env.close()


@pytest.mark.parametrize("world", ENVS)
@pytest.mark.filterwarnings("ignore:.*recommend using a symmetric and normalized space")
@pytest.mark.filterwarnings("error:.*Box action space maximum and minimum")
def test_gymnasium_accepts_the_world(world: str) -> None:
    env = gymnasium.make(ENVS[world].env_spec.gym_id, image_size=32).unwrapped
    check_env(env)
    env.close()


@pytest.mark.parametrize("world", ENVS)
def test_gymnasiums_own_time_limit_ends_the_episode_once_at_the_last_frame(world: str) -> None:
    env = gymnasium.wrappers.TimeAwareObservation(gymnasium.make(ENVS[world].env_spec.gym_id, image_size=8))
    seen, _ = env.reset(seed=0)
    assert seen[-1] == 0
    ends = []
    for _ in range(63):
        seen, _, *end, _ = env.step(np.zeros(env.action_space.shape, np.float32))
        ends.append(end)
    assert ends == [[False, False]] * 62 + [[False, True]]
    assert seen[-1] == 63
    env.close()


@pytest.mark.parametrize("world", ENVS)
@pytest.mark.parametrize("terminate", [False, True])
def test_the_first_step_that_ends_in_success_is_rewarded_and_may_end_the_episode(world: str, terminate: bool) -> None:
    """Planned successes at the nominal gravity; worlds without a task are never rewarded."""
    env = ENVS[world](image_size=8, terminate_on_success=terminate)
    succeeded = False
    for seed in range(3):
        env.reset(seed=seed, options={"plan": env.env_spec.expert_plans[0]} if env.env_spec.expert_plans else {})
        rewards, before = [], False
        for _ in range(63):
            _, reward, terminated, _, info = env.step(env.expert())
            rewards.append(reward)
            assert reward == float(info["success"] and not before)
            assert terminated == (terminate and reward == 1)
            before |= info["success"]
            if terminated:
                break
        assert sum(rewards) == info["success"] == before
        succeeded |= before
        if terminate and before:
            with pytest.raises(InputError, match=f"the episode ended at frame {env.t}; call reset to start another"):
                env.step(env.expert())
    assert succeeded == env.env_spec.has_task
    env.close()


@pytest.mark.parametrize("world", ENVS)
def test_the_command_line_name_is_the_worlds_own(world: str) -> None:
    assert ENVS[world].env_spec.name == world


@pytest.mark.parametrize("world", ENVS)
def test_a_world_declares_what_it_offers(world: str) -> None:
    """Names that are declared are those of the state and of known laws, and only a world with a task can succeed."""
    declared, env = ENVS[world].env_spec, ENVS[world]
    units = {quantity.name: quantity.unit for quantity in declared.state}
    probed, usual = declared.probed, declared.defaults
    assert probed is not None
    assert [units[name] for name in probed.position] == ["m"] * len(probed.position)
    assert [units[name] for name in probed.velocity] == ["m/s"] * len(probed.position)
    assert (probed.angle == "") == (probed.rate == "")
    if probed.angle:
        assert (units[probed.angle], units[probed.rate]) == ("rad", "rad/s")
    assert set(declared.goal) <= units.keys()
    assert declared.has_task == (env.success is not Env.success)
    assert declared.has_task == issubclass(env, ArmWorld | BenchmarkEnv)
    assert bool(declared.goal) == issubclass(env, BenchmarkEnv)
    assert set(declared.laws) <= LAWS.keys()
    declared.check_laws(declared.nominal_law)
    assert usual is not None
    assert list(usual.sizes) in (list(SIZES), [size for size in SIZES if size != "small"])
    assert usual.train.keys() == usual.test.keys() == declared.nominal_law.keys()
    assert usual.sizes["paper"].pixels == declared.image_size


@pytest.mark.parametrize("world", ENVS)
def test_the_same_seed_gives_the_same_episode(world: str) -> None:
    first, again, other = episode(world, 5), episode(world, 5), episode(world, 6)
    assert np.array_equal(first.state, again.state)
    assert np.array_equal(first.frames, again.frames)
    assert np.array_equal(first.control, again.control)
    assert first.records.keys() == again.records.keys()
    assert all(np.array_equal(record, again.records[name]) for name, record in first.records.items())
    assert not np.array_equal(first.state, other.state)


@pytest.mark.parametrize("world", ENVS)
def test_an_episode_does_not_remember_the_one_before(world: str) -> None:
    env = ENVS[world](image_size=32)
    env.reset(seed=1, options={"law": {"gravity": 7.0}})
    for _ in range(5):
        env.step(env.expert())
    later, alone = simulate(env, 2, {"gravity": 3.0}), episode(world, 2, gravity=3.0)
    env.close()
    assert np.array_equal(later.state, alone.state)
    assert np.array_equal(later.frames, alone.frames)


@pytest.mark.parametrize("world", ENVS)
@pytest.mark.parametrize("gravity", [0.0, 4.0, 10.0])
def test_episodes_are_finite_and_moving_and_can_be_seen(world: str, gravity: float) -> None:
    made = episode(world, 3, gravity=gravity)
    assert made.frames.shape == (64, 32, 32, 3)
    for array in (made.state, made.control, made.phys, *made.records.values()):
        assert np.isfinite(array).all()
    assert made.control.shape == (64, len(ENVS[world].env_spec.control))
    assert 40 < made.frames.mean() < 250, "neither black nor white"
    assert (np.abs(made.frames[:-1].astype(int) - made.frames[1:]).max(axis=(1, 2, 3)) > 4).mean() > 0.8, (
        "it moves, until it is caught"
    )
    assert made.phys[0] == made.law["gravity"] == gravity


@pytest.mark.parametrize("world", ENVS)
def test_a_copy_of_a_world_goes_its_own_way(world: str) -> None:
    env = ENVS[world](image_size=16)
    env.reset(seed=0)
    other = copy.deepcopy(env)
    env.step(env.expert())
    assert not np.array_equal(env.state(), other.state())
    frame = other.step(other.expert())[0]
    assert np.array_equal(env.state(), other.state())
    assert np.array_equal(env._frame(), frame)
    assert all(np.array_equal(record, other.records()[name]) for name, record in env.records().items())
    env.close()
    other.close()


@pytest.mark.parametrize("world", ENVS)
def test_bad_input_is_one_clear_line_and_the_world_stays_usable(world: str) -> None:
    env = ENVS[world](image_size=16)
    width = len(env.env_spec.control)
    for options, words in [
        ({"law": {"gravity": float("nan")}}, "finite number"),
        ({"law": {"gravity": float("inf")}}, "finite number"),
        ({"law": {"friction": 1.0}}, "unknown law 'friction'"),
        ({"law": {"gravity": "9"}}, "finite number in m/s\\^2, got '9'"),
        ({"law": {"gravity": True}}, "finite number"),
        ({"state": {"x": True}}, "state 'x' must be a finite number, got True"),
        ({"state": {"x": "0"}}, "state 'x' must be a finite number"),
        ({"state": {"x": 1e9}}, "m into .*wall|m beyond where the arm has it"),
        ({"colour": "red"}, "unknown reset option 'colour'"),
        ({"state": {"colour": 1.0}}, "unknown state quantity 'colour'"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            env.reset(seed=0, options=options)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="call reset before step"):
        env.step(np.zeros(width))
    env.reset(seed=0)
    before = env.state()
    wrong: list[tuple[Any, str]] = [(np.zeros(width + 1), "must have the shape")]
    wrong += [(bad, "control must be numbers") for bad in ("abc", None, ["1"] * 5, [True] * 5, [[1.0], []], {"dx": 1.0})]
    if width:
        wrong += [(np.full(width, np.nan), "must be finite"), (np.full(width, 1e6), "must lie within")]
    for control, words in wrong:
        with pytest.raises(InputError, match=words) as caught:
            env.step(control)
        assert "\n" not in str(caught.value)
    assert np.array_equal(env.state(), before)
    assert env.observation_space.contains(env.step(env.expert())[0])
    env.close()


@pytest.mark.parametrize("world", [name for name, env in ENVS.items() if issubclass(env, ArmWorld)])
def test_a_law_that_a_expert_does_not_know_is_refused(world: str) -> None:
    env = ENVS[world](image_size=8)
    words = f"{world} does not take the law 'gravity_x', only gravity"
    with pytest.raises(InputError, match=words):
        env.reset(seed=0, options={"law": {"gravity": 4.0, "gravity_x": 1.0}})
    both = Part(2, {"gravity": Grid((4.0,)), "gravity_x": Grid((1.0,))})
    with pytest.raises(InputError, match=words):
        check(DatasetConfig(world, 8, both, both))
    env.reset(seed=0)
    env.close()


@pytest.mark.parametrize("world", [name for name, env in ENVS.items() if not issubclass(env, ArmWorld)])
def test_a_second_law_that_is_no_longer_given_leaves_no_trace(world: str) -> None:
    env = ENVS[world](image_size=32)
    pulled = simulate(env, 2, {"gravity": 3.0, "gravity_x": 2.0})
    later, alone = simulate(env, 2, {"gravity": 3.0}), episode(world, 2, gravity=3.0)
    env.close()
    assert not np.array_equal(pulled.state, later.state)
    assert np.array_equal(later.state, alone.state)
    assert np.array_equal(later.frames, alone.frames)


@pytest.mark.parametrize("world", [name for name, env in ENVS.items() if issubclass(env, ArmWorld)])
def test_a_ball_starts_over_the_floor_and_not_in_a_wall(world: str) -> None:
    env = ENVS[world](image_size=16)
    assert isinstance(env, ArmWorld)
    (cx, cy), (hx, hy) = env.arena.centre, env.arena.half
    for place in ({"x": cx + hx + 0.05}, {"x": cx - hx}, {"y": cy + hy + 2.0}, {"y": -1e9}, {"x": 5.0}):
        with pytest.raises(InputError, match="into a wall or beyond the floor's edge; move x or y"):
            env.reset(seed=0, options={"state": place})
    near = {"x": cx + hx - env.radius - 0.001, "y": cy + hy - env.radius - 0.001}
    assert env.reset(seed=0, options={"state": near})[1]["state"]["x"] == near["x"]
    env.close()


@pytest.mark.opengl
def test_a_ball_that_flew_out_over_a_wall_can_be_put_where_it_is() -> None:
    """The simulator reference goes on from recorded states, and balls do leave the scene."""
    env = ENVS["arm_catcher_ball"](image_size=16)
    over = {"x": 0.5, "y": 0.6, "z": 1.0, "vx": 4.0, "vy": 0.0, "vz": 0.0}
    env.reset(seed=0, options={"law": {"gravity": 0.0}, "state": over})
    for _ in range(4):
        _, _, _, _, info = env.step(np.zeros(3))
    assert info["state"]["x"] == pytest.approx(1.5, abs=0.01)
    env.put({name: float(np.float32(info["state"][name])) for name in over})
    assert env.state()[0] == pytest.approx(info["state"]["x"])
    with pytest.raises(InputError, match=r"m into a wall or beyond"):
        env.put({"x": 1.6})
    assert env.state()[0] == pytest.approx(info["state"]["x"])
    env.close()


@pytest.mark.parametrize("world", ENVS)
def test_an_unknown_option_is_named(world: str) -> None:
    for name in ENVS[world].env_spec.options:
        with pytest.raises(InputError, match=f"unknown {name} 'wrong'"):
            ENVS[world](**{name: "wrong"})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="image_size must be"):
        ENVS[world](image_size=4)


def test_a_specification_needs_no_simulator() -> None:
    """Datasets, results and reports ask what a world is called and in which units it records, and simulate nothing."""
    code = "import sys; from sgjepa.envs import ENVS; print([ENVS[name].env_spec.name for name in ENVS] == list(ENVS), "
    code += "[name for name in ('mujoco', 'torch') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"
