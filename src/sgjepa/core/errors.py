"""The exceptions a user is meant to read: a single line that says what was wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input. The command line prints the message as one line and exits with 3."""


class MachineError(InputError):
    """The input is fine and the machine is not: its disk, memory, a device or a package. The command line exits with 4."""


def unknown(kind: str, name: object, choices: Iterable[str]) -> InputError:
    """The error for a name that is not in a registry, with the nearest one that is."""
    names = list(choices)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return InputError(f"unknown {kind} '{name}'{hint}; choose from {', '.join(names)}")


def one_line(text: object, limit: int = 300) -> str:
    """A library's message squeezed to one line, for use inside ours."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
