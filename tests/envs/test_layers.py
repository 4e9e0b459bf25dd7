"""Pictures in layers against MuJoCo's own picture of the whole scene, and shadows against geometry."""

from __future__ import annotations

import tracemalloc

import mujoco
import numpy as np
import pytest

from sgjepa.envs import ENVS
from sgjepa.envs.approach_ball import RADIUS, ApproachBall
from sgjepa.envs.franka_basket import FrankaPaddleToBasket
from sgjepa.envs.franka_basket_scene import BASE
from sgjepa.envs.render import layered_renderer
from sgjepa.envs.render.gl_renderer import ALL_GROUPS, Canvas, Painter, reduce
from sgjepa.envs.render.layered_renderer import BACKDROP, View
from sgjepa.envs.render.shadows import Lamp, hidden_lamp, standing
from sgjepa.envs.world3d import CAMERA, LAMP

pytestmark = pytest.mark.opengl


def at(size: int, **state: float) -> ApproachBall:
    env = ApproachBall(image_size=size)
    env.reset(seed=0, options={"state": state})
    return env


@pytest.mark.parametrize("size", [64, 128])
def test_layers_give_the_picture_of_the_whole_scene(size: int) -> None:
    """Without the shadow, MuJoCo's picture with 8 x 8 samples differs only where its lines are sampled coarser."""
    env = at(size, x=0.1, y=0.2, z=0.3)
    env._casters = lambda: np.zeros((0, 4))  # type: ignore[method-assign]
    layered = env._frame().astype(float)
    whole = Painter(env.model, size, CAMERA, supersample=8)
    difference = layered - whole.draw(env.data)
    whole.close()
    env.close()
    assert 10 * np.log10(255**2 / (difference**2).mean()) > 38
    assert abs(difference.mean()) < 0.2


def test_a_part_of_the_picture_is_that_part() -> None:
    env = at(64, x=-0.1, y=0.5, z=0.25)
    canvas = Canvas(env.model, 128, CAMERA)
    colours, depth = canvas.paint(env.data)
    rows, columns = slice(17, 90), slice(31, 103)
    part, part_depth = canvas.paint_part(env.data, rows, columns)
    assert np.percentile(np.abs(part.astype(int) - colours[rows, columns]).max(axis=2), 98) <= 2
    assert np.percentile(np.abs(part_depth - depth[rows, columns]), 98) < 1e-4
    enlarged = reduce(canvas.paint_part(env.data, slice(32, 96), slice(32, 96), zoom=2)[0], 2)
    assert np.abs(enlarged.astype(int) - colours[32:96, 32:96]).mean() < 6
    canvas.close()
    env.close()


def test_only_what_moves_is_drawn_again() -> None:
    """Outside the ball and its shadow two frames are equal, byte for byte."""
    env = at(128, x=-0.3, y=0.2, z=0.3)
    one = env._frame()
    env.reset(seed=0, options={"state": {"x": 0.4, "y": 0.9, "z": 0.2}})
    other = env._frame()
    changed = (one != other).any(axis=2)
    env.close()
    assert 0.002 < changed.mean() < 0.05


def test_the_shadow_lies_where_the_lamp_throws_it() -> None:
    env = at(256, x=0.2, y=0.1, z=0.4)
    with_shadow = env._frame().astype(float)
    env._casters = lambda: np.zeros((0, 4))  # type: ignore[method-assign]
    without = env._frame().astype(float)
    dark = (without - with_shadow).mean(axis=2)
    assert dark.min() >= -0.5
    rows, columns = np.mgrid[:256, :256] + 0.5
    found = (dark * columns).sum() / dark.sum(), (dark * rows).sum() / dark.sum()
    stretch = LAMP.position[2] / (LAMP.position[2] - 0.4)
    place = View(env.model, env.data, CAMERA, 256).project(np.array([0.2 * stretch, 0.1 * stretch, 0.0]))
    assert found == pytest.approx(place, abs=0.5)
    # at its middle the shadow takes the lamp's share of the light
    column, row = place.astype(int)
    assert dark[row, column] / without[row, column].mean() == pytest.approx(LAMP.darkness, abs=0.02)
    env.close()


def test_a_shadow_is_softer_the_higher_the_ball_and_never_on_the_wall() -> None:
    def edges(z: float) -> float:
        """The share of the shadow's pixels that are neither full nor empty."""
        env = at(256, x=0.0, y=0.0, z=z)
        painter_frame = env._frame().astype(float)
        env._casters = lambda: np.zeros((0, 4))  # type: ignore[method-assign]
        dark = (env._frame() - painter_frame).mean(axis=2)
        env.close()
        return float(((dark > 2) & (dark < 0.8 * dark.max())).sum() / (dark > 2).sum())

    assert edges(0.45) > edges(0.10)
    env = at(256, x=0.0, y=1.1, z=0.4)  # close to the far wall
    one = env._frame()
    env._casters = lambda: np.zeros((0, 4))  # type: ignore[method-assign]
    changed = np.argwhere((env._frame() != one).any(axis=2))
    corner = View(env.model, env.data, CAMERA, 256).project(np.array([0.0, 1.2, 0.0]))[1]
    env.close()
    assert len(changed)
    assert changed[:, 0].min() >= int(corner)


def test_no_shadow_is_painted_on_what_stands_before_the_floor() -> None:
    """A ball whose shadow covers the floor all around the pedestal leaves the pedestal's faces as they were."""
    env = FrankaPaddleToBasket(image_size=256)
    env.reset(seed=0)
    env._frame()
    assert env._painter is not None
    env._painter._geoms = env._painter._geoms[:0]  # nothing that moves: the backdrop and its shadows are left
    empty = env._painter.draw(env.data, np.zeros((0, 4))).astype(int)
    shaded = env._painter.draw(env.data, np.array([[BASE[0], BASE[1] - 0.2, 0.3, 0.5]])).astype(int)
    view = View(env.model, env.data, CAMERA, 256)
    env.close()
    changed = (shaded != empty).any(axis=2)
    face = view.project(np.array([[BASE[0] + dx, BASE[1] - 0.1, z] for dx in (-0.08, 0.06) for z in (0.05, 0.3)])).astype(
        int
    )
    assert not any(changed[row, column] for column, row in face), "the pedestal's front"
    for x, y in ((BASE[0], BASE[1] - 0.4), (BASE[0] - 0.3, BASE[1]), (BASE[0] + 0.25, BASE[1])):
        column, row = view.project(np.array([x, y, 0.0])).astype(int)
        assert shaded[row, column].mean() / empty[row, column].mean() == pytest.approx(1 - LAMP.darkness, abs=0.03)


def test_the_shadow_of_what_stands_still_is_the_share_of_the_lamp_it_hides() -> None:
    """Against MuJoCo's rays from points under the basket to points of the lamp."""
    env = FrankaPaddleToBasket(image_size=64)
    env.reset(seed=0)
    points = np.random.default_rng(0).uniform((-1.0, -0.35), (-0.36, 0.35), (200, 2))  # neither ball nor arm over them
    shapes = standing(env.model, env.data, env.arena, ALL_GROUPS)
    ours = hidden_lamp(shapes, LAMP, points[None])[0]
    groups, hit = np.array([1, 1, 1, 0, 0, 0], np.uint8), np.zeros(1, np.int32)
    rays = [
        np.mean([mujoco.mj_ray(env.model, env.data, start, bulb - start, groups, 1, -1, hit) >= 0 for bulb in LAMP.bulbs()])
        for start in np.column_stack([points, np.full(200, 1e-6)])
    ]
    env.close()
    assert 0.2 < np.mean(rays) < 0.8
    assert np.abs(ours - rays).max() < 0.15, "cells of 10 mm against wires of 8 mm"
    assert np.abs(ours - rays).mean() < 0.02


def test_in_an_empty_box_nothing_stands() -> None:
    env = at(64, z=0.3)
    assert standing(env.model, env.data, env.arena, ALL_GROUPS) == []
    env.close()


def test_the_rectangle_of_a_sphere_is_tight() -> None:
    env = at(64, z=0.3)
    view = View(env.model, env.data, CAMERA, 1000)
    env.close()
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    for centre in ([0.0, 0.0, 0.2], [-0.5, 0.8, 0.1], [0.3, -0.4, 0.4]):
        box = view.box(np.array([[*centre, RADIUS]]))
        assert box is not None
        seen = view.project(np.array(centre) + RADIUS * points)
        assert seen.min(axis=0) == pytest.approx([box.left, box.top], abs=2.5)
        assert seen.max(axis=0) == pytest.approx([box.right, box.bottom], abs=2.5)
        assert seen.min(axis=0)[0] >= box.left
        assert seen.max(axis=0)[1] <= box.bottom
    assert view.box(np.array([[0.0, 30.0, 30.0, 0.1]])) is None, "above the picture"
    assert view.box(np.array([[0.0, -3.0, 0.5, 0.1]])) == view.box(np.array([[*view.position, 1.0]])), "no bound behind us"


def test_a_point_of_the_floor_projects_back_to_its_pixel() -> None:
    env = at(64, z=0.3)
    view = View(env.model, env.data, CAMERA, 64)
    env.close()
    floor = view.on_floor()
    rows, columns = np.nonzero(np.isfinite(floor[..., 0]) & (floor[..., 1] < 5))
    points = np.column_stack([floor[rows, columns], np.zeros(len(rows))])
    assert view.project(points) == pytest.approx(np.column_stack([columns, rows]) + 0.5, abs=2e-3)


def test_closing_one_world_leaves_the_others_alone() -> None:
    one, other = at(64, z=0.3), at(64, z=0.3)
    before = other._frame()
    one.close()
    assert np.array_equal(other._frame(), before)
    assert np.array_equal(one._frame(), before), "a closed world opens its canvas again"
    other.close()
    one.close()
    one.close()  # twice is no harm


def test_what_moves_is_not_in_the_backdrop() -> None:
    env = at(64, z=0.3)
    backdrop = [env.model.geom(i).name for i in range(env.model.ngeom) if env.model.geom_group[i] == BACKDROP]
    env.close()
    assert "ball" not in backdrop
    assert env.model.nsite > 50
    assert (env.model.site_group == BACKDROP).all()
    assert mujoco.mj_id2name(env.model, mujoco.mjtObj.mjOBJ_GEOM, 0) == "floor"


def test_reduce_is_the_mean_of_blocks() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (24, 36, 3), dtype=np.uint8)
    for factor in (1, 2, 3, 4):
        plain = picture.reshape(24 // factor, factor, 36 // factor, factor, 3).mean(axis=(1, 3))
        assert np.abs(reduce(picture, factor) - plain).max() <= 0.5


@pytest.mark.parametrize(("world", "size"), [("arm_paddle_ball", 256), ("franka_basket", 257), ("arm_catcher_ball", 300)])
def test_shadows_on_every_other_point_are_as_good(world: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = []
    for coarse in (1024, 10**9):
        monkeypatch.setattr(layered_renderer, "_COARSE", coarse)
        env = ENVS[world](image_size=size)
        frames.append(env.reset(seed=1, options={"law": {"gravity": 5.0}})[0].astype(int))
        env.close()
    assert 0 < np.abs(frames[0] - frames[1]).max() <= 4


def test_a_mesh_of_many_points_has_a_shadow_without_much_memory() -> None:
    points = np.random.default_rng(0).normal((0, 0, 0.3), 0.05, (20_000, 3))
    spheres = np.column_stack([points, np.zeros(len(points))])
    lamp = Lamp((0.0, 0.0, 3.0), 0.2, 0.5)
    tracemalloc.start()
    dark = hidden_lamp([spheres], lamp, np.zeros((1, 1, 2)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert dark[0, 0] == 1
    assert peak < 300e6
