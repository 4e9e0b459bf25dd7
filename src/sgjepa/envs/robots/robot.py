"""Robots from primitives: published kinematics, limits, masses and inertias, nothing to download.

Figures as in MuJoCo Menagerie (Z1: BSD-3-Clause, Unitree; Panda: Apache-2.0, Franka Emika). SI units, radians, quaternions
w x y z. Links never touch each other; worlds say what may touch them (`solids`). Where MuJoCo Menagerie is on this machine
and SGJEPA_MENAGERIE names its folder, its meshes replace the primitives in the picture, and nothing else changes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgjepa.core.errors import InputError, one_line
from sgjepa.envs.headless import mujoco
from sgjepa.envs.robots import MENAGERIE
from sgjepa.envs.world3d import HIDDEN

Vector = tuple[float, ...]
_OFF = {"contype": 0, "conaffinity": 0, "mass": 0}


@dataclass(frozen=True)
class Joint:
    """A hinge and the servo that drives it: torque = kp (command - angle) - kv speed, limited."""

    name: str
    axis: Vector
    range: tuple[float, float]
    kp: float
    kv: float
    torque: float  # N m, the servo's limit
    speed: float  # rad/s; no command asks for more
    damping: float = 1.0
    frictionloss: float = 0.0
    armature: float = 0.0


@dataclass(frozen=True)
class Shape:
    """A link's visual shape: a capsule or cylinder from `start` to `end`, or a box of half sizes `end` about `start`."""

    kind: str
    start: Vector
    end: Vector
    radius: float = 0.0
    dark: bool = False


@dataclass(frozen=True)
class Link:
    """One body of the chain; `inertia` is ixx iyy izz ixy ixz iyz, or three principal moments in the frame `axes`."""

    name: str
    pos: Vector
    mass: float
    com: Vector
    inertia: Vector
    shapes: tuple[Shape, ...]
    quat: Vector = (1, 0, 0, 0)
    axes: Vector = (1, 0, 0, 0)
    joint: Joint | None = None


@dataclass(frozen=True)
class Robot:
    """A chain of links, base first. The flange is where a tool goes, given in the frame of the last link."""

    name: str
    links: tuple[Link, ...]
    flange: Vector
    flange_quat: Vector
    home: Vector
    colour: Vector
    dark: Vector
    menagerie: str  # the file that has the same links with meshes

    @property
    def joints(self) -> tuple[Joint, ...]:
        return tuple(link.joint for link in self.links if link.joint)


def capsule(start: Vector, end: Vector, radius: float, dark: bool = False) -> Shape:
    """A capsule, its round ends about start and end."""
    return Shape("capsule", start, end, radius, dark)


def cylinder(start: Vector, end: Vector, radius: float, dark: bool = False) -> Shape:
    """A cylinder from start to end."""
    return Shape("cylinder", start, end, radius, dark)


def box(centre: Vector, half: Vector, dark: bool = False) -> Shape:
    """A box of half sizes about a centre."""
    return Shape("box", centre, half, 0.0, dark)


def add_robot(spec: Any, robot: Robot, pos: Vector = (0, 0, 0), quat: Vector = (1, 0, 0, 0)) -> Any:
    """Add the robot, with its servos, to a mujoco.MjSpec; returns the flange body. Names start with the robot's own.

    A servo's command is not limited to the joint's range, as Menagerie's is: it carries the speed that the joint should
    have (robots/kinematics.py). The joint's own range and the servo's torque limit hold.
    """
    spec.compiler.degree = False  # MuJoCo would read the ranges as degrees
    meshes = _meshes(spec, robot)
    body = spec.worldbody
    for number, link in enumerate(robot.links):
        frame = {"pos": pos, "quat": quat} if number == 0 else {"pos": link.pos, "quat": link.quat}
        body = body.add_body(name=f"{robot.name}_{link.name}", **frame)
        body.explicitinertial = True
        body.mass, body.ipos = link.mass, link.com
        if len(link.inertia) == 6:
            body.fullinertia = link.inertia
        else:
            body.inertia, body.iquat = link.inertia, link.axes
        if link.joint:
            _add_joint(spec, body, robot.name, link.joint)
        visuals = meshes.get(link.name, [])
        for name, shape in zip(_names(robot, link), link.shapes, strict=True):
            body.add_geom(name=name, **_look(robot, shape), **_OFF, **({"group": HIDDEN} if visuals else {}))
        for look in visuals:
            body.add_geom(**look, **_OFF)
    return body.add_body(name=f"{robot.name}_flange", pos=robot.flange, quat=robot.flange_quat)


def solids_of(robot: Robot) -> list[str]:
    """Names of the geoms that make up the links."""
    return [name for link in robot.links for name in _names(robot, link)]


def _names(robot: Robot, link: Link) -> list[str]:
    return [f"{robot.name}_{link.name}_{number}" for number in range(len(link.shapes))]


def _add_joint(spec: Any, body: Any, robot: str, joint: Joint) -> None:
    name = f"{robot}_{joint.name}"
    hinge = body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=joint.axis, range=joint.range)
    hinge.limited = mujoco.mjtLimited.mjLIMITED_TRUE
    hinge.damping = [joint.damping, 0, 0]  # the higher orders are for drag
    hinge.frictionloss, hinge.armature = joint.frictionloss, joint.armature
    motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    motor.set_to_position(kp=joint.kp, kv=joint.kv)
    motor.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
    motor.forcerange = [-joint.torque, joint.torque]


def _look(robot: Robot, shape: Shape) -> dict[str, Any]:
    rgba = robot.dark if shape.dark else robot.colour
    if shape.kind == "box":
        return {"type": mujoco.mjtGeom.mjGEOM_BOX, "pos": shape.start, "size": shape.end, "rgba": rgba}
    kind = mujoco.mjtGeom.mjGEOM_CAPSULE if shape.kind == "capsule" else mujoco.mjtGeom.mjGEOM_CYLINDER
    return {"type": kind, "fromto": [*shape.start, *shape.end], "size": [shape.radius, 0, 0], "rgba": rgba}


def _meshes(spec: Any, robot: Robot) -> dict[str, list[dict[str, Any]]]:
    """The visual geoms of Menagerie's model, by link; empty if SGJEPA_MENAGERIE is not set."""
    folder = os.environ.get(MENAGERIE, "")
    if not folder:
        return {}
    path = Path(folder) / robot.menagerie
    try:
        source = mujoco.MjSpec.from_file(str(path))
    except (ValueError, OSError) as error:
        raise InputError(f"{MENAGERIE}={folder}: {path} cannot be read ({one_line(error, 120)}); unset it") from error
    assets = path.parent / source.meshdir
    looks: dict[str, list[dict[str, Any]]] = {}
    for body in source.bodies:
        for geom in body.geoms:
            if geom.type != mujoco.mjtGeom.mjGEOM_MESH or geom.group == 3:  # group 3 is for collisions
                continue
            mesh, name = source.mesh(geom.meshname), f"{robot.name}_{geom.meshname}"
            if spec.mesh(name) is None:
                spec.add_mesh(name=name, file=str((assets / mesh.file).resolve()), scale=mesh.scale)
            material = source.material(geom.material) if geom.material else None
            rgba = robot.colour if robot.name == "z1" else (geom.rgba if material is None else material.rgba)
            look = {"type": mujoco.mjtGeom.mjGEOM_MESH, "meshname": name, "pos": geom.pos, "quat": geom.quat, "rgba": rgba}
            looks.setdefault(body.name, []).append(look)
    return looks
