"""When an episode of Arm Paddle Ball counts as a success: gates of the paper and its code, read from the records."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

WARM_UP, APART, RISE, APEX = 16, 5, 0.15, 0.28  # frames, frames, m, m: the gates of success
DEBOUNCE = 3  # frames


def onsets(touched: np.ndarray) -> list[int]:
    """Frames at which a touch begins, none within three frames of the one before."""
    found: list[int] = []
    for frame in range(1, len(touched)):
        if touched[frame] and not touched[frame - 1] and (not found or frame - found[-1] >= DEBOUNCE):
            found.append(frame)
    return found


def flights(touched: np.ndarray, ball: np.ndarray, paddle: np.ndarray, since: int = 0) -> int:
    """How many flights between two touches after frame `since` pass the gates.

    touched, heights of ball and paddle: (T,) by frame
    """
    found = 0
    for a, b in pairwise(onsets(touched)):
        top = a + int(ball[a : b + 1].argmax())
        high = ball[top] >= APEX and (ball - paddle)[a : b + 1].max() >= RISE
        found += bool(a > max(WARM_UP, since) and b - a >= APART and a < top < b and high)
    return found
