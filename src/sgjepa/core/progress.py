"""The one progress bar: count, rate and time left on standard error; a line now and then where there is no terminal."""

from __future__ import annotations

import sys
import threading
from typing import Any

from tqdm import tqdm

_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {pace}{postfix}]"


class _Bar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """tqdm's own rate reads "1.13s/ steps"."""

    @property
    def format_dict(self) -> dict[str, Any]:
        known: dict[str, Any] = super().format_dict
        done, elapsed = known["n"] - known["initial"], known["elapsed"]
        # tqdm's rate is of the last updates; it has none before the second, and none when the bar is closed
        rate = known["rate"] or (done / elapsed if elapsed else 0.0)
        return known | {"pace": pace(rate, known["unit"])}


_Bar.set_lock(threading.RLock())  # tqdm's own is shared by processes: one that is stopped would leave a semaphore behind


def pace(rate: float, unit: str) -> str:
    """How fast, in words. rate: per second. unit: a plural."""
    if not rate:
        return f"? s per {unit[:-1]}"
    return f"{rate:.3g} {unit} per s" if rate > 1 else f"{1 / rate:.3g} s per {unit[:-1]}"


def progress(total: int, done: int, label: str, unit: str, left: bool = True) -> Any:
    """A bar to use in a `with` statement; call `update(n)` on it. unit: what is counted, a plural such as "steps".

    left: whether it says how much time is left; not where more follows than what is counted.
    """
    screen = sys.stderr is not None and sys.stderr.isatty()
    return _Bar(
        total=total,
        initial=done,
        desc=label,
        unit=unit,
        bar_format=_FORMAT if left else _FORMAT.replace("<{remaining}", ""),
        smoothing=0.05,
        mininterval=0.2 if screen else 10.0,
        maxinterval=10.0,
        dynamic_ncols=screen,
        ascii=None if screen else True,
        disable=sys.stderr is None,  # closed, in a program that is not our command
    )
