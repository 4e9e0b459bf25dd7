"""Any terminal: streams that are closed, full or broken, or that lack a character."""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys


def prepare() -> None:
    """Give every standard stream something to write to, and a question mark for what it cannot show."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed by the shell; the next file opened would get its number, and other people's messages
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for the rest of the process
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(line: str) -> None:
    """To standard error, below an unfinished progress bar or a "^C"; nothing happens where nobody can read it."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # Python would try again at the very end, and complain
        abandon(1)
    with contextlib.suppress(OSError, ValueError):
        print(("\n" if sys.stderr.isatty() else "") + line, file=sys.stderr, flush=True)


def has_reader() -> bool:
    """Whether somebody still reads our standard output and standard error."""
    asked = select.poll()
    for number in (1, 2):
        asked.register(number, 0)
    return not any(event & select.POLLERR for _, event in asked.poll(0))


def abandon(*streams: int) -> None:
    """Let what is left to say go nowhere. streams: 1 for standard output, 2 for standard error"""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in streams:
        os.dup2(nowhere, number)
    os.close(nowhere)


def shows(text: str) -> bool:
    """Whether standard output has these characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
