"""Messages to the page: a JSON header, then raw frames. Numbers are rounded to the resolution of a screen.

4 bytes, little-endian: length of the header | the header, UTF-8 | frames (n, h, w, 3) uint8, one after another
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

_DIGITS = 5  # significant
_NOT_FINITE = -99_999


@dataclass(frozen=True)
class Message:
    """A message. header: JSON values. frames: (n, h, w, 3) uint8, or None."""

    header: dict[str, Any]
    frames: np.ndarray | None = None

    def to_bytes(self) -> bytes:
        """The message as bytes."""
        size = {} if self.frames is None else {"frames": len(self.frames), "side": self.frames.shape[1]}
        header = json.dumps(self.header | size, allow_nan=False, separators=(",", ":")).encode()
        pixels = b"" if self.frames is None else self.frames.tobytes()
        return len(header).to_bytes(4, "little") + header + pixels

    def with_header(self, more: dict[str, Any]) -> Message:
        """The message with further header entries."""
        return Message(more | self.header, self.frames)


def error_message(text: str, number: int | None) -> Message:
    """A message with an error text. number: of the request, if known."""
    return Message({"number": number, "kind": "error", "message": text})


def rounded(value: Any) -> Any:
    """Arrays, dicts, sequences and numbers as JSON values, numbers rounded; what is not finite becomes null."""
    if isinstance(value, np.ndarray):
        return rounded(value.tolist())
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def outline_points(curves: np.ndarray | None) -> list[list[list[int] | None]] | None:
    """Curves (n, K, 2) in picture widths as points in thousandths of it, which is less than a pixel of a screen."""
    if curves is None:
        return None
    points = np.round(1000 * np.clip(curves, -9, 9))
    whole = np.where(np.isfinite(points), points, _NOT_FINITE).astype(int).tolist()
    return [[None if point[0] == _NOT_FINITE else point for point in curve] for curve in whole]
