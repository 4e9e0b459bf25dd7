"""The raster against MuJoCo's own picture, and MuJoCo's renderer as an option."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sgjepa.core.errors import InputError
from sgjepa.envs import ENVS, planar
from sgjepa.envs.planar import CAMERA, build
from sgjepa.envs.planar_contact import CONTACTS
from sgjepa.envs.render import opengl
from sgjepa.envs.render.gl_renderer import Painter
from sgjepa.envs.render.raster import Raster

WORLDS = [name for name, env in ENVS.items() if issubclass(env, planar.Planar)]


@pytest.fixture(autouse=True, scope="module")
def drawing() -> None:
    try:
        opengl.prove()
    except InputError as error:
        pytest.skip(str(error))


def centroid(frame: np.ndarray) -> np.ndarray:
    weight = np.clip(frame[..., 0].astype(float) - frame[..., 1], 0, None)  # only the body is red
    rows, columns = np.mgrid[: len(frame), : len(frame)]
    return np.array([(weight * columns).sum(), (weight * rows).sum()]) / weight.sum()


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / ((one.astype(float) - other) ** 2).mean()))


def random_poses(env: planar.Planar, count: int) -> list[np.ndarray]:
    rng, poses = np.random.default_rng(0), []
    while len(poses) < count:
        env.data.qpos[:] = rng.uniform(-3.8, 3.8), rng.uniform(0.8, 8.4), rng.uniform(-np.pi, np.pi)
        if env.clearance() > 0:
            poses.append(env.data.qpos.copy())
    return poses


@pytest.mark.parametrize("world", WORLDS)
def test_the_raster_is_mujocos_supersampled_picture(world: str) -> None:
    size, fine = 128, 8
    env = ENVS[world](image_size=size)
    assert isinstance(env, planar.Planar)
    model = build(env.shape, env.contact, size * fine)  # 8 x 8 samples, times MuJoCo's own four
    data = mujoco.MjData(model)
    painter = Painter(model, size, CAMERA, supersample=fine)
    for pose in random_poses(env, 12):
        env.data.qpos[:] = data.qpos[:] = pose
        mujoco.mj_forward(model, data)
        ours, ideal = env._frame(), painter.draw(data)
        assert psnr(ours, ideal) >= 45
        assert np.abs(centroid(ours) - centroid(ideal)).max() <= 0.1
    painter.close()


def test_the_wall_hides_what_is_inside_it() -> None:
    """A body pushed into the floor shows only above it, in both renderers."""
    env = ENVS["square"](image_size=64, renderer="mujoco", contact="reference")
    assert isinstance(env, planar.Planar)
    env.reset(seed=0)
    env.data.qpos[:] = 0.0, 0.5, 0.0  # the lower 0.3 m of the square are in the wall
    mujoco.mj_forward(env.model, env.data)
    assert psnr(Raster(64).draw(env.vertices()), env._frame()) > 35


def test_levels_are_the_references() -> None:
    frame = Raster(128).draw(np.array([[-1.0, 3.6], [1.0, 3.6], [1.0, 5.6], [-1.0, 5.6]]))
    assert frame[64, 64].tolist() == [140, 31, 31]
    assert frame[20, 20].tolist() == [255, 255, 255]
    assert frame[1, 64].tolist() == [1, 1, 1]


@pytest.mark.parametrize("size", [32, 48, 64, 100, 256])
def test_any_size_shows_the_same_scene(size: int) -> None:
    corners = np.array([[-1.0, 3.6], [1.0, 3.6], [1.0, 5.6], [-1.0, 5.6]])
    frame = Raster(size).draw(corners)
    red = (frame[..., 0].astype(float) - frame[..., 1]).sum() / (140 - 31)
    assert red / size**2 == pytest.approx(4 / 10.4**2, rel=0.02)  # the body's share of the picture


@pytest.mark.parametrize("world", WORLDS)
def test_mujocos_renderer_gives_the_same_episode(world: str) -> None:
    ours, theirs = ENVS[world](image_size=64), ENVS[world](image_size=64, renderer="mujoco")
    for env in (ours, theirs):
        env.reset(seed=3, options={"law": {"gravity": 10.0}})
    for _ in range(20):
        one, other = ours.step(ours.expert())[0], theirs.step(theirs.expert())[0]
        assert psnr(one, other) > 30  # MuJoCo's four samples a pixel are coarser than the raster
    theirs.close()


def test_closing_one_renderer_leaves_the_others_alone() -> None:
    model = build(planar.Square.shape, CONTACTS["elastic"], 64)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    first = Painter(model, 64, CAMERA)
    second = Painter(model, 64, CAMERA)
    before = second.draw(data).copy()
    first.close()
    assert np.array_equal(second.draw(data), before)
    second.close()
    second.close()  # twice is no harm
