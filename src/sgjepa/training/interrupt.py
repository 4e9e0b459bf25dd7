"""Ctrl-C and SIGTERM during training: noted at once, obeyed at the end of the update, so that it can be saved first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Stop:
    """Whether somebody asked the training to stop."""

    asked: bool = False


@contextmanager
def at_the_end_of_an_update() -> Iterator[Stop]:
    """Notes either signal; a second Ctrl-C interrupts at once, for someone who will not wait. Afterwards all is as before.

    Only the main thread may handle signals: elsewhere nothing changes.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, _frame: object) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.asked = True

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]  # what is ignored (nohup) stays so
    for number in heard:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number in heard:
            signal.signal(number, before[number] or signal.SIG_DFL)
