"""Handling of Ctrl-C and SIGTERM at any moment: one line and exit code 130.

The module imports next to nothing, so that a command can install its handlers first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

CODE = 130
AGAIN = "run the same command again to go on"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_came = False


class Closed(KeyboardInterrupt):
    """Raised when a command without resumable work was stopped; its text is all that is printed."""


def came() -> bool:
    """Whether a signal came since `caught` began; a failure after it is due to it."""
    return _came


def catch() -> None:
    """Turn signals into a KeyboardInterrupt, or, inside an import, into an exit. Ignored signals (nohup, &) stay ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def leave() -> None:
    """Restore the default handlers at exit: a further Ctrl-C ends the process at once, without a traceback."""
    for number in _SIGNALS:
        if signal.getsignal(number) is _handle:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def caught() -> Iterator[None]:
    """Handle signals as `catch` does while the block lasts; a no-op outside of the main thread."""
    global _came
    _came = False
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        with contextlib.suppress(ValueError):
            catch()
        yield
    finally:
        with contextlib.suppress(ValueError, TypeError):
            for number, handler in before.items():
                signal.signal(number, handler)


def say() -> None:
    """Write the line straight to file descriptor 2: Python's own streams may be in use."""
    with contextlib.suppress(OSError):
        os.write(2, ("\n" * os.isatty(2) + f"sgjepa: stopped; {AGAIN}\n").encode())


def _handle(_: int, frame: FrameType | None) -> None:
    global _came
    if _importing(frame) and not _children():
        # libraries in the middle of their import turn the exception into tracebacks of their own; and a command may be
        # killed at any moment, so nothing is lost
        say()
        os._exit(CODE)
    _came = True
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _children() -> bool:
    """Whether child processes run, which would outlive this one."""
    processes = sys.modules.get("multiprocessing")
    return bool(processes and processes.active_children())
