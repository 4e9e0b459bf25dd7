"""When an episode of Arm Paddle Ball counts as a success: the paper's gates, read from what the frames record."""

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


def qualified(touched: np.ndarray, ball: np.ndarray, paddle: np.ndarray, since: int = 0) -> bool:
    """Whether some flight between two touches after frame `since` passes the gates.

    touched, heights of ball and paddle: (T,) by frame
    """
    begins = onsets(touched)
    for a, b in pairwise(begins):
        top = a + int(ball[a : b + 1].argmax())
        high = ball[top] >= APEX and (ball - paddle)[a : b + 1].max() >= RISE
        if a > max(WARM_UP, since) and b - a >= APART and a < top < b and high:
            return True
    return False
