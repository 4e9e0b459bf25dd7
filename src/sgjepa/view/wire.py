"""A message to the page: a JSON header and, behind it, raw pictures. Numbers are rounded to what a screen can show.

4 bytes, little-endian: length of the header | the header, UTF-8 | frames (n, h, w, 3) uint8, one after another
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

_DIGITS = 5  # significant


@dataclass(frozen=True)
class Message:
    """Something for the page. pictures: (n, h, w, 3) uint8, or None."""

    head: dict[str, Any]
    pictures: np.ndarray | None = None

    def to_bytes(self) -> bytes:
        size = {} if self.pictures is None else {"frames": len(self.pictures), "side": self.pictures.shape[1]}
        head = json.dumps(self.head | size, allow_nan=False, separators=(",", ":")).encode()
        pixels = b"" if self.pictures is None else self.pictures.tobytes()
        return len(head).to_bytes(4, "little") + head + pixels


def plain(values: np.ndarray | None) -> Any:
    """An array as nested lists; what is not a number becomes null."""
    if values is None:
        return None
    return _rounded(np.asarray(values, float).tolist())


def outline(curves: np.ndarray | None) -> Any:
    """Curves (n, K, 2) in thousandths of the picture, less than a pixel of a screen."""
    if curves is None:
        return None
    found = np.round(1000 * np.clip(curves, -9, 9))
    whole: list[Any] = np.where(np.isfinite(found), found, -99_999).astype(int).tolist()
    return [[None if point[0] == -99_999 else point for point in curve] for curve in whole]


def number(value: float) -> float | None:
    """As a screen shows it; None for what is not finite."""
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _rounded(value: Any) -> Any:
    return [_rounded(one) for one in value] if isinstance(value, list) else number(value)
