"""OGBench's control of the gripper: an action moves its pose a little, inverse kinematics finds joints, motors go there.

The action (dx, dy, dz, dyaw, grip) is relative to where the hand is now: 1 is 5 cm, 0.3 rad, and closing it fully. The hand
looks down and stays within the workspace. The solver is OGBench's too: least squares until 0.1 mm and 0.1 mrad are left.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sgjepa.envs.conventional.cube.scene import ARM, arm_alone
from sgjepa.envs.headless import mujoco
from sgjepa.envs.robots.kinematics import rotation_vector

ACTION = np.array([0.05, 0.05, 0.05, 0.3, 1.0])  # m, m, m, rad, share of the gripper's way
WORKSPACE = np.array([[0.25, -0.35, 0.02], [0.6, 0.35, 0.35]])  # m, lowest and highest corner
HOME = np.array([-0.5, -0.5, 0.5, -0.5, -0.5, 0.0]) * math.pi
SUBSTEPS = 25  # of physics in a control step of 0.05 s
_CLOSED = 0.8  # rad, the driver's angle
_CLOSE = 1e-4  # m, rad
_FARTHEST = math.radians(45)  # a joint may turn in one iteration
_ITERATIONS = 20
_DOWN = np.diag([1.0, -1.0, -1.0])


class Hand:
    """The robot of a compiled scene, which it does not hold: data comes with every call."""

    def __init__(self, model: Any):
        self._pinch = model.site("ur5e/robotiq/pinch").id
        self._driver = model.joint("ur5e/robotiq/right_driver_joint").qposadr[0]
        self._alone = arm_alone()
        self._scratch = mujoco.MjData(self._alone)
        self._site = self._alone.site("attachment_site").id
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        axes = data.site_xmat[self._pinch].reshape(3, 3)
        flange = data.site("ur5e/attachment_site")
        # the flange as seen from between the fingers
        self._offset = axes.T @ (flange.xpos - data.site_xpos[self._pinch])
        self._turn = axes.T @ flange.xmat.reshape(3, 3)

    def pose(self, data: Any) -> np.ndarray:
        """x, y, z in m, yaw in rad, and how far it is closed, 0 to 1: (5,)."""
        axes = data.site_xmat[self._pinch]
        closed = min(max(data.qpos[self._driver] / _CLOSED, 0.0), 1.0)
        return np.array([*data.site_xpos[self._pinch], math.atan2(axes[3], axes[0]), closed])

    def joints(self, place: np.ndarray, yaw: float, start: np.ndarray) -> np.ndarray:
        """The arm's angles, (6,), that bring the hand to a place (3,), looking down, turned by yaw."""
        c, s = math.cos(yaw), math.sin(yaw)
        axes = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ _DOWN
        position, rotation = place + axes @ self._offset, axes @ self._turn
        arm, data, jacobian = self._alone, self._scratch, np.empty((6, 6))
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
        found: np.ndarray = data.qpos.copy()
        return found

    def command(self, data: Any, action: np.ndarray) -> None:
        """Set the motors for one control step. action: (5,) within 1"""
        x, y, z, yaw, closed = self.pose(data) + ACTION * action
        place = np.clip((x, y, z), *WORKSPACE)
        data.ctrl[: len(ARM)] = self.joints(place, yaw, data.qpos[: len(ARM)])
        data.ctrl[len(ARM)] = 255 * min(max(closed, 0.0), 1.0)
