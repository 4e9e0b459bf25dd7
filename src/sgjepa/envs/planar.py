"""The four planar worlds: a convex body flies and bounces in a square box, and a control is an impulse on it.

The body and its pose are in (x, z) about its centre of mass. It starts in the upper part of the box, somewhat turned; the
expert gives it one impulse at frame 0. Contacts are described in planar_contact.py, pictures in render/raster.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sgjepa.core.errors import InputError, unknown
from sgjepa.envs.base import Env
from sgjepa.envs.headless import mujoco
from sgjepa.envs.planar_contact import CONTACTS, TOUCH, Contact, advance
from sgjepa.envs.render.gl_renderer import Painter
from sgjepa.envs.render.raster import CENTRE, HALF_BOX, VIEW, Raster
from sgjepa.envs.robots.kinematics import wrap_angle
from sgjepa.envs.spec import NARROW_GRAVITY, SMALL_PROBE_WINDOW, DatasetDefaults, DatasetSize, EnvSpec, Probed, Quantity
from sgjepa.laws import evenly

# the box, in m
WALL_THICKNESS = 0.40
HALF_DEPTH = 0.35  # of the body, along y
_LEFT, _RIGHT = CENTRE[0] - HALF_BOX, CENTRE[0] + HALF_BOX
_BOTTOM, _TOP = CENTRE[1] - HALF_BOX, CENTRE[1] + HALF_BOX
_OUTER = HALF_BOX + WALL_THICKNESS

# the start of an episode
MASS = (0.5, 2.0)  # kg, uniform
TILT = 0.6  # rad; the first angle is uniform within it
SPEED = (0.35, 1.10)  # m/s, uniform
MARGIN = 0.22  # m between the body and the walls at launch
LOWEST_START = CENTRE[1] + 0.12 * HALF_BOX  # m; bodies start in the upper part of the box

# names
CAMERA = "front"
_HIDDEN = 3  # a geom group that MuJoCo's renderer leaves out
_SIDES = {"left": (-1, 0), "right": (1, 0), "bottom": (0, -1), "top": (0, 1)}  # outward (x, z)
_MOVING = ("x", "z", "vx", "vz", "theta", "omega")
RENDERERS = ("raster", "mujoco")


# --- the bodies -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """A uniform convex polygon in m, counter-clockwise, its centre of mass at the origin."""

    name: str
    shape_id: int  # 1 and 4 are the reference's; it has no pentagon and no house
    size: float  # the paper's record: the square's half side, else the largest distance from centre to vertex
    symmetry: int
    vertices: tuple[tuple[float, float], ...]
    parts: tuple[tuple[int, ...], ...]  # convex pieces by vertex number, as the reference would build them

    @property
    def radius(self) -> float:
        """The largest distance from the centre of mass to a vertex."""
        return max(math.hypot(x, z) for x, z in self.vertices)

    @property
    def gyration(self) -> float:
        """Moment of inertia about the y axis for unit mass, I_yy / m."""
        area = inertia = 0.0
        for (x0, z0), (x1, z1) in zip(self.vertices, self.vertices[1:] + self.vertices[:1], strict=True):
            cross = x0 * z1 - x1 * z0
            area += cross / 2
            inertia += cross * (x0 * x0 + x0 * x1 + x1 * x1 + z0 * z0 + z0 * z1 + z1 * z1) / 12
        return inertia / area

    def turned(self, theta: float) -> np.ndarray:
        """Vertices (V, 2) after a turn by theta about +y, which is clockwise in the picture."""
        c, s = math.cos(theta), math.sin(theta)
        return np.asarray(self.vertices) @ np.array([[c, -s], [s, c]])


def _centred(points: list[tuple[float, float]], shift: float) -> tuple[tuple[float, float], ...]:
    return tuple((x, z - shift) for x, z in points)


_LEG = math.sqrt(2.0)
_HOUSE_CENTRE = 4.0 / 15.0  # above the square's centre: roof area 1 at height 4/3, square area 4 at height 0
_FIFTHS = [math.pi / 2 + 2 * math.pi * k / 5 for k in range(5)]
SQUARE = Shape("square", 1, 1.0, 4, ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)), ((0, 1, 2, 3),))
RIGHT_TRIANGLE = Shape(
    "right_triangle",
    4,
    math.sqrt(5) * _LEG / 3,
    1,
    ((-_LEG / 3, -_LEG / 3), (2 * _LEG / 3, -_LEG / 3), (-_LEG / 3, 2 * _LEG / 3)),
    ((0, 1, 2),),
)
PENTAGON = Shape("pentagon", 5, 1.1, 5, tuple((1.1 * math.cos(a), 1.1 * math.sin(a)) for a in _FIFTHS), ((0, 1, 2, 3, 4),))
HOUSE = Shape(
    "house",
    6,
    2.0 - _HOUSE_CENTRE,
    1,
    _centred([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (0.0, 2.0), (-1.0, 1.0)], _HOUSE_CENTRE),
    ((0, 1, 2, 4), (4, 2, 3)),
)

# the environment
USUAL = DatasetDefaults(
    train=NARROW_GRAVITY,
    test={"gravity": evenly(-2.0, 10.0, 0.5)},  # 25 values
    sizes={
        "mini": DatasetSize(pixels=64, train=2000, test=500, probe_window=SMALL_PROBE_WINDOW),
        "small": DatasetSize(pixels=64, train=4000, test=500, probe_window=SMALL_PROBE_WINDOW),
        "paper": DatasetSize(pixels=128, train=8000, test=5000),
    },
)


def _spec_of(shape: Shape, gym_id: str) -> EnvSpec:
    return EnvSpec(
        name=shape.name,
        gym_id=gym_id,
        state=(
            *(Quantity(name, "m") for name in ("x", "z")),
            *(Quantity(name, "m/s") for name in ("vx", "vz")),
            Quantity("theta", "rad"),
            Quantity("omega", "rad/s"),
            *(Quantity(name, "m") for name in ("anchor_x", "anchor_z")),
        ),
        control=(Quantity("impulse_x", "N s"), Quantity("impulse_z", "N s")),
        control_limit=MASS[1] * SPEED[1],
        phys=(
            Quantity("gravity", "m/s^2"),
            Quantity("mass", "kg"),
            *(Quantity(name, "m") for name in ("size_x", "size_z")),
            Quantity("shape_id", "1"),
            *(Quantity(name, "m") for name in ("box_half_width", "box_half_height", "wall_thickness")),
        ),
        nominal_law={"gravity": 4.0},
        probed=Probed(("x", "z"), ("vx", "vz"), angle="theta", rate="omega", symmetry=shape.symmetry),
        defaults=USUAL,
        options={"contact": tuple(CONTACTS), "renderer": RENDERERS},
    )


class Planar(Env):
    """A world in the plane. contact: "elastic" or "reference" (planar_contact.py). renderer: "raster" or "mujoco"."""

    shape: ClassVar[Shape]
    _painter: Painter | None

    def __init__(
        self, image_size: int | None = None, contact: str | Contact = "elastic", renderer: str = "raster", **options: Any
    ):
        if isinstance(contact, str) and contact not in CONTACTS:
            raise unknown("contact", contact, CONTACTS)
        if renderer not in RENDERERS:
            raise unknown("renderer", renderer, RENDERERS)
        self.contact = CONTACTS[contact] if isinstance(contact, str) else contact
        self.renderer = renderer
        super().__init__(image_size, **options)
        self._raster = Raster(self.image_size)

    def _build(self) -> None:
        self.model = build(self.shape, self.contact, self.image_size)
        self.data = mujoco.MjData(self.model)
        self._mass = 1.0
        self._impulse = np.zeros(2)

    def _launch(self, rng: np.random.Generator) -> None:
        mass = rng.uniform(*MASS)
        theta = rng.uniform(-TILT, TILT)
        heading = rng.uniform(0.0, 2 * math.pi)
        speed = rng.uniform(*SPEED)
        across, up = rng.uniform(size=2)
        low, high = self.shape.turned(theta).min(axis=0), self.shape.turned(theta).max(axis=0)
        left, right = _LEFT - low[0] + MARGIN, _RIGHT - high[0] - MARGIN
        bottom, top = max(_BOTTOM - low[1] + MARGIN, LOWEST_START), _TOP - high[1] - MARGIN
        self._set_mass(mass)
        self._impulse = mass * speed * np.array([math.cos(heading), math.sin(heading)])
        self.data.qpos[:] = left + across * (right - left), bottom + up * (top - bottom), theta
        mujoco.mj_forward(self.model, self.data)

    def _set_mass(self, mass: float) -> None:
        self._mass = mass
        body = self.model.body("object").id
        self.model.body_mass[body] = mass
        self.model.body_inertia[body] = mass * self.shape.gyration
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_setConst(self.model, self.data)  # contact springs scale with the inverse weights

    def _set_state(self, state: Mapping[str, float]) -> None:
        self._check_fixed(state, dict(zip(("anchor_x", "anchor_z"), CENTRE, strict=True)))
        values = {**dict(zip(_MOVING, self.state(), strict=False)), **state}
        before = self.data.qpos.copy()
        self.data.qpos[:] = values["x"], values["z"], values["theta"]
        if (deep := -self.clearance()) > self.contact.depth:
            self.data.qpos[:] = before
            raise InputError(f"state puts the {self.env_spec.name} {deep:.3g} m into a wall; move x, z or theta")
        self.data.qvel[:] = values["vx"], values["vz"], values["omega"]
        mujoco.mj_forward(self.model, self.data)

    def _advance(self, control: np.ndarray) -> None:
        self.data.qvel[:2] += control / self._mass
        advance(self.model, self.data, self.env_spec.frame_dt, self.contact, self._free_time)

    def _free_time(self) -> float:
        """Seconds in which no vertex can reach a wall, however the body turns."""
        gap, radius = self.clearance() - TOUCH, self.shape.radius
        if gap <= 0:
            return 0.0
        vx, vz, omega = self.data.qvel.tolist()
        ax, az, alpha = self.data.qacc_smooth.tolist()  # without contacts: what flight will feel
        speed = math.hypot(vx, vz) + abs(omega) * radius
        accel = math.hypot(ax, az) + abs(alpha) * radius
        # the positive root of speed t + accel t^2 / 2 = gap, in a form that is safe at accel = 0
        return 2 * gap / (speed + math.sqrt(speed * speed + 2 * accel * gap) + 1e-9)

    def clearance(self) -> float:
        """Metres between the nearest vertex and its wall; negative inside the wall."""
        x, z, theta = self.data.qpos.tolist()
        c, s = math.cos(theta), math.sin(theta)
        gap = math.inf
        for px, pz in self.shape.vertices:
            dx, dz = c * px + s * pz + x - CENTRE[0], c * pz - s * px + z - CENTRE[1]
            gap = min(gap, HALF_BOX - abs(dx), HALF_BOX - abs(dz))
        return gap

    def energy(self) -> float:
        """Mechanical energy in J: kinetic, potential from the walls that gravity pulls towards, and what contacts store."""
        x, z, _ = self.data.qpos.tolist()
        vx, vz, omega = self.data.qvel.tolist()
        gx, _, gz = self.model.opt.gravity.tolist()
        height, aside = z - _BOTTOM if gz <= 0 else _TOP - z, _RIGHT - x if gx >= 0 else x - _LEFT
        moving = 0.5 * (vx * vx + vz * vz + self.shape.gyration * omega * omega)
        per_mass = moving + abs(gz) * height + abs(gx) * aside
        return self._mass * per_mass + self._contact_energy()

    def _contact_energy(self) -> float:
        """Energy in the springs of vertices that are inside a wall right now; solids against boxes have no such formula."""
        if not self.contact.vertices:
            return 0.0
        into_wall = np.abs(self.vertices() - CENTRE) - HALF_BOX
        # MuJoCo scales a contact's stiffness by the body's mean inverse weight
        spring = self.contact.stiffness / self.model.body("object").invweight0[0]
        return float(0.5 * spring * (np.clip(into_wall, 0, None) ** 2).sum())

    def vertices(self) -> np.ndarray:
        """The body's corners in the world, (V, 2) as (x, z)."""
        x, z, theta = self.data.qpos.tolist()
        return self.shape.turned(theta) + np.array([x, z])

    def _frame(self) -> np.ndarray:
        if self.renderer == "raster":
            return self._raster.draw(self.vertices())
        if self._painter is None:
            self._painter = Painter(self.model, self.image_size, CAMERA)
        return self._painter.draw(self.data)

    def outline(self, state: Mapping[str, np.ndarray]) -> np.ndarray | None:
        x, z, theta = (np.asarray(state[name], float)[..., None] for name in ("x", "z", "theta"))
        px, pz = np.asarray(self.shape.vertices).T
        c, s = np.cos(theta), np.sin(theta)
        across, up = c * px + s * pz + x - CENTRE[0], c * pz - s * px + z - CENTRE[1]
        return np.stack([0.5 + across / VIEW, 0.5 - up / VIEW], axis=-1)

    def state(self) -> np.ndarray:
        x, z, theta = self.data.qpos.tolist()
        vx, vz, omega = self.data.qvel.tolist()
        return np.array([x, z, vx, vz, wrap_angle(theta), omega, *CENTRE])

    def phys(self) -> np.ndarray:
        size = self.shape.size
        return np.array(
            [self.law["gravity"], self._mass, size, size, self.shape.shape_id, HALF_BOX, HALF_BOX, WALL_THICKNESS]
        )

    def expert(self) -> np.ndarray:
        """The launch impulse at frame 0, nothing afterwards."""
        return self._impulse.astype(np.float32) if self.t == 0 else np.zeros(2, np.float32)


class Square(Planar):
    """A square of side 2."""

    shape = SQUARE
    env_spec = _spec_of(shape, "sgjepa/Square-v0")


class RightTriangle(Planar):
    """A right triangle, its hypotenuse 2, its right angle at the lower left."""

    shape = RIGHT_TRIANGLE
    env_spec = _spec_of(shape, "sgjepa/RightTriangle-v0")


class Pentagon(Planar):
    """A regular pentagon of circumradius 1.1."""

    shape = PENTAGON
    env_spec = _spec_of(shape, "sgjepa/Pentagon-v0")


class House(Planar):
    """The triangle's hypotenuse flush on the square's top."""

    shape = HOUSE
    env_spec = _spec_of(shape, "sgjepa/House-v0")


# --- the scene --------------------------------------------------------------------------------------------------------


def build(shape: Shape, contact: Contact, picture_size: int) -> Any:
    """The compiled model (mujoco.MjModel) with unit mass and no gravity: mass and laws come at reset."""
    spec = mujoco.MjSpec()
    _set_physics(spec, contact)
    _set_looks(spec, picture_size)
    body = spec.worldbody.add_body(name="object")
    body.add_joint(name="x", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0])
    body.add_joint(name="z", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 0, 1])
    body.add_joint(name="theta", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 1, 0])
    body.explicitinertial = True
    body.mass = 1.0
    body.inertia = [shape.gyration] * 3  # only the y axis can turn
    solid = {} if contact.vertices else {"condim": 6, "friction": [0, 0, 0], **contact.softness}
    _add_walls(spec, solid)
    _add_solids(spec, body, shape, solid)
    if contact.vertices:
        _add_vertex_contacts(spec, body, shape, contact)
    return spec.compile()


def _set_physics(spec: Any, contact: Contact) -> None:
    spec.option.timestep = contact.timestep
    spec.option.integrator = contact.mujoco_integrator
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.gravity = [0, 0, 0]


def _set_looks(spec: Any, picture_size: int) -> None:
    spec.visual.headlight.ambient = [1, 1, 1]
    spec.visual.headlight.diffuse = [0, 0, 0]
    spec.visual.headlight.specular = [0, 0, 0]
    spec.visual.global_.offwidth = spec.visual.global_.offheight = picture_size
    camera = spec.worldbody.add_camera(name=CAMERA, pos=[CENTRE[0], -8, CENTRE[1]])
    camera.proj = mujoco.mjtProjection.mjPROJ_ORTHOGRAPHIC
    camera.fovy = VIEW
    camera.quat = [0.5**0.5, 0.5**0.5, 0, 0]  # looks along +y, z up
    # a white board far behind everything
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=[CENTRE[0], 16, CENTRE[1]],
        size=[7.02, 0.02, 7.02],
        rgba=[1, 1, 1, 1],
        contype=0,
        conaffinity=0,
    )


def _add_walls(spec: Any, solid: dict[str, Any]) -> None:
    half, middle = WALL_THICKNESS / 2, HALF_BOX + WALL_THICKNESS / 2
    for name, (nx, nz) in _SIDES.items():
        spec.worldbody.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[CENTRE[0] + nx * middle, 0, CENTRE[1] + nz * middle],
            size=[half if nx else _OUTER, 0.55, half if nz else _OUTER],
            rgba=[0.005605, 0.005605, 0.005605, 1],
            **(solid or {"contype": 0, "conaffinity": 0}),
        )


def _add_solids(spec: Any, body: Any, shape: Shape, solid: dict[str, Any]) -> None:
    for number, part in enumerate(shape.parts):
        corners = np.array(
            [[shape.vertices[i][0], y, shape.vertices[i][1]] for i in part for y in (-HALF_DEPTH, HALF_DEPTH)]
        )
        kind: dict[str, Any]
        if len(part) == 4:  # a square: MuJoCo's box collides more exactly than a mesh of it
            centre = corners.mean(axis=0)
            kind = {"type": mujoco.mjtGeom.mjGEOM_BOX, "pos": centre, "size": corners.max(axis=0) - centre}
        else:
            mesh = spec.add_mesh(name=f"part{number}", uservert=corners.ravel())
            kind = {"type": mujoco.mjtGeom.mjGEOM_MESH, "meshname": mesh.name}
        body.add_geom(rgba=[0.55, 0.12, 0.12, 1], mass=0, **kind, **(solid or {"contype": 0, "conaffinity": 0}))


def _add_vertex_contacts(spec: Any, body: Any, shape: Shape, contact: Contact) -> None:
    off = {"contype": 0, "conaffinity": 0, "group": _HIDDEN}
    for name, (nx, nz) in _SIDES.items():
        inward = np.zeros(4)
        mujoco.mju_quatZ2Vec(inward, np.array([-nx, 0.0, -nz]))
        spec.worldbody.add_geom(
            name=f"{name}_plane",
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            pos=[CENTRE[0] + nx * HALF_BOX, 0, CENTRE[1] + nz * HALF_BOX],
            quat=inward,
            size=[0, 0, 1],
            **off,
        )
    for i, (x, z) in enumerate(shape.vertices):
        # a point, for all purposes: MuJoCo asks for a positive radius
        body.add_geom(name=f"vertex{i}", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[1e-6, 0, 0], pos=[x, 0, z], mass=0, **off)
        for name in _SIDES:
            spec.add_pair(geomname1=f"vertex{i}", geomname2=f"{name}_plane", condim=1, **contact.softness)
