"""Who is still running, for tests that kill."""

from __future__ import annotations

import time
from pathlib import Path

from sgjepa.core import processes


def group(number: int) -> list[str]:
    """Command lines of the living processes of a group: what `start_new_session` started, and all that it started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, of = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:3]
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # it ended meanwhile
                continue
            if int(of) == number and state != "Z":
                found.append(line)
    return found


def wait_for_the_end_of(number: int, seconds: float = processes._GRACE + 120) -> None:
    """Of a group whose first process was killed: its workers must end by themselves."""
    deadline = time.monotonic() + seconds
    while left := group(number):
        assert time.monotonic() < deadline, f"they outlived their parent: {left}"
        time.sleep(0.1)
