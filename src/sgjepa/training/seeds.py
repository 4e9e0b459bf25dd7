"""Random numbers as a function of the run's seed and the step: a checkpoint then needs no generator states."""

from __future__ import annotations

import numpy as np

WEIGHTS, DROPOUT, DIRECTIONS, DECODING, NOISE = 1, 2, 3, 4, 5  # streams


def mix(*numbers: int) -> int:
    """One seed from several numbers, such as run, step and stream; close ones give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
