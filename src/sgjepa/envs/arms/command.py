"""From the pose that is asked for to what the arm is told: joint angles, and speeds to arrive with, that it can do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.envs.robots.kinematics import Arm, rotation_of, rotation_vector

CLOSE = (0.002, math.radians(1.0))  # m, rad: a commanded pose that the arm can take no better is cut short
_HALVINGS = 7  # of the way to a pose that is too far: to within 1 part in 128


@dataclass(frozen=True)
class Command:
    """What the arm was last told: the tool's pose at the end of the interval, and the joints' angles and speeds there."""

    position: np.ndarray  # (3,) m
    rotation: np.ndarray  # (3, 3)
    joints: np.ndarray  # (J,) rad
    speeds: np.ndarray  # (J,) rad/s


def reach(arm: Arm, data: Any, last: Command, position: np.ndarray, rotation: np.ndarray, seconds: float) -> Command:
    """The command that brings the tool to a pose in so many seconds, or as far on the way as the arm can go in that time.

    data: mujoco.MjData, which says where the joints are now. last: what the arm was told before.
    """

    def attempt(position: np.ndarray, rotation: np.ndarray, near: np.ndarray) -> Command | None:
        found = arm.solve(position, rotation, near)
        speeds = _arriving(found.joints, data.qpos[arm.qpos], last.speeds, seconds)
        possible = found.within(*CLOSE) and bool((np.abs(speeds) <= arm.fastest).all())
        return Command(position, rotation, found.joints, speeds) if possible else None

    if whole := attempt(position, rotation, last.joints):
        return whole
    share, width = 0.0, 1.0
    stay = _arriving(last.joints, data.qpos[arm.qpos], last.speeds, seconds)
    best = Command(last.position, last.rotation, last.joints, stay)
    turn = rotation_vector(rotation @ last.rotation.T)
    for _ in range(_HALVINGS):
        width /= 2
        there = last.position + (share + width) * (position - last.position)
        turned = rotation_of((share + width) * turn) @ last.rotation
        if farther := attempt(there, turned, best.joints):
            share, best = share + width, farther
    return best


def _arriving(goal: np.ndarray, angles: np.ndarray, speeds: np.ndarray, seconds: float) -> np.ndarray:
    """The speeds with which joints arrive at `goal` at the end of the interval, the fastest they are asked for. (J,) each

    From where the joints are and as fast as they were told to be: in the first half of the interval the speed changes
    evenly to this one, so a lag or a push is made good at once and nothing jerks.
    """
    early = seconds / 4  # half of the ramp
    return (goal - angles - speeds * early) / (seconds - early)
