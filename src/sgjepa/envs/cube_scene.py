"""OGBench's scene with one cube, composed from its own files, with a simpler look.

The physics is OGBench's to the digit: bodies, motors, contacts, options. The look is not. OGBench draws nearly 200,000
triangles, most of them of an arm that is nine tenths transparent; in this scene the arm is left out, the gripper's parts
are drawn as hulls of a few points, and static geoms are drawn only for the backdrop.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.envs.benchmarks import package_folder
from sgjepa.envs.headless import mujoco
from sgjepa.envs.render.shadows import Floor
from sgjepa.envs.robots.kinematics import rotation_vector
from sgjepa.envs.world3d import CAMERA, HIDDEN, LINE, PAPER, RED, board

# sizes and gains
ARM = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
FINGERS = tuple(f"{side}_{part}" for side in ("right", "left") for part in ("driver", "coupler", "spring_link", "follower"))
HALF = 0.02  # m, of the cube's side
TIMESTEP = 0.002  # s
# OGBench's gains in place of those in its robot's file
STIFFNESS = (4500.0, 4500.0, 4500.0, 2000.0, 2000.0, 500.0)
DAMPING = (450.0, 450.0, 450.0, 200.0, 200.0, 50.0)

# the action
ACTION = np.array([0.05, 0.05, 0.05, 0.3, 1.0])  # m, m, m, rad, share of the gripper's way
WORKSPACE = np.array([[0.25, -0.35, 0.02], [0.6, 0.35, 0.35]])  # m, lowest and highest corner
HOME = np.array([-0.5, -0.5, 0.5, -0.5, -0.5, 0.0]) * math.pi
SUBSTEPS = 25  # of physics in a control step of 0.05 s
_CLOSED = 0.8  # rad, the driver's angle
_CLOSE = 1e-4  # m, rad
_FARTHEST = math.radians(45)  # a joint may turn in one iteration
_ITERATIONS = 20
_DOWN = np.diag([1.0, -1.0, -1.0])

# the picture
FLOOR = Floor((-0.4, 0.0), (1.3, 1.6))  # m: all that is seen
_CAMERA = {"pos": (1.053, -0.014, 0.639), "xyaxes": (0.0, 1.0, 0.0, -0.628, 0.001, 0.778)}  # OGBench's `front_pixels`
_GRID = 0.1  # m between two of its lines
_PURPLE, _DARK = (0.61, 0.28, 0.82, 1.0), (0.35, 0.16, 0.50, 1.0)
_POINTS = 80  # directions in which a hull's points are the outermost


# --- the model --------------------------------------------------------------------------------------------------------


def build_model() -> Any:
    """The compiled model (mujoco.MjModel)."""
    files = package_folder("cube") / "manipspace" / "descriptions"
    arm = mujoco.MjSpec.from_file(str(files / "universal_robots_ur5e" / "ur5e.xml"))
    hand = mujoco.MjSpec.from_file(str(files / "robotiq_2f85" / "2f85.xml"))
    cube = mujoco.MjSpec.from_file(str(files / "cube.xml"))
    scene = mujoco.MjSpec.from_file(str(files / "floor_wall.xml"))
    for spec in (arm, scene):  # before anything is attached: MuJoCo warns where options differ
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10
    for key in arm.keys:
        arm.delete(key)
    for light in arm.lights:
        arm.delete(light)
    _set_gains(arm)
    _set_looks(arm, hand, files)
    arm.attach(hand, site=arm.site("attachment_site"), prefix="robotiq/")
    scene.attach(arm, frame=scene.worldbody.add_frame(), prefix="ur5e/")
    cube.delete(cube.body("object_target_0"))  # the goal is not drawn
    cube.geom("object_0").group, cube.geom("object_0").rgba = 0, RED
    scene.attach(cube, frame=scene.worldbody.add_frame(), prefix="cube/")
    scene.option.timestep = TIMESTEP
    _light(scene)
    return scene.compile()


def _set_gains(arm: Any) -> None:
    for motor, stiff, damp in zip((arm.actuator(name) for name in ARM), STIFFNESS, DAMPING, strict=True):
        gain, bias = np.array(motor.gainprm), np.array(motor.biasprm)
        gain[[0, 2]], bias[1] = (stiff, -damp), -stiff
        motor.gainprm, motor.biasprm = gain, bias


def arm_model() -> Any:
    """The compiled robot without gripper and meshes, for inverse kinematics."""
    arm = mujoco.MjSpec.from_file(
        str(package_folder("cube") / "manipspace" / "descriptions" / "universal_robots_ur5e" / "ur5e.xml")
    )
    _strip(arm)
    return arm.compile()


def _strip(spec: Any) -> None:
    """Delete the meshes that are only visual. Those that a body's mass comes from are hidden."""
    for geom in spec.geoms:
        if geom.classname.name != "visual":
            continue
        if geom.parent.explicitinertial:
            spec.delete(geom)
        else:
            geom.group = HIDDEN
    used = {geom.meshname for geom in spec.geoms}
    for mesh in spec.meshes:
        if mesh.name not in used:
            spec.delete(mesh)


def _set_looks(arm: Any, hand: Any, files: Path) -> None:
    """Replace the gripper's meshes by hulls and hide the arm."""
    visual = [(geom.parent, geom.meshname, geom.material) for geom in hand.geoms if geom.classname.name == "visual"]
    _strip(arm)
    _strip(hand)
    for mesh in dict.fromkeys(name for _, name, _ in visual):
        points = _vertices(files / "robotiq_2f85" / "assets" / f"{mesh}.stl") / 1000
        hand.add_mesh(name=f"{mesh}_hull", uservert=_outermost(points).ravel())
    off: dict[str, Any] = {"contype": 0, "conaffinity": 0, "mass": 0, "group": 0}
    for body, mesh, material in visual:
        colour = _DARK if material in ("gray", "pad_gray") else _PURPLE
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=f"{mesh}_hull", rgba=colour, **off)


def _vertices(path: Path) -> np.ndarray:
    """The corners of a binary STL file's triangles, (N, 3)."""
    triangle = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("about", "<u2")])
    corners: np.ndarray = np.frombuffer(path.read_bytes(), triangle, offset=84)["corners"]
    return corners.reshape(-1, 3)


def _outermost(points: np.ndarray) -> np.ndarray:
    """The points (N, 3) that are extreme in some direction: the corners of a coarse hull."""
    n = np.arange(_POINTS)
    z, turn = 1 - (2 * n + 1) / _POINTS, n * math.pi * (3 - math.sqrt(5))  # a sunflower on the sphere
    ways = np.stack([np.sqrt(1 - z * z) * np.cos(turn), np.sqrt(1 - z * z) * np.sin(turn), z])
    outer: np.ndarray = points[np.unique((points @ ways).argmax(axis=0))]
    return outer


def _light(scene: Any) -> None:
    """Set camera, lights and a white floor with a grid, in place of OGBench's dark one."""
    scene.worldbody.add_camera(name=CAMERA, **_CAMERA)
    scene.visual.quality.offsamples = 0  # a fine picture averaged is cheaper on a CPU, and better
    headlight = scene.visual.headlight
    headlight.ambient, headlight.diffuse, headlight.specular = [0.5] * 3, [0.25] * 3, [0.0] * 3
    for light in scene.lights:
        light.castshadow, light.diffuse, light.specular = False, [0.2] * 3, [0.0] * 3
    scene.geom("floor").group = HIDDEN
    sky = scene.texture("skybox")
    sky.rgb1, sky.rgb2, sky.mark = [0.90, 0.92, 0.95], [0.72, 0.75, 0.79], mujoco.mjtMark.mjMARK_NONE
    sky.width, sky.height = 64, 384
    (cx, cy), (hx, hy) = FLOOR.centre, FLOOR.half
    board(scene, (cx, cy, -0.005), (hx, hy, 0.005), rgba=PAPER)
    for x in np.arange(-math.floor(hx / _GRID), math.floor(hx / _GRID) + 1) * _GRID:
        board(scene, (cx + x, cy, 1e-4), (0.002, hy, 1e-4), rgba=LINE)
    for y in np.arange(-math.floor(hy / _GRID), math.floor(hy / _GRID) + 1) * _GRID:
        board(scene, (cx, cy + y, 1e-4), (hx, 0.002, 1e-4), rgba=LINE)


# --- the robot --------------------------------------------------------------------------------------------------------


class Gripper:
    """The robot of a compiled scene. It is stateless: every call takes the data."""

    def __init__(self, model: Any):
        self._pinch = model.site("ur5e/robotiq/pinch").id
        self._driver = model.joint("ur5e/robotiq/right_driver_joint").qposadr[0]
        self._arm = arm_model()
        self._scratch = mujoco.MjData(self._arm)
        self._site = self._arm.site("attachment_site").id
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        axes = data.site_xmat[self._pinch].reshape(3, 3)
        flange = data.site("ur5e/attachment_site")
        # the flange as seen from between the fingers
        self._offset = axes.T @ (flange.xpos - data.site_xpos[self._pinch])
        self._turn = axes.T @ flange.xmat.reshape(3, 3)

    def pose(self, data: Any) -> np.ndarray:
        """x, y, z in m, yaw in rad, and the closed share, 0 to 1: (5,)."""
        axes = data.site_xmat[self._pinch]
        closed = min(max(data.qpos[self._driver] / _CLOSED, 0.0), 1.0)
        return np.array([*data.site_xpos[self._pinch], math.atan2(axes[3], axes[0]), closed])

    def joints(self, target: np.ndarray, yaw: float, start: np.ndarray) -> np.ndarray:
        """The arm's angles, (6,), that bring the gripper to a position (3,), looking down, turned by yaw."""
        c, s = math.cos(yaw), math.sin(yaw)
        axes = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ _DOWN
        position, rotation = target + axes @ self._offset, axes @ self._turn
        arm, data, jacobian = self._arm, self._scratch, np.empty((6, 6))
        data.qpos[:] = start
        for _ in range(_ITERATIONS):
            mujoco.mj_kinematics(arm, data)
            off = position - data.site_xpos[self._site]
            tilt = rotation_vector(rotation @ data.site_xmat[self._site].reshape(3, 3).T)
            if off @ off <= _CLOSE**2 and tilt @ tilt <= _CLOSE**2:
                break
            mujoco.mj_comPos(arm, data)
            mujoco.mj_jacSite(arm, data, jacobian[:3], jacobian[3:], self._site)
            step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-12 * np.eye(6), [*off, *tilt])
            data.qpos += step * min(1.0, _FARTHEST / max(float(np.abs(step).max()), 1e-12))
        angles: np.ndarray = data.qpos.copy()
        return angles

    def command(self, data: Any, action: np.ndarray) -> None:
        """Set the motors for one control step. action: (5,) within 1"""
        x, y, z, yaw, closed = self.pose(data) + ACTION * action
        target = np.clip((x, y, z), *WORKSPACE)
        data.ctrl[: len(ARM)] = self.joints(target, yaw, data.qpos[: len(ARM)])
        data.ctrl[len(ARM)] = 255 * min(max(closed, 0.0), 1.0)
