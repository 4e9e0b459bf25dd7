"""Ctrl-C and SIGTERM at any moment: one line and exit code 130.

The module imports next to nothing, so that it can be the first thing that the command does.
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
    """A command was stopped that has nothing to go on with. Its text is all that is printed."""


def came() -> bool:
    """Whether a signal came since `caught` began: what fails after it fails because of it."""
    return _came


def catch() -> None:
    """From now on a signal is a KeyboardInterrupt, or, inside an import, the end. What is ignored (nohup, &) stays so."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def leave() -> None:
    """When all is said: a further Ctrl-C ends the process at once, without a traceback from Python's own clearing up."""
    for number in _SIGNALS:
        if signal.getsignal(number) is _handle:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def caught() -> Iterator[None]:
    """`catch` for a while. Elsewhere than in the main thread signals are not ours to handle."""
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
    """The line, past Python's own streams, which may be in use."""
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
    """Whether processes of ours run, which would outlive us."""
    processes = sys.modules.get("multiprocessing")
    return bool(processes and processes.active_children())
