"""The scene of Arm Catcher Ball: sizes and places, the open box on the arm's wrist, and what may touch the ball."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sgjepa.envs import spatial
from sgjepa.envs.arms.scene import OFF, TOOL, Surfaces, add_ball, add_solids, start_spec, yaw
from sgjepa.envs.headless import mujoco
from sgjepa.envs.robots.robot import add_robot, solids_of
from sgjepa.envs.robots.z1 import Z1
from sgjepa.envs.spatial import Arena, Look

RADIUS = 1.1 * 0.5 / 7.5  # m
ARENA = Arena(centre=(0.0, 0.23333), half=(0.69333, 1.18), height=0.46667, thickness=0.03333, grid=0.13333)
LOOK = Look(location=(0.06667, -1.20667, 0.87733), target=(0.12, -0.33333, 0.18), fovy=54.0, facets=(28, 8))
BASE = (0.48, -0.60, 0.00667)  # m; from here every pose of the workspace is within the joints' ranges
BASE_YAW = math.radians(135)

INNER = 1.25 * RADIUS  # m, half the width and height of the opening
DEPTH = 0.04  # m, of the box in front of its back plate
PLATE = 0.0028  # m, half the thickness of the back and the sides
CENTRAL = 0.35 * RADIUS  # m from the axis; a ball that is inside cannot be farther
DEEPEST = RADIUS + 2 * PLATE  # m from the back face to the centre of a ball that touches the plate
GRAB = DEEPEST + 0.004  # m; at this depth the latch closes
PASSED = 0.0234  # m; a centre nearer to the back face that is not latched has gone by
REACHED = 0.11  # m; from here on, floor, wall or arm mean that the ball has bounced off

WORKSPACE = np.array([[0.06, -0.33333, 0.23], [0.46, -0.18667, 0.50]])  # m, of the middle of the box's back face
START = np.array([0.32, -0.28, 0.30667])
STEP = np.array([0.016, 0.013333, 0.016])  # m per frame for a control of 1
UPRIGHT = np.eye(3)

# restitution and friction with the ball
SURFACES: Surfaces = {
    "catcher": (0.1, (0.65, 0.04, 0.04)),
    "floor": (1.0, (0.0,)),
    "wall": (1.0, (0.0,)),
    "robot": (0.45, (0.25, 0.005, 0.0005)),
}


def build() -> tuple[Any, dict[str, str]]:
    """The scene's mujoco.MjSpec, and the kinds of what the ball can touch. The latch is open."""
    spec = start_spec(LOOK)
    spatial.add_arena(spec, ARENA)
    add_ball(spec, RADIUS, material="ball")
    solid = add_solids(spec, ARENA)
    hand = add_robot(spec, Z1, BASE, yaw(BASE_YAW))
    kinds = {**solid, **dict.fromkeys(_add_catcher(hand), "catcher"), **dict.fromkeys(solids_of(Z1), "robot")}
    latch = spec.add_equality(name="latch", type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY)
    latch.name1, latch.name2, latch.active = "catcher", "ball", False
    latch.solref = [0.012, 1.0]
    return spec, kinds


def _add_catcher(hand: Any) -> list[str]:
    """The box on the flange: 0.15 kg of plates, a rim and strings. Its y axis is the flange's x axis, out of the arm."""
    body = hand.add_body(name="catcher", pos=[0.001, 0, 0], quat=[0.5**0.5, 0, 0, -(0.5**0.5)])
    body.add_site(name=TOOL, group=spatial.HIDDEN)
    box, middle = mujoco.mjtGeom.mjGEOM_BOX, (DEPTH + 2 * PLATE) / 2
    side, outer = INNER + PLATE, INNER + 2 * PLATE
    plates: dict[str, tuple[Sequence[float], Sequence[float]]] = {
        "back": ((0, PLATE, 0), (outer, PLATE, outer)),
        "left_side": ((-side, middle, 0), (PLATE, middle, outer)),
        "right_side": ((side, middle, 0), (PLATE, middle, outer)),
        "lower_side": ((0, middle, -side), (outer, middle, PLATE)),
        "upper_side": ((0, middle, side), (outer, middle, PLATE)),
    }
    for name, (pos, size) in plates.items():
        body.add_geom(name=name, type=box, pos=pos, size=size, mass=0.03, rgba=(0.21, 0.31, 0.43, 0.28), **OFF)
    for sign in (-1, 1):  # the rim
        for pos, size in (
            ((sign * side, 2 * middle, 0), (0.005, 0.005, outer)),
            ((0, 2 * middle, sign * side), (outer, 0.005, 0.005)),
        ):
            body.add_geom(type=box, pos=pos, size=size, mass=0, rgba=(0.13, 0.20, 0.30, 1), **OFF)
    for k in (-2, -1, 0, 1, 2):  # strings on the back
        for pos, size in (
            ((k * INNER / 3, 2 * PLATE, 0), (0.0013, 0.0013, INNER)),
            ((0, 2 * PLATE, k * INNER / 3), (INNER, 0.0013, 0.0013)),
        ):
            body.add_geom(type=box, pos=pos, size=size, mass=0, rgba=(0.85, 0.90, 0.96, 1), **OFF)
    return list(plates)
