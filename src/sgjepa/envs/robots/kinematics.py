"""Inverse kinematics, and the servo commands that carry a tool along a path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.envs.headless import mujoco
from sgjepa.envs.robots.robot import Robot

_CLOSE = (1e-5, 1e-4)  # m, rad: a solution this near is exact for all purposes
_MARGIN = 0.002  # rad kept from the ends of a joint's range
_STEP = 0.25  # rad a joint may turn in one iteration
_PATIENCE = 8  # iterations without gain before a search is given up


@dataclass(frozen=True)
class Solution:
    """Joint angles, and the distance of the tool that they give from the wanted pose."""

    joints: np.ndarray
    position_error: float  # m
    angle_error: float  # rad

    def within(self, metres: float, radians: float) -> bool:
        return self.position_error <= metres and self.angle_error <= radians

    @property
    def cost(self) -> float:
        return self.position_error + 0.3 * self.angle_error


class Arm:
    """A robot inside a compiled model, and the site on it that is moved."""

    def __init__(self, model: Any, robot: Robot, site: str):
        self._model, self._scratch = model, mujoco.MjData(model)
        self._site = model.site(site).id
        joints = [model.joint(f"{robot.name}_{joint.name}") for joint in robot.joints]
        # one after the other in the model, as `add_robot` made them
        self.qpos, self.dofs, self._motors = (
            slice(first, first + len(joints))
            for first in (joints[0].qposadr[0], joints[0].dofadr[0], model.actuator(joints[0].name).id)
        )
        self.low, self.high = (np.array([joint.range[i] for joint in joints]) for i in (0, 1))
        self.home = np.array(robot.home)
        self.fastest = np.array([joint.speed for joint in robot.joints])
        self._kp = np.array([joint.kp for joint in robot.joints])
        self._kv = np.array([joint.kv for joint in robot.joints])
        self._damping = np.array([joint.damping for joint in robot.joints])
        self._gains, self._push = np.zeros(model.nv), np.zeros(model.nv)
        self._torque = 0.999 * np.array([joint.torque for joint in robot.joints])

    def pose(self, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forward kinematics: the site's position (3,) and rotation (3, 3)."""
        self._scratch.qpos[self.qpos] = joints
        mujoco.mj_kinematics(self._model, self._scratch)
        return self._scratch.site_xpos[self._site].copy(), self._scratch.site_xmat[self._site].reshape(3, 3).copy()

    def solve(self, position: np.ndarray, rotation: np.ndarray, start: np.ndarray, iterations: int = 60) -> Solution:
        """Joints that bring the site to a pose: damped least squares from `start`, position and orientation at once.

        Damping shrinks with the error, so the last steps are Newton's; the Panda's redundant seventh joint moves
        towards the home posture. The best joints met on the way are returned, with their error.
        """
        low, high = self.low + _MARGIN, self.high - _MARGIN
        joints = np.clip(start, low, high)
        jacobian = np.zeros((6, self._model.nv))
        best, stalled = None, 0
        for _ in range(iterations):
            reached, axes = self.pose(joints)
            error = np.concatenate([position - reached, rotation_vector(rotation @ axes.T)])
            now = Solution(joints, float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:])))
            if best is None or now.cost < best.cost * 0.99:
                best, stalled = now, 0
            else:
                stalled += 1
            if now.within(*_CLOSE) or stalled > _PATIENCE:
                break
            mujoco.mj_comPos(self._model, self._scratch)
            mujoco.mj_jacSite(self._model, self._scratch, jacobian[:3], jacobian[3:], self._site)
            j = jacobian[:, self.dofs]
            damping = 1e-5 + 1e-2 * min(now.cost, 1.0) ** 2
            step = j.T @ np.linalg.solve(j @ j.T + damping * np.eye(6), error)
            if len(joints) > 6:
                idle = 0.05 * (self.home - joints)
                step += idle - j.T @ np.linalg.solve(j @ j.T + 1e-5 * np.eye(6), j @ idle)
            step *= min(1.0, _STEP / max(np.abs(step).max(), 1e-12))
            joints = np.clip(joints + step, low, high)
        assert best is not None
        return best

    def search(self, position: np.ndarray, rotation: np.ndarray, tries: int = 40) -> Solution:
        """The best of several solutions from home and from fixed random postures: slow, for the start of an episode."""
        rng = np.random.default_rng(0)
        starts = [self.home, *(rng.uniform(self.low, self.high) for _ in range(tries))]
        solutions = [self.solve(position, rotation, start) for start in starts]
        exact = [s for s in solutions if s.within(1e-3, 1e-2)]
        if exact:  # of several postures that reach the pose, the one farthest from the ends of the joints' ranges
            return max(exact, key=lambda s: float(np.minimum(s.joints - self.low, self.high - s.joints).min()))
        return min(solutions, key=lambda s: s.cost)

    def follow(self, data: Any, joints: np.ndarray, speeds: np.ndarray, gains: np.ndarray | None = None) -> None:
        """Command the servos to be at `joints` with `speeds` now, and to change the speeds by `gains` per second.

        A bare position servo drags kv/kp = 0.1 s behind a moving command. Here the command leads by exactly that, and by
        what gravity, inertia and damping ask for, so that the servo's own law cancels them.
        """
        angles, rates = data.qpos[self.qpos], data.qvel[self.dofs]
        needed = data.qfrc_bias[self.dofs] + self._damping * speeds
        if gains is not None:
            self._gains[self.dofs] = gains
            mujoco.mj_mulM(self._model, data, self._push, self._gains)
            needed += self._push[self.dofs]
        torque = self._kp * (joints - angles) + self._kv * (speeds - rates) + needed
        # just inside the limit: at the limit MuJoCo no longer integrates the servo's damping implicitly, and a light wrist
        # would then be thrown to and fro between full torque one way and the other
        torque = np.minimum(np.maximum(torque, -self._torque), self._torque)
        data.ctrl[self._motors] = angles + (torque + self._kv * rates) / self._kp


def wrap_angle(angle: float) -> float:
    """An angle within (-pi, pi]."""
    return math.pi - (math.pi - angle) % (2 * math.pi)


def unit_quaternion(xyzw: Sequence[float]) -> np.ndarray:
    """A state's quaternion x y z w in MuJoCo's order, w x y z, checked to have length 1."""
    length = float(np.linalg.norm(xyzw))
    if not 0.9 < length < 1.1:
        raise InputError(f"state's quaternion (qx, qy, qz, qw) must have length 1, got {length:.3g}")
    return np.array([xyzw[3], *xyzw[:3]]) / length


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Axis times angle (3,) of a rotation matrix (3, 3)."""
    quat, vector = np.zeros(4), np.zeros(3)
    mujoco.mju_mat2Quat(quat, rotation.ravel())
    mujoco.mju_quat2Vel(vector, quat, 1.0)
    return vector


def rotation_of(turn: np.ndarray) -> np.ndarray:
    """The rotation matrix of an axis times angle."""
    quat, matrix = np.zeros(4), np.zeros(9)
    angle = float(np.linalg.norm(turn))
    mujoco.mju_axisAngle2Quat(quat, turn / angle if angle > 1e-12 else np.array([1.0, 0, 0]), angle)
    mujoco.mju_quat2Mat(matrix, quat)
    return matrix.reshape(3, 3)


def rotate(quat: Sequence[float] | np.ndarray, vector: Sequence[float] | np.ndarray, inverse: bool = False) -> np.ndarray:
    """A vector turned by a quaternion w x y z, or by its inverse."""
    q, out = np.array(quat, float), np.zeros(3)
    if inverse:
        q[1:] *= -1
    mujoco.mju_rotVecQuat(out, np.array(vector, float), q)
    return out
