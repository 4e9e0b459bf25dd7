"""The progress bar: count, rate and time left on standard error.

Where no bar can be drawn, in a file, a pipe or a terminal without columns, long work prints a line now and then.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from tqdm import tqdm

_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {pace}{postfix}]"
_LINE = "{desc}: {n_fmt} of {total_fmt} {unit}, {elapsed} gone, {remaining} left, {pace}{postfix}"
_APART = 30.0  # seconds between lines, and before the first


class _Bar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A tqdm bar with a readable rate; tqdm's own reads "1.13s/ steps"."""

    @property
    def format_dict(self) -> dict[str, Any]:
        known: dict[str, Any] = super().format_dict
        done, elapsed = known["n"] - known["initial"], known["elapsed"]
        # tqdm's rate is of the last updates; it has none before the second, and none when the bar is closed
        rate = known["rate"] or (done / elapsed if elapsed else 0.0)
        return known | {"pace": pace(rate, known["unit"])}


_Bar.set_lock(threading.RLock())  # tqdm's own is shared by processes: one that is stopped would leave a semaphore behind


class _Lines(_Bar):
    """A progress bar in whole lines. Work that ends before the first line is due prints nothing."""

    @property
    def format_dict(self) -> dict[str, Any]:
        return super().format_dict | {"ncols": None}  # a width of zero would cut them

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        print(str(self), file=self.fp, flush=True)
        return False

    def clear(self, nolock: bool = False) -> None:
        """Do nothing: printed lines stay."""


def pace(rate: float, unit: str) -> str:
    """The rate as text. rate: per second. unit: a plural."""
    if not rate:
        return f"? s per {unit[:-1]}"
    return f"{rate:.3g} {unit} per s" if rate > 1 else f"{1 / rate:.3g} s per {unit[:-1]}"


def progress(total: int, done: int, label: str, unit: str, left: bool = True) -> Any:
    """A bar to use in a `with` statement; call `update(n)` on it. unit: the counted items, a plural such as "steps".

    left: whether to show the time left; not sensible if more work follows than is counted.
    """
    counted = {"total": total, "initial": done, "desc": label, "unit": unit}
    if columns():
        return _Bar(
            **counted,
            bar_format=_FORMAT if left else _FORMAT.replace("<{remaining}", ""),
            smoothing=0.05,
            mininterval=0.2,
            maxinterval=10.0,
            dynamic_ncols=True,
        )
    return _Lines(
        **counted,
        bar_format=_LINE if left else _LINE.replace(", {remaining} left", ""),
        smoothing=0.05,
        mininterval=_APART,
        maxinterval=_APART,
        delay=_APART,
        leave=False,
        disable=sys.stderr is None,  # closed, in a program that is not our command
    )


def columns() -> int:
    """The width of the terminal on standard error; 0 if it is not a terminal, or its width is unknown."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("COLUMNS") == "0":
        return 0
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 0
