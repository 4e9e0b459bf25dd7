"""A law through Gymnasium's own doors: given to `make`, given at reset and kept, drawn for each episode, observed."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv

from sgjepa.core.errors import InputError
from sgjepa.envs import ENVS
from sgjepa.envs.arm_world import ArmWorld
from sgjepa.envs.base import Env
from sgjepa.envs.wrappers import LawInObservation, RandomLaw
from sgjepa.laws import ClippedNormal, Grid

FALLING = [name for name in ENVS if name != "reacher"]  # whose arm moves in a horizontal plane
ALOFT: dict[str, dict[str, float]] = {"approach_ball": {"x": 0.0, "y": 0.0, "z": 1.0}, "cube": {"z": 0.25}}
HOUSE = "sgjepa/House-v0"


def made(world: str, **options: Any) -> Env:
    env = gymnasium.make(ENVS[world].env_spec.gym_id, image_size=8, **options).unwrapped
    assert isinstance(env, Env)
    return env


def idle(env: gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]) -> np.ndarray:
    return np.zeros(env.action_space.shape or (), np.float32)


def aloft(world: str) -> dict[str, float]:
    """The object in mid-air, at rest."""
    high = {"x": 0.0, "y": 0.3, "z": 1.2} if issubclass(ENVS[world], ArmWorld) else {"x": 0.0, "z": 2.0}
    still = {q.name: 0.0 for q in ENVS[world].env_spec.state if q.name in ("vx", "vy", "vz", "omega")}
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
    assert (after["state"]["vz"] - info["state"]["vz"]) / env.env_spec.frame_dt == pytest.approx(-gravity, rel=1e-6)
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
    assert info["law"] == expected["law"] == env.env_spec.nominal_law
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


# --- laws that are drawn --------------------------------------------------------------------------------------------


def drawn(samplers: dict[str, Any], count: int = 40, seed: int = 0) -> list[dict[str, float]]:
    """The laws of so many episodes."""
    env = RandomLaw(made("square"), samplers)
    return [env.reset(seed=None if number else seed)[1]["law"] for number in range(count)]


def test_laws_are_drawn_from_a_range_a_list_or_a_sampler() -> None:
    evenly = [law["gravity"] for law in drawn({"gravity": (2.0, 6.0)}, 200)]
    assert 2.0 <= min(evenly) < 2.3 < 5.7 < max(evenly) <= 6.0
    assert len(set(evenly)) == 200
    for values in ([1.6, 3.7, 9.8], Grid((1.6, 3.7, 9.8))):
        assert {law["gravity"] for law in drawn({"gravity": values})} == {1.6, 3.7, 9.8}
    narrow = [law["gravity"] for law in drawn({"gravity": ClippedNormal(4.0, 0.5, 0.1)}, 200)]
    assert np.mean(narrow) == pytest.approx(4.0, abs=4 * 0.5 / np.sqrt(200))  # four standard errors
    assert np.std(narrow) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(400))
    both = drawn({"gravity": (0.0, 1.0), "gravity_x": (0.0, 1.0)}, 200)
    assert abs(np.corrcoef([list(law.values()) for law in both], rowvar=False)[0, 1]) < 4 / np.sqrt(200)


def test_drawn_laws_are_a_function_of_the_seed_and_leave_launches_as_they_are() -> None:
    samplers = {"gravity": (2.0, 6.0)}
    assert drawn(samplers, 5) == drawn(samplers, 5) != drawn(samplers, 5, seed=1)
    inner, plain = made("square"), made("square")
    env = RandomLaw(inner, samplers)
    for seed in (3, None, None):
        law = env.reset(seed=seed)[1]["law"]
        plain.reset(seed=seed, options={"law": law})
        assert np.array_equal(inner.state(), plain.state())


def test_wrappers_around_each_other_draw_independent_laws() -> None:
    env = RandomLaw(RandomLaw(made("square"), {"gravity": (0.0, 1.0)}), {"gravity_x": (0.0, 1.0)})
    laws = [list(env.reset(seed=seed)[1]["law"].values()) for seed in range(200)]
    assert abs(np.corrcoef(laws, rowvar=False)[0, 1]) < 4 / np.sqrt(200)


@pytest.mark.parametrize("world", FALLING)
def test_things_fall_as_the_drawn_and_the_shown_law_say(world: str) -> None:
    env = LawInObservation(RandomLaw(made(world), {"gravity": (-3.0, 9.0)}))
    shown = set()
    for seed in (0, None):
        seen, before = env.reset(seed=seed, options={"state": aloft(world)})
        later, *_, after = env.step(idle(env))
        rate = (after["state"]["vz"] - before["state"]["vz"]) / ENVS[world].env_spec.frame_dt
        assert rate == pytest.approx(-before["law"]["gravity"], rel=1e-6)
        assert seen["law"].tolist() == later["law"].tolist() == pytest.approx([before["law"]["gravity"]], rel=1e-6)
        shown.add(seen["law"].item())
    assert len(shown) == 2, "each episode has its own"
    env.close()


def test_a_law_given_at_reset_is_not_drawn_until_it_is_taken_back() -> None:
    samplers = {"gravity": (2.0, 6.0)}
    env = RandomLaw(made("square"), samplers)
    env.reset(seed=0, options={"law": {"gravity": 9.0}})
    assert env.reset()[1]["law"] == {"gravity": 9.0}
    first = env.reset(options={"law": {}})[1]["law"]["gravity"]
    assert 2.0 < first < 6.0
    assert env.reset()[1]["law"]["gravity"] not in (first, 9.0)
    env.reset(options={"law": {"gravity": 9.0}})
    assert env.reset(seed=0)[1]["law"] == drawn(samplers, 1)[0]
    both = env.reset(options={"law": {"gravity_x": 1.0}})[1]["law"]
    assert both["gravity_x"] == 1.0
    assert 2.0 < both["gravity"] < 6.0
    with pytest.raises(InputError, match="unknown law 'gravty'"):
        env.reset(options={"law": {"gravty": 1.0}})
    with pytest.raises(InputError, match="into a wall"):
        env.reset(options={"law": {"gravity": 9.0}, "state": {"x": 1e9}})
    assert env.reset()[1]["law"].keys() == both.keys(), "what was refused changes nothing"


@pytest.mark.parametrize(
    ("mode", "how"), [("sync", {}), ("sync", {"autoreset_mode": "SameStep"}), ("async", {"context": "spawn"})]
)
def test_vector_environments_draw_a_new_law_at_each_automatic_reset(mode: str, how: dict[str, Any]) -> None:
    samplers = {"gravity": (2.0, 6.0)}
    wrappers = [partial(RandomLaw, samplers=samplers), LawInObservation]
    envs = gymnasium.make_vec(HOUSE, 2, vectorization_mode=mode, vector_kwargs=how, wrappers=wrappers, image_size=8)
    seen, info = envs.reset(seed=5)
    assert seen["image"].shape == (2, 8, 8, 3)
    assert seen["law"][:, 0] == pytest.approx(info["law"]["gravity"])
    each = [drawn(samplers, 3, seed=5 + row) for row in range(2)]
    assert laws_through(envs) == [[law["gravity"] for law in together] for together in zip(*each, strict=True)]
    envs.close()


@pytest.mark.parametrize(
    ("samplers", "words"),
    [
        ({}, r"RandomLaw takes laws such as {'gravity': \(2.0, 6.0\)}, got {}"),
        ({"gravty": (2.0, 6.0)}, "unknown law 'gravty'"),
        ({"gravity": (6.0, 2.0)}, r"law 'gravity' is drawn from \(low, high\), got \(6.0, 2.0\)"),
        ({"gravity": (1.0, 2.0, 3.0)}, r"is drawn from \(low, high\), a list of values or a sampler such as"),
        ({"gravity": 4.0}, r"is drawn from \(low, high\), a list of values or a sampler such as"),
        ({"gravity": []}, "the list of values of law 'gravity' is empty"),
        ({"gravity": ["4"]}, r"law 'gravity' must be a finite number in m/s\^2, got '4'"),
        ({"gravity": (0.0, 2000.0)}, "law 'gravity' must lie within ±1000"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused_in_a_line(samplers: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        RandomLaw(made("square"), samplers)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("world", ["franka_basket"])
def test_a_wrapper_refuses_a_law_that_the_world_does_not_take(world: str) -> None:
    for wrap in (partial(RandomLaw, samplers={"gravity_x": (0.0, 1.0)}), partial(LawInObservation, names=["gravity_x"])):
        with pytest.raises(InputError, match="franka_basket does not take the law 'gravity_x'"):
            wrap(made(world))


def test_wrappers_are_for_these_worlds() -> None:
    for wrap in (partial(RandomLaw, samplers={"gravity": (0.0, 1.0)}), LawInObservation):
        with pytest.raises(InputError, match=r"the laws are those of sgjepa's worlds; <.*CartPole.*> is none"):
            wrap(gymnasium.make("CartPole-v1"))


# --- laws that are observed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", ENVS)
@pytest.mark.filterwarnings("ignore:.*recommend using a symmetric and normalized space")
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
def test_gymnasium_accepts_both_wrappers(world: str) -> None:
    env = LawInObservation(RandomLaw(gymnasium.make(ENVS[world].env_spec.gym_id, image_size=8), {"gravity": [2.0, 6.0]}))
    check_env(env, skip_render_check=True)
    env.close()


def test_the_laws_shown_are_those_that_every_episode_has_or_that_are_named() -> None:
    assert LawInObservation(made("square")).names == ("gravity",)
    assert LawInObservation(made("square", law={"gravity_x": 1.0})).names == ("gravity", "gravity_x")
    below = RandomLaw(made("square"), {"gravity_x": [1.0, 2.0]})
    assert LawInObservation(below).names == ("gravity", "gravity_x")
    one = LawInObservation(below, ["gravity_x"])
    assert isinstance(one.observation_space, gymnasium.spaces.Dict)
    assert one.observation_space["law"] == gymnasium.spaces.Box(-1000, 1000, (1,), np.float32)
    seen, info = one.reset(seed=0)
    assert seen["law"].tolist() == [info["law"]["gravity_x"]]
    absent = LawInObservation(made("square"), ["gravity", "gravity_x"])
    with pytest.raises(InputError, match="the episode has no law 'gravity_x' to show, only gravity; give it to"):
        absent.reset(seed=0)
    seen, _ = absent.reset(seed=0, options={"law": {"gravity": 2.0, "gravity_x": 1.0}})
    assert seen["law"].tolist() == [2.0, 1.0]


@pytest.mark.parametrize("world", ["reacher", "cube"])
def test_a_world_without_a_law_shows_none_until_it_has_one(world: str) -> None:
    with pytest.raises(InputError, match=f"{world} has no law to show; give it one"):
        LawInObservation(made(world))
    env = LawInObservation(made(world, law={"gravity": 3.0}))
    assert env.reset(seed=0)[0]["law"].tolist() == [3.0]
    env.close()


def test_an_environment_is_made_again_from_its_spec_with_law_and_wrappers() -> None:
    env = RandomLaw(gymnasium.make(HOUSE, image_size=8, law={"gravity_x": 1.0}), {"gravity": (2.0, 6.0)})
    shown = LawInObservation(env, ["gravity_x", "gravity"])
    assert shown.spec is not None
    again = gymnasium.make(shown.spec)
    assert again.observation_space == shown.observation_space
    for seed in (0, None):
        assert again.reset(seed=seed)[0]["law"].tolist() == shown.reset(seed=seed)[0]["law"].tolist()
