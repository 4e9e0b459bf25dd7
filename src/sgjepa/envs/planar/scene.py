"""The MuJoCo model of a planar world: a box, one body with three joints (slide x, slide z, hinge y), a front camera."""

from __future__ import annotations

from typing import Any

import numpy as np

from sgjepa.envs.contact import INTEGRATORS, Contact
from sgjepa.envs.headless import mujoco
from sgjepa.envs.planar.shapes import Shape
from sgjepa.envs.render.raster import CENTRE, HALF_BOX, VIEW

WALL_THICKNESS = 0.40
HALF_DEPTH = 0.35  # of the body, along y
CAMERA = "front"
_OUTER = HALF_BOX + WALL_THICKNESS
_HIDDEN = 3  # a geom group that MuJoCo's renderer leaves out
_SIDES = {"left": (-1, 0), "right": (1, 0), "bottom": (0, -1), "top": (0, 1)}  # outward (x, z)


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
    spec.option.integrator = INTEGRATORS[contact.integrator]
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
