"""Facts of Approach Ball's physics: exact flight, bounces that lose nothing, launches as the paper draws them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sgjepa.core.errors import InputError
from sgjepa.data.config import episode_law
from sgjepa.envs.approach_ball import ARENA, HIGHEST, LOOK, RADIUS, ApproachBall, _first_zero
from sgjepa.envs.planar_contact import BALL_CONTACTS
from sgjepa.envs.render.layered_renderer import View
from sgjepa.recipes.datasets import dataset

GRAVITIES = dataset("approach_ball", "paper").test.laws["gravity"].values  # type: ignore[union-attr]
NOTHING = np.zeros(0, np.float32)


class Unseen(ApproachBall):
    """Physics alone: nothing is drawn."""

    def _frame(self) -> np.ndarray:
        return np.zeros((self.image_size, self.image_size, 3), np.uint8)


def states(env: ApproachBall, seed: int, gravity: float, **state: float) -> np.ndarray:
    """(64, 6): position and velocity at every frame."""
    env.reset(seed=seed, options={"law": {"gravity": gravity}, "state": state})
    rows = [env.state()[:6]]
    for _ in range(63):
        env.step(NOTHING)
        rows.append(env.state()[:6])
    return np.array(rows)


def test_the_test_gravities_are_the_papers() -> None:
    assert sorted(GRAVITIES) == sorted([*range(21), 0.62, 1.63, 3.72, 8.87])
    mini, paper = dataset("approach_ball", "mini"), dataset("approach_ball", "paper")
    assert (mini.image_size, mini.train.episodes, mini.test.episodes) == (64, 1000, 250)
    assert (paper.image_size, paper.train.episodes, paper.test.episodes) == (256, 8000, 1600)
    train = np.array([episode_law(paper.train.laws, 0, "train", n)["gravity"] for n in range(8000)])
    assert train.mean() == pytest.approx(9.8, abs=4 * 2 / np.sqrt(8000))
    assert train.std() == pytest.approx(2.0, abs=4 * 2 / np.sqrt(16000))
    assert train.min() >= 0


@pytest.mark.parametrize("gravity", GRAVITIES)
def test_flight_is_an_exact_parabola_between_bounces(gravity: float) -> None:
    """Every frame interval in which the parabola stays above the floor, from launch to the last frame."""
    seen, dt, env = 0, 1 / 16, Unseen(image_size=8)
    for seed in range(3):
        path = states(env, seed, gravity)
        for before, after in itertools.pairwise(path):
            place, speed = before[:3], before[3:]
            pull = np.array([0, 0, -gravity])
            moments = np.linspace(0, dt, 200)
            if (place[2] + speed[2] * moments - gravity * moments**2 / 2).min() < RADIUS + 1e-4:
                continue  # a bounce
            assert after[:3] == pytest.approx(place + speed * dt + pull * dt * dt / 2, abs=1e-9)
            assert after[3:] == pytest.approx(speed + pull * dt, abs=1e-9)
            seen += 1
    assert seen > 60


@pytest.mark.parametrize("sideways", [-3.0, 0.4])
def test_flight_is_an_exact_parabola_in_both_axes_under_both_laws(sideways: float) -> None:
    """Every frame interval in which the ball stays off floor and walls."""
    seen, dt, env, pull = 0, 1 / 16, Unseen(image_size=8), np.array([sideways, 0.0, -4.0])
    moments = np.linspace(0, dt, 200)[:, None]
    for seed in range(3):
        env.reset(seed=seed, options={"law": {"gravity": 4.0, "gravity_x": sideways}})
        for _ in range(63):
            before = env.state()[:6]
            env.step(NOTHING)
            way = before[:3] + before[3:] * moments + pull * moments**2 / 2
            if way[:, 2].min() < RADIUS + 1e-4 or np.abs(way[:, 0]).max() > ARENA.half[0] - RADIUS - 1e-4:
                continue  # a bounce
            assert env.state()[:3] == pytest.approx(before[:3] + before[3:] * dt + pull * dt * dt / 2, abs=1e-9)
            assert env.state()[3:6] == pytest.approx(before[3:] + pull * dt, abs=1e-9)
            seen += 1
    assert seen > 60


@pytest.mark.parametrize("gravity", [g for g in GRAVITIES if g > 0])
def test_the_apex_is_kept_to_a_thousandth_over_all_bounces(gravity: float) -> None:
    env, bounces = Unseen(image_size=8), 0
    for seed in range(3):
        path = states(env, seed, gravity)
        flying = path[path[:, 2] > RADIUS]
        apex = flying[:, 2] + flying[:, 5] ** 2 / (2 * gravity) - RADIUS
        assert apex == pytest.approx(np.full(len(apex), apex[0]), rel=1e-3)
        bounces += int(((path[:-1, 5] < 0) & (path[1:, 5] > 0)).sum())
    assert bounces >= 3


def test_bounces_follow_the_mirror_formula() -> None:
    """A ball that falls from rest, against |sin|-like closed form: each bounce is over in pi / sqrt(stiffness) = 1.6 ms."""
    height, g = 0.3, 9.8
    path = states(Unseen(image_size=8), 0, g, x=0.0, y=0.0, z=RADIUS + height, vx=0.0, vy=0.0, vz=0.0)
    half = math.sqrt(2 * height / g)
    lasts = math.pi / math.sqrt(BALL_CONTACTS["elastic"].stiffness)
    seconds = np.arange(64) / 16
    # fall for `half`, then periods of one bounce and one flight of 2 * half
    phase = (seconds - half) % (2 * half + lasts) - lasts - half  # 0 at every apex
    phase[seconds < half] = seconds[seconds < half]
    flying = np.abs(phase) < half - 1e-3
    assert flying.sum() > 55
    assert path[flying, 2] == pytest.approx(RADIUS + height - g * phase[flying] ** 2 / 2, abs=3e-3)
    assert np.abs(path[:, :2]).max() == 0


def test_restitution_is_one_at_the_floor_and_at_every_wall() -> None:
    """Normal speed returns with its sign changed; speed along the wall is untouched; mass does not matter."""
    middle = {"x": 0.0, "y": 0.0, "z": 0.3, "vx": 0.0, "vy": 0.0, "vz": 0.0}
    env = Unseen(image_size=8)
    for axis, sign in [("z", -1), ("x", -1), ("x", 1), ("y", 1)]:
        for seed in (0, 1):
            start = {**middle, "vx": 0.01, "vy": -0.02, "vz": 0.001, f"v{axis}": sign * 2.0}
            path = states(env, seed, 0.0, **start)
            column = "xyz".index(axis) + 3
            turned = int(np.argmax(np.sign(path[:, column]) == -sign)) + 1  # the bounce is over by the next frame
            assert path[turned, column] == pytest.approx(-sign * 2.0, rel=2e-4)
            others = [c for c in (3, 4, 5) if c != column]
            assert path[turned, others] == pytest.approx(path[0, others], abs=1e-12)


def test_the_ball_sinks_into_the_floor_by_less_than_two_millimetres() -> None:
    env = Unseen(image_size=8)
    assert min(states(env, seed, 20.0)[:, 2].min() for seed in range(10)) > RADIUS - 0.002


def test_without_gravity_the_ball_keeps_its_height() -> None:
    path = states(Unseen(image_size=8), 4, 0.0)
    assert (path[:, 2] == path[0, 2]).all()
    assert (path[:, 5] == 0).all()


def test_gravity_changes_only_the_vertical_motion() -> None:
    env = Unseen(image_size=8)
    paths = [states(env, 7, gravity) for gravity in (0.0, 1.63, 9.8, 20.0)]
    for path in paths[1:]:
        assert path[:, [0, 1, 3, 4]] == pytest.approx(paths[0][:, [0, 1, 3, 4]], abs=1e-9)
        assert not np.allclose(path[:, 2], paths[0][:, 2])


def test_launches_follow_the_papers_draws() -> None:
    env, drawn = Unseen(image_size=8), []
    for seed in range(300):
        g = GRAVITIES[seed % 25]
        env.reset(seed=seed, options={"law": {"gravity": g}})
        x, y, z, _, vy, vz = env.state()[:6]
        assert abs(x) <= 0.16
        assert 0.96 <= y <= 1.12
        assert 0.27333 <= z <= 0.43333
        assert abs(vz) <= math.sqrt(2 * g * (HIGHEST - z)) + 1e-12, "no apex above 0.46 m"
        assert (-0.50667 - y) / 3.75 - 0.016 <= vy <= (-0.40 - y) / 4.20 + 0.016
        drawn.append([env.phys()[1], x, y])
    for values, low, high in zip(np.array(drawn).T, (0.5, -0.16, 0.96), (2.0, 0.16, 1.12), strict=True):
        assert abs(values.mean() - (low + high) / 2) < 4 * (high - low) / math.sqrt(12 * len(values))


def test_the_records_are_the_papers() -> None:
    env = Unseen(image_size=8)
    _, info = env.reset(seed=0, options={"law": {"gravity": 3.72}})
    assert list(info["state"])[6:] == [*["qx", "qy", "qz", "qw", "wx", "wy", "wz", "anchor_x", "anchor_y", "anchor_z"]]
    assert env.state()[6:].tolist() == [0, 0, 0, 1, 0, 0, 0, *LOOK.target]
    mass = env.phys()[1]
    assert env.phys().tolist() == [3.72, mass, 0.06, 0.06, 0.06, 0, 0.93333, 1.2, 0.46667, 0.03333]
    assert env.action_space.shape == (0,)


def test_updates_compose() -> None:
    """S(40) = S(25) after S(15): an episode restarted from a recorded state goes the same way."""
    env = Unseen(image_size=8)
    path = states(env, 2, 9.8)
    named = dict(zip(["x", "y", "z", "vx", "vy", "vz"], path[15].tolist(), strict=True))
    assert states(env, 2, 9.8, **named)[25] == pytest.approx(path[40], abs=1e-6)


def test_the_reference_contacts_lose_what_ours_keep() -> None:
    def worst(contact: str) -> float:
        env, changes = Unseen(image_size=8, contact=contact), []
        for seed in range(5):
            path = states(env, seed, 20.0)
            apex = (path[:, 2] + path[:, 5] ** 2 / 40 - RADIUS)[path[:, 2] > RADIUS]
            changes.append(np.abs(apex / apex[0] - 1).max())
        return float(np.max(changes))

    assert worst("reference") > 20 * worst("elastic")


@pytest.mark.parametrize(
    ("gap", "speed", "pull", "expected"),
    [
        (1.0, -2.0, 0.0, 0.5),
        (1.0, 2.0, 0.0, math.inf),
        (1.0, 0.0, -2.0, 1.0),
        (1.0, 3.0, -8.0, 1.0),
        (1.0, -1.0, 2.0, math.inf),
        (1.0, -3.0, 4.0, 0.5),
        (0.0, 1.0, 0.0, 0.0),
        (1.0, 0.0, 0.0, math.inf),
    ],
)
def test_the_time_to_a_wall_is_the_root_of_the_parabola(gap: float, speed: float, pull: float, expected: float) -> None:
    assert _first_zero(gap, speed, pull) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"z": 0.0}, "into the floor or a wall"),
        ({"x": 0.92}, "into the floor or a wall"),
        ({"qw": 0.5}, "'qw' is fixed at 1"),
        ({"anchor_y": 1.0}, r"'anchor_y' is fixed at 0\.03"),
        ({"vx": float("nan")}, "'vx' must be a finite number"),
    ],
)
def test_a_bad_state_is_named_and_the_world_stays_usable(state: dict[str, float], words: str) -> None:
    env = Unseen(image_size=8)
    with pytest.raises(InputError, match=words):
        env.reset(seed=0, options={"state": state})
    env.reset(seed=0)
    env.step(NOTHING)


def test_a_control_for_a_world_that_takes_none_is_refused() -> None:
    env = Unseen(image_size=8)
    env.reset(seed=0)
    with pytest.raises(InputError, match=r"must have the shape \(0,\) \(no channels\), got \(1,\)"):
        env.step(np.array([9.8]))


# --- the frame shows the state -------------------------------------------------------------------------------------


def centroid(frame: np.ndarray) -> tuple[float, float]:
    red, green = frame[..., 0].astype(float), frame[..., 1].astype(float)
    weight = np.clip(1 - green / (red + 1) - 0.1, 0, None)  # only the ball is red, as red below as above
    rows, columns = np.mgrid[: len(frame), : len(frame)] + 0.5
    return float((weight * columns).sum() / weight.sum()), float((weight * rows).sum() / weight.sum())


@pytest.mark.opengl
@pytest.mark.parametrize("size", [64, 256])
def test_the_frame_shows_exactly_the_recorded_state(size: int) -> None:
    """The red pixels' centre is the projected centre of the ball: no lag, not even at 4 m/s."""
    env = ApproachBall(image_size=size)
    for seed, gravity in [(1, 0.62), (2, 9.8), (3, 20.0)]:
        frame, _ = env.reset(seed=seed, options={"law": {"gravity": gravity}})
        view = View(env.model, env.data, "front", size)
        for _ in range(63):
            frame = env.step(NOTHING)[0]
            # in perspective a sphere's outline is not centred on its centre, and a highlight hides some red
            reach = view.focal * RADIUS / np.linalg.norm(env.state()[:3] - view.position)
            error = np.subtract(centroid(frame), view.project(env.state()[:3]))
            assert np.abs(error).max() < 0.07 * reach + 0.1
    env.close()


def test_the_camera_sees_the_whole_way() -> None:
    """The ball's centre stays in the picture from the first to the last frame, under every test gravity."""
    env = Unseen(image_size=64)
    for gravity in GRAVITIES:
        for seed in range(3):
            path = states(env, seed, gravity)
            place = View(env.model, env.data, "front", 64).project(path[:, :3])
            assert place.min() > 0
            assert place.max() < 64


def test_the_arena_is_the_papers() -> None:
    assert (ARENA.half, ARENA.height, ARENA.thickness) == ((0.93333, 1.2), 0.46667, 0.03333)
    assert (LOOK.location, LOOK.target, LOOK.fovy) == ((0, -1.03, 0.78), (0, 0.03, 0.105), 54)
