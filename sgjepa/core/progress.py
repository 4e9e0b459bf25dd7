"""The one progress bar: count, rate and time left on standard error; a line now and then where there is no terminal."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def progress(total: int, done: int, label: str, unit: str) -> Any:
    """A bar to use in a `with` statement; call `update(n)` on it."""
    screen = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=done,
        desc=label,
        unit=unit,
        smoothing=0.05,
        mininterval=0.2 if screen else 10.0,
        maxinterval=10.0,
        dynamic_ncols=screen,
        ascii=None if screen else True,
    )
