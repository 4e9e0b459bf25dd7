"""The parts of a scene that the arm worlds share: physics, camera and lights, the ball, and the solids of an arena."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sgjepa.envs import spatial
from sgjepa.envs.arms import bounce
from sgjepa.envs.headless import mujoco
from sgjepa.envs.spatial import Arena, Look

OFF = {"contype": 0, "conaffinity": 0}  # only explicit pairs touch
TOOL = "tool"  # the site that commands move
Surfaces = Mapping[str, tuple[float, tuple[float, ...]]]  # restitution and friction of the ball with each kind of thing


def start_spec(look: Look) -> Any:
    """A spec with the physics all arm worlds share, the camera and the lights."""
    spec = mujoco.MjSpec()
    spec.option.timestep = bounce.TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.gravity = [0, 0, 0]
    spatial.set_looks(spec, look)
    return spec


def add_ball(spec: Any, radius: float, **look: Any) -> None:
    """A free ball of unit mass: the world gives it its mass at reset."""
    body = spec.worldbody.add_body(name="ball")
    body.add_freejoint(name="ball")
    body.explicitinertial = True
    body.mass, body.inertia = 1.0, [0.4 * radius**2] * 3
    body.add_geom(name="ball", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0, 0], **look, **OFF)


def add_solids(spec: Any, arena: Arena) -> dict[str, str]:
    """What the ball bounces off in an arena, and its kind: a plane and thick boxes that are not drawn."""
    (cx, cy), (hx, hy), top, thick = arena.centre, arena.half, arena.height, 0.25
    hidden = {"group": spatial.HIDDEN, **OFF}
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], **hidden)
    walls = {
        "left": ((cx - hx - thick, cy, top / 2), (thick, hy, top / 2)),
        "right": ((cx + hx + thick, cy, top / 2), (thick, hy, top / 2)),
        "far": ((cx, cy + hy + thick, top / 2), (hx, thick, top / 2)),
    }
    for name, (pos, size) in walls.items():
        spec.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, pos=pos, size=size, **hidden)
    return {"floor": "floor", **dict.fromkeys(walls, "wall")}


def yaw(angle: float) -> tuple[float, float, float, float]:
    """The quaternion of a turn about the vertical."""
    return math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)
