from __future__ import annotations

import math

import numpy as np
import pytest

from sgjepa.envs import planar as shapes

SHAPES = [shapes.SQUARE, shapes.RIGHT_TRIANGLE, shapes.PENTAGON, shapes.HOUSE]


def area_and_centre(vertices: np.ndarray) -> tuple[float, np.ndarray]:
    following = np.roll(vertices, -1, axis=0)
    cross = vertices[:, 0] * following[:, 1] - following[:, 0] * vertices[:, 1]
    return cross.sum() / 2, ((vertices + following) * cross[:, None]).sum(axis=0) / (3 * cross.sum())


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
def test_a_shape_is_convex_counterclockwise_and_about_its_centre_of_mass(shape: shapes.Shape) -> None:
    vertices = np.array(shape.vertices)
    edges = np.roll(vertices, -1, axis=0) - vertices
    after = np.roll(edges, -1, axis=0)
    assert (edges[:, 0] * after[:, 1] - edges[:, 1] * after[:, 0] > 0).all()
    _, centre = area_and_centre(vertices)
    assert centre == pytest.approx([0, 0], abs=1e-12)


def test_moments_of_inertia_are_the_known_ones() -> None:
    assert shapes.SQUARE.gyration == pytest.approx(2 / 3)
    assert shapes.RIGHT_TRIANGLE.gyration == pytest.approx(2 / 9)  # leg^2 / 9
    assert shapes.HOUSE.gyration == pytest.approx(0.8622, abs=5e-5)
    # regular pentagon: R^2 / 6 * (1 + 2 cos^2(pi / 5))
    assert shapes.PENTAGON.gyration == pytest.approx(1.1**2 / 6 * (1 + 2 * math.cos(math.pi / 5) ** 2))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
def test_inertia_agrees_with_monte_carlo(shape: shapes.Shape) -> None:
    points = np.random.default_rng(0).uniform(-2, 2, (200_000, 2))
    vertices = np.array(shape.vertices)
    edges = np.roll(vertices, -1, axis=0) - vertices
    inside = np.ones(len(points), bool)
    for vertex, edge in zip(vertices, edges, strict=True):
        inside &= edge[0] * (points[:, 1] - vertex[1]) - edge[1] * (points[:, 0] - vertex[0]) > 0
    squares = (points[inside] ** 2).sum(axis=1)
    standard_error = squares.std() / math.sqrt(len(squares))
    assert squares.mean() == pytest.approx(shape.gyration, abs=4 * standard_error)


def test_the_houses_roof_is_the_triangle_with_its_hypotenuse_on_the_square() -> None:
    bottom_left, bottom_right, eave_right, ridge, eave_left = np.array(shapes.HOUSE.vertices)
    assert np.linalg.norm(eave_right - eave_left) == pytest.approx(2.0)  # the hypotenuse covers the square's top
    assert np.linalg.norm(bottom_right - bottom_left) == pytest.approx(2.0)
    legs = [np.linalg.norm(ridge - eave) for eave in (eave_left, eave_right)]
    assert legs == pytest.approx([math.sqrt(2)] * 2)
    assert (ridge - eave_left) @ (ridge - eave_right) == pytest.approx(0.0, abs=1e-12)
    assert (eave_left + bottom_right)[1] / 2 == pytest.approx(-4 / 15)  # the square's centre, below the common one


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
def test_a_turn_by_the_symmetry_order_changes_nothing(shape: shapes.Shape) -> None:
    def corners(theta: float) -> set[tuple[float, float]]:
        return {(round(x, 9) + 0.0, round(z, 9) + 0.0) for x, z in shape.turned(theta)}

    assert corners(2 * math.pi / shape.symmetry) == corners(0.0)
    finer = [n for n in range(shape.symmetry + 1, 9) if corners(2 * math.pi / n) == corners(0.0)]
    assert not finer, "the symmetry order is larger than the spec says"
