"""What the ball touches in the arm worlds, against documented numbers: who is touched, how it bounces, what it weighs."""

from __future__ import annotations

import cmath
import math
from functools import cache

import numpy as np
import pytest
from fixtures.arms import WORLDS, make, rest

from sgjepa.envs.arm_world import ArmWorld

pytestmark = pytest.mark.opengl

# restitution and sliding friction with the ball; numbers at the end of a geom's name are left out, a robot's links are one
SURFACES = {
    "arm_catcher_ball": {
        **dict.fromkeys(("floor", "left", "right", "far"), (1.0, 0.0)),
        **dict.fromkeys(("back", "left_side", "right_side", "lower_side", "upper_side"), (0.1, 0.65)),
        "link": (0.45, 0.25),
    },
    "arm_paddle_ball": {
        "blade": (0.92, 0.25),
        **dict.fromkeys(("floor", "left", "right", "far"), (0.72, 0.25)),
        **dict.fromkeys(("handle", "link"), (0.45, 0.25)),
    },
    "franka_basket": {
        "blade": (0.92, 0.25),
        "floor": (0.92, 0.05),
        "rim": (0.52, 0.20),
        "bottom": (0.25, 0.35),
        "net": (0.18, 0.30),
        "wall": (0.72, 0.05),
        **dict.fromkeys(("handle", "link"), (0.45, 0.25)),
    },
}
# a point 5 cm or more before a surface, the way to it, the only flag that rises, the share of speed that comes back
THROWS = [
    ("arm_catcher_ball", (0.0, 0.6, 0.20), (0, 0, -1), "ball_floor", 1.0),
    ("arm_catcher_ball", (0.0, 1.25, 0.30), (0, 1, 0), "ball_wall", 1.0),
    ("arm_catcher_ball", (-0.53, 0.6, 0.30), (-1, 0, 0), "ball_wall", 1.0),
    ("arm_catcher_ball", (0.53, 0.6, 0.30), (1, 0, 0), "ball_wall", 1.0),
    ("arm_paddle_ball", (-0.3, 0.3, 0.15), (0, 0, -1), "ball_floor", 0.72),
    ("arm_paddle_ball", (0.0, 0.7, 0.40), (0, 1, 0), "ball_wall", 0.72),
    ("arm_paddle_ball", (-0.4, 0.3, 0.40), (-1, 0, 0), "ball_wall", 0.72),
    ("arm_paddle_ball", (0.4, 0.3, 0.40), (1, 0, 0), "ball_wall", 0.72),
    ("franka_basket", (0.2, -0.5, 0.20), (0, 0, -1), "ball_floor", 0.92),
    # on the middle of one of the rim's twenty tubes
    (
        "franka_basket",
        (-0.59 + 0.242 * math.cos(math.radians(81)), 0.242 * math.sin(math.radians(81)), 0.95),
        (0, 0, -1),
        "ball_rim",
        0.52,
    ),
    ("franka_basket", (-0.2, 0.6, 0.40), (0, 1, 0), "ball_wall", 0.72),
    ("franka_basket", (-0.59, 0.0, 0.70), (0, 0, -1), "ball_bottom", 0.25),
]
SPEED = 2.0  # m/s
PHASES = np.arange(8) / 8 * SPEED / 1024  # m; where in a time step a touch begins, which a stiff spring feels a little


@cache
def shared(world: str) -> ArmWorld:
    """One world for all tests here, which begin with a reset."""
    return make(world)


def waiting(world: str) -> tuple[ArmWorld, np.ndarray, np.ndarray]:
    """The world without gravity, and its tool's place and axes, as `throw` will find them."""
    env = shared(world)
    env.reset(seed=0, options={"law": {"gravity": 0.0}})
    return env, env.tool()[0].copy(), env.tool()[1].copy()


def throw(env: ArmWorld, place: np.ndarray, velocity: np.ndarray, frames: int = 3) -> tuple[np.ndarray, set[str]]:
    """Without gravity and with an arm at rest: the ball's velocity some frames later, and the contact flags that rose."""
    numbers = [*place.tolist(), *velocity.tolist(), 0.0, 0.0, 0.0]
    state = dict(zip(("x", "y", "z", "vx", "vy", "vz", "wx", "wy", "wz"), numbers, strict=True))
    env.reset(seed=0, options={"law": {"gravity": 0.0}, "state": state})
    rose: set[str] = set()
    for _ in range(frames):
        env.step(rest(env))
        names = [quantity.name for quantity in env.env_spec.records["contact"]]
        rose |= {name for name, flag in zip(names, env.records()["contact"], strict=True) if flag}
    return env.state()[3:6], rose


@pytest.mark.parametrize("world", WORLDS)
def test_surfaces_have_the_documented_restitution_and_friction(world: str) -> None:
    model, found = shared(world).model, set()
    for pair in range(model.npair):
        geoms = {model.geom(model.pair_geom1[pair]).name, model.geom(model.pair_geom2[pair]).name}
        surface = "".join(geoms - {"ball"}).rstrip("0123456789")
        surface = "link" if surface.startswith(("z1_link", "panda_link")) else surface
        if surface not in SURFACES[world]:
            continue
        stiffness, damping = -model.pair_solref[pair]
        zeta = damping / (2 * math.sqrt(stiffness))
        # a damped spring that pushes and never pulls lets go when its force is zero, which can be before it is at rest
        root = cmath.sqrt(zeta**2 - 1)
        e = abs(cmath.exp(-2 * zeta / root * cmath.log(zeta + root))) if damping else 1.0
        friction = model.pair_friction[pair, 0] if model.pair_dim[pair] > 1 else 0.0
        wanted, rub = SURFACES[world][surface]
        assert e == pytest.approx(wanted, abs=1e-4), surface
        assert friction == pytest.approx(rub), surface
        found.add(surface)
    assert found == set(SURFACES[world])


@pytest.mark.parametrize(("world", "place", "way", "flag", "share"), THROWS)
def test_a_thrown_ball_raises_one_flag_and_comes_back_with_the_documented_share_of_its_speed(
    world: str, place: tuple[float, ...], way: tuple[float, ...], flag: str, share: float
) -> None:
    shares, direction = [], np.array(way, float)
    for phase in PHASES:
        velocity, rose = throw(shared(world), np.array(place) - phase * direction, SPEED * direction)
        assert rose == {flag}
        assert np.linalg.norm(np.cross(velocity, direction)) < 0.01, "straight back"
        shares.append(-velocity @ direction / SPEED)
    assert np.mean(shares) == pytest.approx(share, abs=0.025)


def test_a_ball_thrown_into_the_box_touches_the_box_only_and_stays() -> None:
    env, place, _ = waiting("arm_catcher_ball")
    velocity, rose = throw(env, place + np.array([0, 0.2, 0]), np.array([0, -SPEED, 0]), frames=16)
    assert rose == {"ball_catcher"}
    assert velocity == pytest.approx(np.zeros(3), abs=0.02)


def test_a_ball_thrown_on_the_paddle_touches_the_paddle_only_and_leaves_it_rolling() -> None:
    """Friction makes it roll: 5/7 of the speed along the blade is left, and the spin about y is that over the radius."""
    env, place, _ = waiting("arm_paddle_ball")
    velocity, rose = throw(env, place + np.array([-0.02, 0, 0.143]), np.array([0.5, 0, -SPEED]))
    assert rose == {"ball_paddle"}
    assert velocity == pytest.approx([5 / 7 * 0.5, 0, 0.92 * SPEED], abs=0.03 * SPEED)
    assert env.state()[10:13] * 0.04 == pytest.approx([0, 5 / 7 * 0.5, 0], abs=0.04)


def test_a_ball_thrown_on_frankas_blade_or_handle_touches_that_only() -> None:
    env, place, axes = waiting("franka_basket")
    normal = axes[:, 0]
    velocity, rose = throw(env, place + 0.15 * normal, -SPEED * normal)
    assert rose == {"ball_blade"}
    assert velocity == pytest.approx(0.92 * SPEED * normal, abs=0.02 * SPEED)
    velocity, rose = throw(env, place - 0.15 * normal - np.array([0, 0.15, 0]), np.array([0, SPEED, 0]))
    assert rose == {"ball_robot"}
    assert velocity == pytest.approx([0, -0.45 * SPEED, 0], abs=0.05 * SPEED)


@pytest.mark.parametrize(
    ("world", "place", "way"),
    [
        ("arm_catcher_ball", (0.48, -0.87, 0.10), (0, 1, 0)),
        ("arm_paddle_ball", (0.15, 0.05, 0.08), (0, -1, 0)),
        ("franka_basket", (1.25, 0.40, 0.45), (-1, 0, 0)),
    ],
)
def test_a_ball_thrown_at_the_arms_foot_touches_the_robot_only_and_does_not_pass(
    world: str, place: tuple[float, ...], way: tuple[float, ...]
) -> None:
    env = shared(world)
    velocity, rose = throw(env, np.array(place), SPEED * np.array(way))
    assert rose == {"ball_robot"}
    assert velocity @ way < 0.1 * SPEED


@pytest.mark.parametrize(
    ("world", "tool", "weight"),
    [("arm_catcher_ball", "catcher", 0.15), ("arm_paddle_ball", "paddle", 0.12), ("franka_basket", "paddle", 0.35)],
)
def test_tools_have_the_documented_mass(world: str, tool: str, weight: float) -> None:
    assert shared(world).model.body(tool).mass[0] == pytest.approx(weight)


@pytest.mark.parametrize(
    ("world", "radius", "lightest", "heaviest"),
    [("arm_catcher_ball", 0.55 / 7.5, 0.5, 2.0), ("arm_paddle_ball", 0.04, 0.1, 0.1), ("franka_basket", 0.075, 0.1, 0.1)],
)
def test_the_ball_is_a_solid_sphere_of_the_documented_mass(
    world: str, radius: float, lightest: float, heaviest: float
) -> None:
    env = shared(world)
    for seed in range(3):
        _, info = env.reset(seed=seed)
        mass = env.model.body("ball").mass[0]
        assert lightest <= mass <= heaviest
        assert info["phys"]["mass"] == mass
        assert info["phys"]["size_x"] == pytest.approx(radius)
        assert env.model.body("ball").inertia == pytest.approx(np.full(3, 0.4 * mass * radius**2))
