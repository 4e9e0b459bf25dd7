"""A law through Gymnasium's own doors: given to `make`, given at reset and kept, drawn for each episode, observed."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from sgjepa.core.errors import InputError
from sgjepa.envs import ENVS
from sgjepa.envs.arms.base import ArmWorld
from sgjepa.envs.base import Env

FALLING = [name for name in ENVS if name != "reacher"]  # whose arm moves in a horizontal plane
ALOFT: dict[str, dict[str, float]] = {"approach_ball": {"x": 0.0, "y": 0.0, "z": 1.0}, "cube": {"z": 0.25}}
HOUSE = "sgjepa/House-v0"


def made(world: str, **options: Any) -> Env:
    env = gymnasium.make(ENVS[world].world.gym_id, image_size=8, **options).unwrapped
    assert isinstance(env, Env)
    return env


def idle(env: gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]) -> np.ndarray:
    return np.zeros(env.action_space.shape or (), np.float32)


def aloft(world: str) -> dict[str, float]:
    """The object in mid-air, at rest."""
    high = {"x": 0.0, "y": 0.3, "z": 1.2} if issubclass(ENVS[world], ArmWorld) else {"x": 0.0, "z": 2.0}
    still = {q.name: 0.0 for q in ENVS[world].world.state if q.name in ("vx", "vy", "vz", "omega")}
    return {**ALOFT.get(world, high), **still}


def laws_through(envs: gymnasium.vector.VectorEnv[Any, Any, Any], steps: int = 140) -> list[list[float]]:
    """The gravities of all environments, whenever one of them changes; episodes are 63 steps long."""
    seen: list[list[float]] = []
    for _ in range(steps):
        *_, info = envs.step(idle(envs))
        law = info["law"]["gravity"].tolist()
        if not seen or law != seen[-1]:
            seen.append(law)
    return seen


# --- a law given to `make` ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", FALLING)
@pytest.mark.parametrize("gravity", [3.0, -2.0])
def test_under_a_law_given_to_make_things_fall_as_fast_as_it_says(world: str, gravity: float) -> None:
    env = made(world, law={"gravity": gravity})
    _, info = env.reset(seed=0, options={"state": aloft(world)})
    *_, after = env.step(idle(env))
    assert info["law"] == after["law"] == {"gravity": gravity}
    assert info["phys"]["gravity"] == gravity
    assert (after["state"]["vz"] - info["state"]["vz"]) / env.world.frame_dt == pytest.approx(-gravity, rel=1e-6)
    env.close()


@pytest.mark.parametrize("world", ["reacher"])
def test_an_arm_in_a_horizontal_plane_feels_the_sideways_law_alone(world: str) -> None:
    swings = {}
    for gravity, sideways in [(0.0, 0.0), (20.0, 0.0), (0.0, 4.0)]:
        env = made(world, law={"gravity": gravity, "gravity_x": sideways})
        env.reset(seed=3, options={"state": {"shoulder": 1.0, "wrist": 0.7, "shoulder_rate": 0.0, "wrist_rate": 0.0}})
        pull, inertia = np.zeros(2), np.zeros((2, 2))
        mujoco.mj_fullM(env.model, env.data, inertia)
        for body in range(env.model.nbody):
            jacobian = np.zeros((3, 2))
            mujoco.mj_jacBodyCom(env.model, env.data, jacobian, None, body)
            pull += env.model.body_mass[body] * jacobian[0] * sideways
        assert env.data.qacc == pytest.approx(np.linalg.solve(inertia, pull), abs=1e-9)
        for _ in range(10):
            env.step(idle(env))
        swings[gravity, sideways] = env.state()
        env.close()
    assert swings[20.0, 0.0] == pytest.approx(swings[0.0, 0.0], abs=1e-12)
    assert np.abs(swings[0.0, 4.0] - swings[0.0, 0.0]).max() > 0.5


def test_a_law_given_to_make_is_that_of_every_episode_until_reset_gives_another() -> None:
    env = made("house", law={"gravity": 3.0})
    gravities = []
    for seed, options in [(0, None), (1, {}), (2, {"law": {"gravity": 7.0}}), (3, None), (4, {"law": {"gravity_x": 1.0}})]:
        gravities.append(env.reset(seed=seed, options=options)[1]["law"])
    usual = {"gravity": 3.0}
    assert gravities == [usual, usual, {"gravity": 7.0}, usual, {"gravity": 3.0, "gravity_x": 1.0}]


@pytest.mark.parametrize("world", ["arm_catcher_ball"])
def test_a_law_that_the_world_does_not_take_is_refused_by_make(world: str) -> None:
    with pytest.raises(InputError, match="arm_catcher_ball does not take the law 'gravity_x', only gravity"):
        made(world, law={"gravity_x": 1.0})
    with pytest.raises(InputError, match=r"unknown law 'gravty' \(did you mean gravity\?\)"):
        made(world, law={"gravty": 1.0})
    with pytest.raises(InputError, match="law must be a dict such as"):
        made(world, law=3.0)


def test_vector_environments_take_one_law_for_all_or_one_each() -> None:
    alike = gymnasium.make_vec(HOUSE, 2, vectorization_mode="sync", image_size=8, law={"gravity": 3.0})
    assert alike.reset(seed=0)[1]["law"]["gravity"].tolist() == [3.0, 3.0]
    assert laws_through(alike) == [[3.0, 3.0]]
    alike.close()
    each = SyncVectorEnv([partial(gymnasium.make, HOUSE, image_size=8, law={"gravity": g}) for g in (1.6, 9.8)])
    assert each.reset(seed=0)[1]["law"]["gravity"].tolist() == [1.6, 9.8]
    assert laws_through(each) == [[1.6, 9.8]]
    each.close()


# --- a law given at reset -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_law_given_at_reset_survives_the_automatic_resets(mode: str) -> None:
    envs = gymnasium.make_vec(HOUSE, 2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, image_size=8)
    envs.reset(seed=0, options={"law": {"gravity": 3.0}})
    assert laws_through(envs) == [[3.0, 3.0]]
    envs.reset(options={"law": {"gravity": 7.0}})
    assert laws_through(envs) == [[7.0, 7.0]]
    envs.reset(options={"law": {}})
    assert laws_through(envs) == [[4.0, 4.0]], "the nominal one"
    envs.close()


@pytest.mark.parametrize("world", ENVS)
def test_a_reset_without_a_seed_keeps_the_law_and_one_with_a_seed_begins_anew(world: str) -> None:
    env, alone = made(world), made(world)
    env.reset(seed=0, options={"law": {"gravity": 3.0}})
    first = env.state()
    assert env.reset()[1]["law"] == {"gravity": 3.0}
    assert not np.array_equal(env.state(), first), "the same law, another launch"
    assert env.reset(options={"law": {"gravity": 5.0}})[1]["law"] == {"gravity": 5.0}
    assert env.reset()[1]["law"] == {"gravity": 5.0}
    info, expected = env.reset(seed=7)[1], alone.reset(seed=7)[1]
    assert info["law"] == expected["law"] == env.world.nominal_law
    assert info["state"] == expected["state"]
    assert np.array_equal(env.model.opt.gravity, alone.model.opt.gravity)
    env.close()
    alone.close()


def test_the_law_that_is_kept_is_kept_whole() -> None:
    env = made("square")
    both = {"gravity": 3.0, "gravity_x": 2.0}
    env.reset(seed=0, options={"law": both})
    assert env.reset()[1]["law"] == both
    assert env.model.opt.gravity.tolist() == [2.0, 0.0, -3.0]
    assert env.reset(options={"law": {"gravity": 1.0}})[1]["law"] == {"gravity": 1.0}
    assert env.model.opt.gravity.tolist() == [0.0, 0.0, -1.0]
