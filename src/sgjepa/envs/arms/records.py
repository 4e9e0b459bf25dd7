"""Names and units of what the arm worlds take and record: shifts and tilts of a tool, its pose, joints, contact flags."""

from __future__ import annotations

import math

import numpy as np

from sgjepa.envs.robots.robot import Robot
from sgjepa.envs.world import Quantity

TILT = (Quantity("phi", "rad"), Quantity("theta", "rad"))  # how a blade leans or looks: each world says from where


def shifts(step: np.ndarray) -> tuple[Quantity, ...]:
    """dx, dy and dz of a tool's target, in units of a step (3,) in m."""
    return tuple(Quantity(name, f"{1000 * size:.3g} mm") for name, size in zip(("dx", "dy", "dz"), step, strict=True))


def blade_limits(fastest: float, steepest: float) -> tuple[float, ...]:
    """Limits of a control (dx, dy, dz, phi, theta): in steps per frame, and in rad."""
    return fastest, fastest, fastest, math.pi, steepest


def vector(name: str, units: str, *suffixes: str) -> tuple[Quantity, ...]:
    """Quantities called name_suffix, all in one unit."""
    return tuple(Quantity(f"{name}_{suffix}", units) for suffix in suffixes)


def tool_record(name: str) -> tuple[Quantity, ...]:
    """Nine numbers: where the tool is, how it moves, where it was told to be."""
    return (
        *vector(name, "m", "x", "y", "z"),
        *vector(name, "m/s", "vx", "vy", "vz"),
        *vector(name, "m", "target_x", "target_y", "target_z"),
    )


def arm_record(robot: Robot) -> tuple[Quantity, ...]:
    """Angle, speed and commanded angle of every joint."""
    names = [joint.name for joint in robot.joints]
    return (*vector("angle", "rad", *names), *vector("speed", "rad/s", *names), *vector("target", "rad", *names))


def flags(*names: str) -> tuple[Quantity, ...]:
    """Zeros and ones."""
    return tuple(Quantity(name, "1") for name in names)
