"""The scene of Arm Paddle Ball: sizes and places, the paddle and its tilt, and what may touch the ball."""

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

RADIUS, MASS = 0.04, 0.10  # m, kg
ARENA = Arena(centre=(0.0, 0.0), half=(0.52, 0.82), height=0.70, thickness=0.05, grid=0.2, line=0.003)
LOOK = Look(location=(0.0735, -1.161, 0.6813), target=(0.05, -0.55, 0.29), fovy=42.0, facets=(28, 8))
BASE, BASE_YAW = (0.15, -0.20, 0.0), -math.pi / 2  # from here the arm reaches the workspace with every tilt it needs
BLADE = (0.0675, 0.0675, 0.00315)  # m, half sizes
HANDLE = math.radians(55)  # how steeply the handle rises from the blade's far edge
GRIP = 0.088  # m along the handle, where the flange is
# restitution and friction with the ball
SURFACES: Surfaces = {
    "paddle": (0.92, (0.25,)),
    "floor": (0.72, (0.25, 0.005, 0.005)),
    "wall": (0.72, (0.25, 0.005, 0.005)),
    "robot": (0.45, (0.25, 0.005, 0.0005)),
}
BOUNCE = SURFACES["paddle"][0]

WORKSPACE = np.array([[-0.23, -0.67, 0.07], [0.23, -0.53, 0.184]])  # m, of the blade's centre
STEP = np.array([0.044, 0.036, 0.032])  # m per frame for a control of 1
STEEPEST = math.radians(30)
CENTRE = np.array([0.0, -0.6])
START_HEIGHT = 0.096  # m
TOUCH = BLADE[2] + RADIUS  # m between the centres of blade and ball when they touch


def build() -> tuple[Any, dict[str, str]]:
    """The scene's mujoco.MjSpec, and the kinds of what the ball can touch."""
    spec = start_spec(LOOK)
    spatial.add_arena(spec, ARENA)
    check = {"type": mujoco.mjtTexture.mjTEXTURE_CUBE, "builtin": mujoco.mjtBuiltin.mjBUILTIN_CHECKER}
    spec.add_texture(name="check", rgb1=[0.95, 0.05, 0.04], rgb2=[1, 1, 1], width=64, height=64, **check)
    material = spec.add_material(name="check", specular=0.1, shininess=0.2)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "check"
    add_ball(spec, RADIUS, material="check")
    kinds = add_solids(spec, ARENA)
    hand = add_robot(spec, Z1, BASE, yaw(BASE_YAW))
    _add_paddle(hand)
    kinds |= {"blade": "paddle", "handle": "robot", **dict.fromkeys(solids_of(Z1), "robot")}
    return spec, kinds


def leaning(phi: float, theta: float) -> np.ndarray:
    """The rotation that leans the vertical by theta towards phi, with no twist about it."""
    s, c = math.sin(theta), math.cos(theta)
    x, y = math.cos(phi), math.sin(phi)
    return np.array(
        [[x * x * c + y * y, x * y * (c - 1), x * s], [x * y * (c - 1), y * y * c + x * x, y * s], [-x * s, -y * s, c]]
    )


def tilt_of(normal: np.ndarray) -> np.ndarray:
    """phi and theta of a face whose normal is this: the inverse of `leaning`."""
    across = math.hypot(normal[0], normal[1])
    return np.array([math.atan2(normal[1], normal[0]) if across > 1e-9 else 0.0, math.atan2(across, normal[2])])


def _add_paddle(hand: Any) -> None:
    """Blade and handle on the flange, 0.12 kg. The handle rises from the blade's far edge into the flange's x axis."""
    along = np.array([0.0, math.cos(HANDLE), math.sin(HANDLE)])  # in the paddle's axes
    root = np.array([0.0, BLADE[1], 0.0])
    # the flange in the paddle's axes: its x axis looks down the handle, its y axis lies level
    axes = np.stack([-along, [1.0, 0.0, 0.0], np.cross(-along, [1.0, 0.0, 0.0])], axis=1)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, axes.T.ravel())
    body = hand.add_body(name="paddle", pos=-axes.T @ (root + GRIP * along), quat=quat)
    body.add_site(name=TOOL, group=spatial.HIDDEN)
    box = mujoco.mjtGeom.mjGEOM_BOX
    body.add_geom(name="blade", type=box, size=BLADE, mass=0.08, rgba=(0.53, 0.78, 0.91, 1), **OFF)
    lean = [math.cos((HANDLE - math.pi / 2) / 2), math.sin((HANDLE - math.pi / 2) / 2), 0, 0]
    middle: Sequence[float] = (root + 0.044 * along).tolist()
    wood = {"mass": 0.04, "rgba": (0.69, 0.50, 0.28, 1)}
    body.add_geom(name="handle", type=box, size=(0.0096, 0.0096, 0.05), pos=middle, quat=lean, **wood, **OFF)
