"""Exceptions whose messages users read, and libraries' exceptions in the same form: one line that says what was wrong."""

from __future__ import annotations

import difflib
import errno
import importlib.util
import re
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input. The command line prints the message as one line and exits with 3."""


class MachineError(InputError):
    """A failure of the machine, not of the input: disk, memory, a device or a package. The command line exits with 4."""


def unknown(kind: str, name: object, choices: Iterable[str]) -> InputError:
    """The error for a name that is not in a registry, with the nearest one that is."""
    names = list(choices)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return InputError(f"unknown {kind} '{name}'{hint}; choose from {', '.join(names)}")


def one_line(text: object, limit: int = 300) -> str:
    """A library's message squeezed to one line, for use inside another message."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def need_torch() -> None:
    """Raise an InputError if torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise MachineError("world models need torch: pip install 'sgjepa[train]'")


def need_matplotlib() -> None:
    """Raise an InputError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MachineError("figures are drawn with matplotlib: pip install 'sgjepa[report]'")


AGAIN = "fix it and run the same command again"
_A_WRONG_PATH = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
_A_WRONG_NAME = (errno.ENAMETOOLONG, errno.ELOOP)
# libraries' messages, each in an exception of its own, when the machine has no more of something
_MEMORY = re.compile(r"out of memory|can(no|')t allocate memory|failed to allocate|bad_alloc", re.IGNORECASE)
_MACHINE = re.compile(
    r"no space left|disk quota|input/output error|read-only file system|permission denied|too many open files"
    r"|can't start new thread|unable to mmap|CUDA error|CUDA driver|no CUDA|no NVIDIA|cuDNN|NCCL|os error \d+",
    re.IGNORECASE,
)
_HIDDEN = re.compile(r"(?<![^/])\.(?=[^/]+\.[0-9a-f]{12}\.tmp$)|(\.[\w-]+\.\d+)?\.[0-9a-f]{12}\.tmp$")


def expected(error: BaseException) -> InputError | None:
    """An exception as an InputError or MachineError; None for an unexpected one, which is a bug of this package."""
    if isinstance(error, InputError):
        return error
    kind, text = f"{type(error).__module__}.{type(error).__name__}", str(error)
    if kind.endswith(".BrokenProcessPool"):
        return MachineError("a worker process was killed (out of memory?); run the same command again to go on")
    if isinstance(error, MemoryError) or kind.endswith(".OutOfMemoryError") or _MEMORY.search(text):
        return MachineError(f"out of memory ({one_line(error, 160) or kind}); free some, or ask for less at a time")
    if isinstance(error, OSError):
        return _of_the_disk(error)
    if isinstance(error, ImportError):
        return _of_a_package(error)
    if _MACHINE.search(text):
        return MachineError(f"{one_line(error)}; {AGAIN}")
    if kind.startswith("pyarrow.") or "SafetensorError" in kind or text.startswith("LanceError"):
        return InputError(f"a file cannot be read or written ({one_line(error)})")
    return expected(error.__cause__) if error.__cause__ is not None else None


def _of_the_disk(error: OSError) -> InputError:
    reason = one_line(error.strerror or error)
    # the file that was meant, not the hidden one beside it that is written first
    file = f": {_HIDDEN.sub('', str(error.filename))}" if error.filename else ""
    no_picture = type(error).__name__ == "UnidentifiedImageError"
    wrong = isinstance(error, _A_WRONG_PATH) or error.errno in _A_WRONG_NAME or no_picture
    return (InputError if wrong else MachineError)(f"{reason}{file}; {AGAIN}")


def _of_a_package(error: ImportError) -> InputError | None:
    """The error for a package that is absent or broken; None for a module of this package, which is a bug."""
    if (error.name or "sgjepa").split(".")[0] == "sgjepa":
        return None
    return MachineError(f"the package {error.name} cannot be used ({one_line(error, 160)}); see `sgjepa doctor`")
