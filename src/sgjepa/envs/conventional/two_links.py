"""An arm of two links in the plane, its first joint at the origin: where its finger is, and which angles bring it there."""

from __future__ import annotations

import math

import numpy as np


def place(angles: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The finger, (2,) in m. angles: (2,) in rad, the second from the first link on"""
    turned = np.cumsum(angles)
    return np.array([np.cos(turned) @ lengths, np.sin(turned) @ lengths])


def jacobian(angles: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """What the angles' rates do to the finger: (2, 2) in m/rad."""
    turned = np.cumsum(angles)
    second = lengths[1] * np.array([-math.sin(turned[1]), math.cos(turned[1])])
    first = lengths[0] * np.array([-math.sin(turned[0]), math.cos(turned[0])]) + second
    return np.column_stack([first, second])


def angles_at(finger: np.ndarray, lengths: np.ndarray, bend: float) -> np.ndarray:
    """The angles, (2,), that bring the finger there, or as near as it can come. bend: the elbow's sign"""
    far = math.hypot(*finger)
    inner = (far**2 - lengths @ lengths) / (2 * lengths[0] * lengths[1])
    second = math.copysign(math.acos(min(max(inner, -1.0), 1.0)), bend)
    within = math.atan2(lengths[1] * math.sin(second), lengths[0] + lengths[1] * math.cos(second))
    return np.array([wrapped(math.atan2(finger[1], finger[0]) - within), second])


def wrapped(angle: float) -> float:
    """To (-pi, pi]."""
    return math.pi - (math.pi - angle) % (2 * math.pi)
