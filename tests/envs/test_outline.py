"""Outlines of claimed states: of the true state they lie on what the frame shows."""

from __future__ import annotations

import numpy as np
import pytest

from sgjepa.envs import ENVS, get_env

TURNING = ("square", "house", "right_triangle", "pentagon")


def _places(curve: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest column and row of a curve (K, 2), in pixels."""
    return curve.min(axis=0) * side, curve.max(axis=0) * side


def _seen(frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the reddish pixels of a frame: the object in every world here."""
    red = frame[..., 0].astype(int) - frame[..., 1:].max(axis=-1) > 60
    row, column = np.nonzero(red)
    return np.array([column.min(), row.min()]), np.array([column.max() + 1, row.max() + 1])


@pytest.mark.parametrize("world", [*TURNING, "approach_ball"])
def test_the_outline_of_the_true_state_lies_around_the_object(world: str) -> None:
    env = get_env(world)(image_size=128)
    for seed in range(3):
        frame, info = env.reset(seed=seed)
        for _ in range(12):
            frame, _, _, _, info = env.step(env.expert())
        curve = env.outline({name: np.array(value) for name, value in info["state"].items()})
        assert curve is not None
        for found, seen in zip(_places(curve, 128), _seen(frame), strict=True):
            np.testing.assert_allclose(found, seen, atol=2.0)
    env.close()


@pytest.mark.parametrize("world", [*TURNING, "approach_ball"])
def test_outlines_of_many_states_are_those_of_each(world: str) -> None:
    env = get_env(world)(image_size=32)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    names = [quantity.name for quantity in env.env_spec.state]
    many = dict(zip(names, rng.uniform(-0.3, 0.3, (len(names), 2, 5)), strict=True))
    curves = env.outline(many)
    alone = env.outline({name: values[1, 3] for name, values in many.items()})
    assert curves is not None
    assert alone is not None
    np.testing.assert_allclose(curves[1, 3], alone)
    env.close()


@pytest.mark.parametrize("world", ["approach_ball"])
def test_a_ball_behind_the_camera_has_no_outline(world: str) -> None:
    env = get_env(world)(image_size=32)
    env.reset(seed=0)
    curve = env.outline({"x": np.zeros(()), "y": np.array(-5.0), "z": np.array(0.2)})
    assert curve is not None
    assert np.isnan(curve).all()
    env.close()


@pytest.mark.parametrize("world", ["reacher", "cube"])
def test_a_ring_lies_around_what_a_benchmark_moves(world: str) -> None:
    """Pictures differ inside of it when the finger or the cube is out of sight; the cube's is wider than the cube."""
    env = get_env(world)(image_size=128)
    thing = {"reacher": "finger", "cube": "cube/object_0"}[world]
    for seed in range(3):
        env.reset(seed=seed)
        frame, *_, info = env.step(env.expert())
        curve = env.outline({name: np.array(value) for name, value in info["state"].items()})
        assert curve is not None
        geoms = [env.model.geom(thing).id] if world == "reacher" else range(*_geoms(env, thing))
        groups = env.model.geom_group[list(geoms)].copy()
        env.model.geom_group[list(geoms)] = 5  # which nobody draws
        without = env._frame()
        env.model.geom_group[list(geoms)] = groups
        row, column = np.nonzero(np.abs(frame.astype(int) - without).max(axis=-1) > 8)
        assert len(row)
        low, high = _places(curve, 128)
        slack = 2.0 if world == "reacher" else 5.0
        assert (np.array([column.min(), row.min()]) > low - slack).all()
        assert (np.array([column.max(), row.max()]) < high + slack).all()
    env.close()


def _geoms(env: object, body: str) -> tuple[int, int]:
    about = env.model.body(body)  # type: ignore[attr-defined]
    return int(about.geomadr[0]), int(about.geomadr[0] + about.geomnum[0])


@pytest.mark.parametrize("world", [name for name, env in ENVS.items() if env.env_spec.probed])
def test_every_world_that_can_be_probed_can_be_outlined(world: str) -> None:
    env = get_env(world)(image_size=32)
    _, info = env.reset(seed=1)
    curve = env.outline({name: np.array(value) for name, value in info["state"].items()})
    assert curve is not None
    assert curve.ndim == 2
    env.close()
