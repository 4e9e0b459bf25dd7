"""The common base of the 3-D worlds: an open box with a grid, lights, materials, a camera, a painter per environment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sgjepa.envs.base import Env
from sgjepa.envs.headless import mujoco
from sgjepa.envs.render.layered_renderer import BACKDROP, LayeredPainter, View
from sgjepa.envs.render.shadows import Floor, Lamp
from sgjepa.envs.spec import Probed, Quantity

CAMERA = "front"
HIDDEN = 3  # group of geoms that only collide
PAPER = (0.975, 0.985, 1.0, 1.0)  # floor and walls
LINE = (0.665, 0.723, 0.807, 1.0)  # the grid
RED = (0.95, 0.08, 0.04, 1.0)  # the ball
LAMP = Lamp(position=(0.0, 0.0, 13.2), radius=1.0, darkness=0.42)
# the paper's ball record: position, velocity, orientation, spin, and the point that the camera looks at
BALL = (
    *(Quantity(name, "m") for name in ("x", "y", "z")),
    *(Quantity(name, "m/s") for name in ("vx", "vy", "vz")),
    *(Quantity(name, "1") for name in ("qx", "qy", "qz", "qw")),
    *(Quantity(name, "rad/s") for name in ("wx", "wy", "wz")),
    *(Quantity(name, "m") for name in ("anchor_x", "anchor_y", "anchor_z")),
)

FLYING = Probed(position=("x", "y", "z"), velocity=("vx", "vy", "vz"))  # of the ball


@dataclass(frozen=True)
class Look:
    """The camera: its position, the point it looks at, and its vertical field of view in degrees.

    facets: around and along every curved surface. OpenGL without a GPU spends its time on these, not on pixels.
    """

    location: tuple[float, float, float]
    target: tuple[float, float, float]
    fovy: float
    facets: tuple[int, int] = (28, 16)


@dataclass(frozen=True)
class Arena(Floor):
    """A floor at z = 0 with walls at the left, the right and the far side; lengths in m."""

    height: float
    thickness: float
    grid: float  # between two lines
    line: float = 0.002  # half the width of a line


def phys(floor: str) -> tuple[Quantity, ...]:
    """The physics vector of a world with one ball; its half sides are named after `floor`."""
    return (
        Quantity("gravity", "m/s^2"),
        Quantity("mass", "kg"),
        *(Quantity(name, "m") for name in ("size_x", "size_y", "size_z")),
        Quantity("shape_id", "1"),
        *(Quantity(name, "m") for name in (f"{floor}_half_x", f"{floor}_half_y", "wall_height", "wall_thickness")),
    )


class Spatial(Env):
    """A 3-D world drawn by MuJoCo in layers. A world defines `_build` (model and data) and `_casters`."""

    arena: ClassVar[Floor]  # with walls where it is an Arena
    lamp: ClassVar[Lamp] = LAMP
    camera: ClassVar[str] = CAMERA
    radius: ClassVar[float]  # m, of the object that moves
    data: Any  # mujoco.MjData
    _painter: LayeredPainter | None

    @abstractmethod
    def _casters(self) -> np.ndarray:
        """Spheres that cast a shadow on the floor, (N, 4) as x, y, z, radius; a limb is a row of them."""

    def _frame(self) -> np.ndarray:
        return self.picture_of(self)

    def picture_of(self, other: Env) -> np.ndarray:
        if self._painter is None:
            self._painter = LayeredPainter(self.model, self.image_size, self.camera, self.lamp, self.arena)
        assert isinstance(other, Spatial)
        return self._painter.draw(other.data, other._casters())

    def outline(self, state: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """The object's rim, to within a pixel or two."""
        view = View(self.model, self.data, self.camera, 1)
        centre = np.stack([np.asarray(state[name], float) for name in ("x", "y", "z")], axis=-1)
        return view.rim(centre, self.radius)


def set_looks(spec: Any, look: Look) -> None:
    """Camera, lights, sky and the fineness of curved surfaces."""
    spec.worldbody.add_camera(name=CAMERA, pos=look.location, quat=_facing(look), fovy=look.fovy)
    quality, headlight = spec.visual.quality, spec.visual.headlight
    quality.offsamples = 0  # a fine picture averaged is cheaper on a CPU, and better
    quality.numslices, quality.numstacks = look.facets
    headlight.ambient, headlight.diffuse, headlight.specular = [0.42] * 3, [0.18] * 3, [0.0] * 3
    overhead = {"dir": [0.12, 0.30, -0.95], "diffuse": [0.34, 0.34, 0.33], "specular": [0.3] * 3}
    sides = [{"dir": [side * 0.85, 0.2, -0.5], "diffuse": [0.10, 0.10, 0.11], "specular": [0.0] * 3} for side in (-1, 1)]
    for light in (overhead, *sides):  # they cast no shadows: see shadows.Lamp
        spec.worldbody.add_light(type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, castshadow=False, **light)
    sky = {"type": mujoco.mjtTexture.mjTEXTURE_SKYBOX, "builtin": mujoco.mjtBuiltin.mjBUILTIN_GRADIENT}
    spec.add_texture(name="sky", rgb1=[0.90, 0.92, 0.95], rgb2=[0.72, 0.75, 0.79], width=64, height=384, **sky)
    spec.add_material(name="paper", rgba=PAPER, specular=0.0, shininess=0.0)
    spec.add_material(name="line", rgba=LINE, specular=0.0, shininess=0.0)
    spec.add_material(name="ball", rgba=RED, specular=0.35, shininess=0.45)


def _facing(look: Look) -> np.ndarray:
    """The camera's orientation: it looks along its own -z, with the world's z up in the picture."""
    forward = np.subtract(look.target, look.location)
    forward = forward / np.linalg.norm(forward)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.stack([right, np.cross(right, forward), -forward], axis=1).ravel())
    return quat


def add_arena(spec: Any, arena: Arena) -> None:
    """Add floor, three walls and the grid on them, all visual only: a world adds its own collision shapes."""
    (cx, cy), (hx, hy), h, t = arena.centre, arena.half, arena.height, arena.thickness
    board(spec, (cx, cy, -0.00667), (hx, hy, 0.00667), material="paper")
    for side in (-1, 1):
        board(spec, (cx + side * (hx + t / 2), cy, h / 2), (t / 2, hy, h / 2), material="paper")
    board(spec, (cx, cy + hy + t / 2, h / 2), (hx + t, t / 2, h / 2), material="paper")
    w, d = arena.line, 1e-4
    for x in _lines(hx, arena.grid):
        board(spec, (cx + x, cy, d), (w, hy, d), material="line")
        board(spec, (cx + x, cy + hy - d, h / 2), (w, d, h / 2), material="line")
    for y in _lines(hy, arena.grid):
        board(spec, (cx, cy + y, d), (hx, w, d), material="line")
        for side in (-1, 1):
            board(spec, (cx + side * (hx - d), cy + y, h / 2), (d, w, h / 2), material="line")
    for z in _lines(h / 2, arena.grid):
        board(spec, (cx, cy + hy - d, h / 2 + z), (hx, d, w), material="line")
        for side in (-1, 1):
            board(spec, (cx + side * (hx - d), cy, h / 2 + z), (d, hy, w), material="line")


def _lines(half: float, grid: float) -> list[float]:
    """Multiples of the spacing about the middle, none within 5 cm of the edge."""
    count = int((half - 0.05) / grid)
    return [k * grid for k in range(-count, count + 1)]


def board(spec: Any, centre: Sequence[float], half: Sequence[float], **look: Any) -> None:
    """Add a box that is seen, but has neither mass nor collision. look: its material, or its colour as rgba."""
    spec.worldbody.add_site(type=mujoco.mjtGeom.mjGEOM_BOX, pos=list(centre), size=list(half), group=BACKDROP, **look)
