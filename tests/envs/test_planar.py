"""Facts of the planar worlds' physics. What holds in every world is in test_worlds.py."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest

from sgjepa import laws
from sgjepa.core.errors import InputError
from sgjepa.envs import ENVS, planar
from sgjepa.envs.planar import MARGIN
from sgjepa.envs.planar_contact import advance
from sgjepa.envs.render.raster import CENTRE, HALF_BOX
from sgjepa.laws import Law

WORLDS = [name for name, env in ENVS.items() if issubclass(env, planar.Planar)]
GRAVITIES = [-2.0, 0.0, 4.0, 10.0]
STILL = np.zeros(2, np.float32)


def make(world: str, image_size: int = 8, **options: str) -> planar.Planar:
    env = ENVS[world](image_size=image_size, **options)
    assert isinstance(env, planar.Planar)
    return env


def play(env: planar.Planar, seed: int, gravity: float, steps: int = 63) -> Iterator[planar.Planar]:
    """The environment at frame 1, 2, ... under its expert."""
    env.reset(seed=seed, options={"law": {"gravity": gravity}})
    for _ in range(steps):
        env.step(env.expert())
        yield env


def launch_energy(env: planar.Planar) -> float:
    """Energy right after the launch impulse, which does work on a body at rest."""
    return env.energy() + float((env.expert().astype(float) ** 2).sum()) / (2 * env.phys()[1])


# --- the Gymnasium interface ---------------------------------------------------------------------------------------


def test_worlds_run_as_vectors_with_a_law_each() -> None:
    worlds = gymnasium.make_vec("sgjepa/Pentagon-v0", num_envs=2, vectorization_mode="sync", image_size=16)
    frames, info = worlds.reset(seed=0, options={"law": {"gravity": 2.0}})
    assert frames.shape == (2, 16, 16, 3)
    assert info["law"]["gravity"].tolist() == [2.0, 2.0]
    worlds.close()


@pytest.mark.parametrize("world", WORLDS)
def test_an_episode_has_64_frames_and_named_state(world: str) -> None:
    env = make(world, image_size=32)
    frame, info = env.reset(seed=1, options={"law": {"gravity": 7.0}})
    assert frame.shape == (32, 32, 3)
    assert list(info["state"]) == ["x", "z", "vx", "vz", "theta", "omega", "anchor_x", "anchor_z"]
    assert info["law"] == {"gravity": 7.0}
    assert (info["state"]["anchor_x"], info["state"]["anchor_z"]) == CENTRE
    ends = [env.step(env.expert())[2:4] for _ in range(63)]
    assert ends == [(False, False)] * 62 + [(False, True)]
    with pytest.raises(InputError, match="ended at frame 63; call reset"):
        env.step(STILL)


def test_symmetry_orders_are_those_of_the_shapes() -> None:
    assert {w: ENVS[w].env_spec.probed.symmetry for w in WORLDS} == {
        "square": 4,
        "right_triangle": 1,
        "pentagon": 5,
        "house": 1,
    }


# --- launch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_nothing_starts_near_a_wall_and_launches_follow_the_distribution(world: str) -> None:
    env = make(world)
    drawn = []
    for seed in range(300):
        env.reset(seed=seed)
        assert env.clearance() >= MARGIN - 1e-9
        _, z, vx, vz, theta, omega = env.state()[:6]
        mass, impulse = env.phys()[1], env.expert().astype(float)
        assert (vx, vz, omega) == (0, 0, 0), "the kick comes with the first control"
        drawn.append([mass, theta, np.hypot(*impulse) / mass, math.atan2(impulse[1], impulse[0]), z])
    mass, theta, speed, heading, z = np.array(drawn).T
    for values, low, high in [(mass, 0.5, 2.0), (theta, -0.6, 0.6), (speed, 0.35, 1.10), (heading, -math.pi, math.pi)]:
        assert values.min() >= low - 1e-6
        assert values.max() <= high + 1e-6
        uniform_error = (high - low) / math.sqrt(12 * len(values))
        assert abs(values.mean() - (low + high) / 2) < 4 * uniform_error
    assert z.min() >= 5.176 - 1e-9


def test_worlds_share_their_draws_for_a_seed() -> None:
    drawn = []
    for world in WORLDS:
        env = make(world)
        env.reset(seed=3)
        drawn.append([env.phys()[1], env.state()[4], *env.expert()])
    assert np.allclose(drawn, drawn[0])


@pytest.mark.parametrize("world", WORLDS)
def test_the_impulse_changes_the_velocity_by_impulse_over_mass(world: str) -> None:
    env = make(world)
    env.reset(seed=2, options={"law": {"gravity": 0.0}})
    for impulse in (np.array([1.5, -0.5]), np.array([-0.3, 0.7])):
        before = env.state()[2:4]
        env.step(impulse.astype(np.float32))
        assert env.state()[2:4] - before == pytest.approx(impulse / env.phys()[1], abs=1e-6)


# --- flight and contact --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("gravity", GRAVITIES)
def test_flight_is_a_parabola(world: str, gravity: float) -> None:
    env = make(world)
    env.reset(seed=4, options={"law": {"gravity": gravity}})
    (x, z), (vx, vz) = env.state()[:2], env.expert() / env.phys()[1]
    for step in range(1, 64):
        env.step(env.expert())
        t = step / 16
        if env.clearance() < 0.5 or abs(vz - gravity * t) + abs(vx) > 40:
            break  # near a wall the parabola ends
        assert env.state()[:2] == pytest.approx([x + vx * t, z + vz * t - gravity * t * t / 2], abs=1e-9)
        assert env.state()[2:4] == pytest.approx([vx, vz - gravity * t], abs=1e-9)
    assert step > 3, "no flight was seen"


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("gravity", GRAVITIES)
def test_contacts_keep_energy_and_the_body_in_the_box(world: str, gravity: float) -> None:
    env, changes, deepest = make(world), [], 0.0
    for seed in range(100):
        env.reset(seed=seed, options={"law": {"gravity": gravity}})
        start = launch_energy(env)
        for _ in range(63):
            env.step(env.expert())
            deepest = min(deepest, env.clearance())
        changes.append(abs(env.energy() / start - 1))
    assert np.median(changes) <= 0.01
    assert np.percentile(changes, 95) <= 0.05
    assert deepest > -0.02, "a vertex sank deeper than 2 cm into a wall"


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("gravity", "gravity_x"), [(4.0, 2.0), (0.0, -6.0), (-2.0, 3.0)])
def test_flight_is_a_parabola_in_both_axes_under_both_laws(world: str, gravity: float, gravity_x: float) -> None:
    env = make(world)
    env.reset(seed=4, options={"law": {"gravity": gravity, "gravity_x": gravity_x}})
    place, speed, pull = env.state()[:2], env.expert() / env.phys()[1], np.array([gravity_x, -gravity])
    for step in range(1, 64):
        env.step(env.expert())
        t = step / 16
        if env.clearance() < 0.5:
            break  # near a wall the parabola ends
        assert env.state()[:2] == pytest.approx(place + speed * t + pull * t * t / 2, abs=1e-9)
        assert env.state()[2:4] == pytest.approx(speed + pull * t, abs=1e-9)
    assert step > 3, "no flight was seen"


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("gravity", "gravity_x"), [(4.0, 2.0), (0.0, -6.0), (-2.0, 3.0)])
def test_contacts_keep_energy_under_both_laws(world: str, gravity: float, gravity_x: float) -> None:
    env, changes, moved = make(world), [], []
    for seed in range(20):
        env.reset(seed=seed, options={"law": {"gravity": gravity, "gravity_x": gravity_x}})
        start, kinetic = launch_energy(env), []
        for _ in range(63):
            env.step(env.expert())
            kinetic.append(float((env.state()[2:4] ** 2).sum()) / 2)
        changes.append(abs(env.energy() / start - 1))
        moved.append(np.ptp(kinetic) * env.phys()[1] / start)
    assert np.median(changes) <= 0.01
    assert np.percentile(changes, 95) <= 0.05
    assert np.median(moved) > 0.3, "energy went to and fro between height and speed"


def test_energy_is_kept_also_while_a_vertex_is_in_the_wall() -> None:
    """The springs store it: follow one bounce in steps of a tenth of a millisecond."""
    env = make("house")
    env.reset(seed=0, options={"law": {"gravity": 10.0}, "state": {"x": 0, "z": 1.6, "theta": 0.2, "vz": -9.0}})
    start, deepest = env.energy(), 0.0
    for _ in range(600):
        advance(env.model, env.data, 1e-4, env.contact, env._free_time)
        deepest = min(deepest, env.clearance())
        # an impedance of 0.01 makes the contact a spring to one or two parts in a hundred
        assert env.energy() == pytest.approx(start, rel=1.5e-2)
    assert env.energy() == pytest.approx(start, rel=5e-4)
    assert deepest < -0.004, "no bounce was seen"


def test_a_fast_body_stays_in_the_box() -> None:
    """40 m/s, far above anything gravity can reach here, straight into a corner and spinning."""
    env = make("right_triangle")
    for seed in range(10):
        env.reset(seed=seed, options={"law": {"gravity": 10.0}, "state": {"vx": 30.0, "vz": -26.0, "omega": 12.0}})
        start = env.energy()
        for _ in range(63):
            env.step(STILL)
            assert env.clearance() > -0.10
        assert env.energy() == pytest.approx(start, rel=0.2)


def test_reference_contacts_are_soft_and_lose_what_ours_keep() -> None:
    """The defect our contacts mend: at g = 10 the reference's bodies sink deep and their energy drifts."""

    def worst(contact: str) -> tuple[float, float]:
        env, changes, depths = make("right_triangle", contact=contact), [], []
        for seed in range(30):
            env.reset(seed=seed, options={"law": {"gravity": 10.0}})
            start = launch_energy(env)
            gaps = [e.clearance() for e in play(env, seed, 10.0)]
            changes.append(abs(env.energy() / start - 1))
            depths.append(-min(gaps))
        return float(np.median(changes)), float(np.median(depths))

    soft, ours = worst("reference"), worst("elastic")
    assert soft[0] > 10 * ours[0]
    assert soft[1] > 0.2
    assert ours[1] < 0.02


def test_a_central_bounce_reverses_the_velocity() -> None:
    """A square that lands flat: two vertices touch at once, and the speed returns with its sign changed."""
    env = make("square")
    env.reset(seed=0, options={"law": {"gravity": 0.0}, "state": {"x": 0, "z": 2.0, "theta": 0, "vx": 0.0, "vz": -3.0}})
    for _ in range(12):
        env.step(STILL)
    assert env.state()[3] == pytest.approx(3.0, rel=1e-4)
    assert env.state()[4:6] == pytest.approx([0.0, 0.0], abs=1e-9)


def test_an_off_centre_bounce_follows_the_impulse_formula() -> None:
    """Frictionless elastic impact of one vertex: j = 2 v_n / (1/m + r^2/I), and nothing happens along the wall."""
    env = make("square")
    theta, speed = 0.3, 2.0
    env.reset(
        seed=0, options={"law": {"gravity": 0.0}, "state": {"x": 0, "z": 3.0, "theta": theta, "vx": 0.5, "vz": -speed}}
    )
    mass = env.phys()[1]
    corner = env.shape.turned(theta)[env.shape.turned(theta)[:, 1].argmin()]
    lever, inertia = corner[0], mass * env.shape.gyration
    impulse = 2 * speed / (1 / mass + lever**2 / inertia)
    while env.state()[3] == pytest.approx(-speed, abs=1e-9):
        env.step(STILL)
    # positive theta turns +z towards +x, so a lift at positive x turns the body the negative way
    expected = [0.5, -speed + impulse / mass, -impulse * lever / inertia]
    assert env.state()[[2, 3, 5]] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("world", WORLDS)
def test_gravity_changes_only_gravity(world: str) -> None:
    """Until the first bounce, horizontal motion and rotation know nothing of gravity."""
    paths = []
    for gravity in GRAVITIES:
        paths.append([e.state() for e in play(make(world), 7, gravity, steps=8)])
    for path in paths[1:]:
        assert np.array(path)[:, [0, 2, 4, 5]] == pytest.approx(np.array(paths[0])[:, [0, 2, 4, 5]], abs=1e-9)


def test_falling_up_mirrors_falling_down() -> None:
    """The square's scene is symmetric about the box's middle: flip z, vz, theta and gravity, and the path flips."""
    down, up = make("square"), make("square")
    state = {"x": 0.5, "z": 5.5, "vx": 0.7, "vz": 0.4, "theta": 0.2, "omega": 1.0}
    flipped = {**state, "z": 2 * CENTRE[1] - 5.5, "vz": -0.4, "theta": -0.2, "omega": -1.0}
    down.reset(seed=0, options={"law": {"gravity": 6.0}, "state": state})
    up.reset(seed=0, options={"law": {"gravity": -6.0}, "state": flipped})
    for _ in range(40):
        down.step(STILL)
        up.step(STILL)
    mirror = np.array([1, -1, 1, -1, -1, -1])
    shift = np.array([0, 2 * CENTRE[1], 0, 0, 0, 0])
    assert up.state()[:6] == pytest.approx(shift + mirror * down.state()[:6], abs=1e-4)


def test_updates_compose() -> None:
    """S(20) = S(12) after S(8): an episode restarted from a recorded state goes the same way."""
    env, other = make("pentagon"), make("pentagon")
    states = [e.state() for e in play(env, 11, 10.0, steps=20)]
    named = dict(zip([q.name for q in env.env_spec.state], states[7].tolist(), strict=True))
    other.reset(seed=11, options={"law": {"gravity": 10.0}, "state": named})
    for _ in range(12):
        other.step(STILL)
    assert other.state() == pytest.approx(states[19], abs=1e-6)


# --- the frame shows the state -------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_the_frame_shows_exactly_the_recorded_state(world: str) -> None:
    """The body's centre of area in the picture is (x, z): no lag, not even after a fast step."""
    env = make(world, image_size=128)
    rows, columns = np.mgrid[:128, :128] + 0.5
    for e in play(env, 9, 10.0, steps=40):
        frame = e.render() if e.render_mode else e._frame()
        weight = frame[..., 0].astype(float) - frame[..., 1]  # only the body is red
        column, row = (weight * columns).sum() / weight.sum(), (weight * rows).sum() / weight.sum()
        x, z = (column / 128 - 0.5) * 10.4 + CENTRE[0], (0.5 - row / 128) * 10.4 + CENTRE[1]
        if e.clearance() > 0.1:  # a wall hides a part of a body that touches it
            assert (x, z) == pytest.approx(tuple(e.state()[:2]), abs=0.01)


def test_positive_theta_is_clockwise_in_the_picture() -> None:
    env = make("right_triangle", image_size=128)
    state = {"x": 0, "z": 4.6, "vx": 0, "vz": 0, "omega": 0}
    pictures = []
    for theta in (0.0, 0.5):
        pictures.append(env.reset(seed=0, options={"law": {"gravity": 0.0}, "state": {**state, "theta": theta}})[0])
    # the upper corner of the triangle, at the left, moves to the right when the body turns clockwise
    tops = [np.argwhere(p[..., 0].astype(int) - p[..., 1] > 60)[0][1] for p in pictures]
    assert tops[1] > tops[0] + 3


# --- laws ----------------------------------------------------------------------------------------------------------


def _apply_wind(model: object, value: float) -> None:
    model.opt.gravity[0] = value  # type: ignore[attr-defined]


def test_a_second_law_needs_only_its_entry_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(laws.LAWS, "side_pull", Law("side_pull", "m/s^2", _apply_wind))
    env = make("square")
    _, info = env.reset(seed=0, options={"law": {"gravity": 0.0, "side_pull": 3.0}})
    assert info["law"] == {"gravity": 0.0, "side_pull": 3.0}
    vx = env.expert()[0] / env.phys()[1]
    env.step(env.expert())
    assert env.state()[2] == pytest.approx(vx + 3.0 / 16, abs=1e-9)
    env.reset(seed=0, options={"law": {"gravity": 0.0}})
    env.step(env.expert())
    assert env.state()[2] == pytest.approx(vx, abs=1e-9)


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"law": {"gravity": float("nan")}}, "finite number"),
        ({"law": {"friction": 1.0}}, "unknown law 'friction'"),
        ({"law": 4.0}, "law must be a dict"),
        ({"gravity": 4.0}, "unknown reset option 'gravity'"),
        ({"state": {"y": 1.0}}, "unknown state quantity 'y'"),
        ({"state": {"x": float("inf")}}, "state 'x' must be a finite number"),
        ({"state": {"x": 4.5}}, "into a wall"),
        ({"state": {"anchor_x": 1.0}}, "is fixed at 0"),
    ],
)
def test_a_bad_reset_is_one_clear_line_and_the_world_stays_usable(options: dict[str, object], words: str) -> None:
    env = make("square")
    with pytest.raises(InputError, match=words):
        env.reset(seed=0, options=options)
    with pytest.raises(InputError, match="call reset before step"):
        env.step(STILL)
    frame, _ = env.reset(seed=0)
    assert env.observation_space.contains(frame)


@pytest.mark.parametrize(
    ("control", "words"),
    [
        (np.zeros(3), "must have the shape"),
        (np.array([np.nan, 0.0]), "must be finite"),
        (np.array([5.0, 0.0]), "must lie within ±2.2"),
    ],
)
def test_a_bad_control_changes_nothing(control: np.ndarray, words: str) -> None:
    env = make("square")
    env.reset(seed=0)
    before = env.state()
    with pytest.raises(InputError, match=words):
        env.step(control)
    assert np.array_equal(env.state(), before)
    env.step(STILL)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"contact": "bouncy"}, "unknown contact 'bouncy'"),
        ({"renderer": "blender"}, "unknown renderer 'blender'"),
        ({"image_size": 4}, "image_size must be"),
        ({"render_mode": "human"}, "unknown render_mode"),
    ],
)
def test_a_bad_constructor_argument_is_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ENVS["square"](**options)  # type: ignore[arg-type]


def test_step_before_reset_is_refused() -> None:
    with pytest.raises(InputError, match="call reset before step"):
        make("square").step(STILL)


@pytest.mark.opengl
def test_a_copy_of_a_world_goes_its_own_way() -> None:
    env = make("square", renderer="mujoco", image_size=16)
    env.reset(seed=0)
    other = copy.deepcopy(env)
    env.step(env.expert())
    assert not np.array_equal(env.state(), other.state())
    other.step(other.expert())
    assert np.array_equal(env.state(), other.state())
    env.close()
    other.close()


def test_the_box_is_the_papers() -> None:
    assert (CENTRE, HALF_BOX) == ((0.0, 4.6), 4.8)
    env = make("house")
    env.reset(seed=0, options={"law": {"gravity": 3.0}})
    gravity, mass, size_x, size_z, shape_id, half_width, half_height, thickness = env.phys()
    assert (gravity, half_width, half_height, thickness) == (3.0, 4.8, 4.8, 0.4)
    assert size_x == size_z == pytest.approx(1.7333, abs=1e-4)
    assert 0.5 <= mass <= 2.0
    assert shape_id == 6


# --- the bodies -----------------------------------------------------------------------------------------------------

SHAPES = [planar.SQUARE, planar.RIGHT_TRIANGLE, planar.PENTAGON, planar.HOUSE]


def area_and_centre(vertices: np.ndarray) -> tuple[float, np.ndarray]:
    following = np.roll(vertices, -1, axis=0)
    cross = vertices[:, 0] * following[:, 1] - following[:, 0] * vertices[:, 1]
    return cross.sum() / 2, ((vertices + following) * cross[:, None]).sum(axis=0) / (3 * cross.sum())


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
def test_a_shape_is_convex_counterclockwise_and_about_its_centre_of_mass(shape: planar.Shape) -> None:
    vertices = np.array(shape.vertices)
    edges = np.roll(vertices, -1, axis=0) - vertices
    after = np.roll(edges, -1, axis=0)
    assert (edges[:, 0] * after[:, 1] - edges[:, 1] * after[:, 0] > 0).all()
    _, centre = area_and_centre(vertices)
    assert centre == pytest.approx([0, 0], abs=1e-12)


def test_moments_of_inertia_are_the_known_ones() -> None:
    assert planar.SQUARE.gyration == pytest.approx(2 / 3)
    assert planar.RIGHT_TRIANGLE.gyration == pytest.approx(2 / 9)  # leg^2 / 9
    assert planar.HOUSE.gyration == pytest.approx(0.8622, abs=5e-5)
    # regular pentagon: R^2 / 6 * (1 + 2 cos^2(pi / 5))
    assert planar.PENTAGON.gyration == pytest.approx(1.1**2 / 6 * (1 + 2 * math.cos(math.pi / 5) ** 2))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
def test_inertia_agrees_with_monte_carlo(shape: planar.Shape) -> None:
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
    bottom_left, bottom_right, eave_right, ridge, eave_left = np.array(planar.HOUSE.vertices)
    assert np.linalg.norm(eave_right - eave_left) == pytest.approx(2.0)  # the hypotenuse covers the square's top
    assert np.linalg.norm(bottom_right - bottom_left) == pytest.approx(2.0)
    legs = [np.linalg.norm(ridge - eave) for eave in (eave_left, eave_right)]
    assert legs == pytest.approx([math.sqrt(2)] * 2)
    assert (ridge - eave_left) @ (ridge - eave_right) == pytest.approx(0.0, abs=1e-12)
    assert (eave_left + bottom_right)[1] / 2 == pytest.approx(-4 / 15)  # the square's centre, below the common one


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
def test_a_turn_by_the_symmetry_order_changes_nothing(shape: planar.Shape) -> None:
    def corners(theta: float) -> set[tuple[float, float]]:
        return {(round(x, 9) + 0.0, round(z, 9) + 0.0) for x, z in shape.turned(theta)}

    assert corners(2 * math.pi / shape.symmetry) == corners(0.0)
    finer = [n for n in range(shape.symmetry + 1, 9) if corners(2 * math.pi / n) == corners(0.0)]
    assert not finer, "the symmetry order is larger than the spec says"
