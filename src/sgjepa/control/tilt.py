"""Two angles as a vector: (phi, theta) -> sin(theta) (cos phi, sin phi), where a face leans by theta towards phi.

An upright face has no phi, and around it phi jumps: a small lean to the left and one to the right are half a turn apart. The
vector does not jump, so it is what is learned and looked at; executed are the angles. Both arm worlds with a blade name
their angles so (`TILT`), and neither leans beyond a right angle, up to which the way back is unique.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PHI, THETA = "phi", "theta"


def to_vector(values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Values (..., C) with the angles among them, if there are any, replaced by the vector."""
    if (places := _places(names)) is None:
        return values
    lean = np.sin(values[..., places[1]])
    phi = values[..., places[0]]
    out = values.copy()
    out[..., places[0]], out[..., places[1]] = lean * np.cos(phi), lean * np.sin(phi)
    return out


def to_angles(values: np.ndarray, names: Sequence[str], steepest: float) -> np.ndarray:
    """The way back, (..., C); theta up to `steepest`, at most a right angle."""
    if (places := _places(names)) is None:
        return values
    x, y = values[..., places[0]], values[..., places[1]]
    lean = np.hypot(x, y)
    out = values.copy()
    out[..., places[0]] = np.where(lean > 1e-6, np.arctan2(y, x), 0.0)
    out[..., places[1]] = np.arcsin(np.minimum(lean, np.sin(min(steepest, np.pi / 2))))
    return out


def _places(names: Sequence[str]) -> tuple[int, int] | None:
    names = list(names)
    return (names.index(PHI), names.index(THETA)) if PHI in names and THETA in names else None
