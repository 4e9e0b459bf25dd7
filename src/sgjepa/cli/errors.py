"""Errors and exit codes of commands, in any terminal: streams that are closed, full or broken, or that lack a character."""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import shlex
import sys
import tempfile
import traceback
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from sgjepa import __version__
from sgjepa.core import errors, interrupts, run_folder
from sgjepa.core.errors import InputError, MachineError, one_line


def prepare_streams() -> None:
    """Make every standard stream writable; characters that it cannot show become question marks."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed by the shell; the next opened file would get its number, and the stream's messages
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for the rest of the process
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_error(line: str) -> None:
    """Print to standard error, below an unfinished progress bar or a "^C"; a closed stream is ignored."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # Python would try again at the very end, and complain
        discard_output(1)
    with contextlib.suppress(OSError, ValueError):
        print(("\n" if sys.stderr.isatty() else "") + line, file=sys.stderr, flush=True)


def has_reader() -> bool:
    """Whether standard output and standard error still have a reader."""
    poll = select.poll()
    for number in (1, 2):
        poll.register(number, 0)
    return not any(event & select.POLLERR for _, event in poll.poll(0))


def discard_output(*streams: int) -> None:
    """Redirect streams to the null device. streams: 1 for standard output, 2 for standard error"""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in streams:
        os.dup2(nowhere, number)
    os.close(nowhere)


def can_print(text: str) -> bool:
    """Whether standard output can encode these characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


BUG, USAGE, INPUT, MACHINE = 1, 2, 3, 4  # and 130, when interrupted
LOG = "sgjepa-error.log"


def report_error(error: BaseException, options: Namespace | None) -> int:
    """Print an error and return the exit code. options: the parsed options, None if parsing failed."""
    if isinstance(error, KeyboardInterrupt) or interrupts.came():
        words = str(error) if isinstance(error, KeyboardInterrupt) else ""  # a command may add which results are safe
        again = "" if isinstance(error, interrupts.Closed) else f"; {interrupts.AGAIN}"
        print_error(f"sgjepa: {words or 'stopped'}{again}")
        return interrupts.CODE
    if isinstance(error, BrokenPipeError) and not has_reader():  # the reader of the pipe has closed it
        discard_output(1, 2)
        return 0
    known = errors.expected(error)
    if known is error:
        print_error(f"sgjepa: error: {_by_flag(' '.join(str(error).splitlines()), options)}")
    else:
        log = _keep(error, options)
        message = one_line(
            known or f"a bug in sgjepa ({type(error).__name__}: {one_line(error, 160)}); please report it", 600
        )
        with_log = ", with" if known is None else "; the whole story:"
        print_error(f"sgjepa: error: {message}" + (f"{with_log} {log}" if log else ""))
    return exit_code(known)


def _by_flag(message: str, options: Namespace | None) -> str:
    """The message with a setting named by its flag: "--epochs must be at least 1, got 0" instead of "Train.epochs"."""
    match = re.fullmatch(r"[A-Z]\w*\.(\w+) (must be .*, got (\S+))", message)
    if match is None or str(getattr(options, match[1], None)) != match[3]:
        return message
    return f"--{match[1].replace('_', '-')} {match[2]}"


def exit_code(known: InputError | None) -> int:
    """The exit code of an error: input, machine or bug."""
    return BUG if known is None else MACHINE if isinstance(known, MachineError) else INPUT


def _keep(error: BaseException, options: Namespace | None) -> Path | None:
    """Add the traceback to the log of the run, of this folder or of the machine; returns the first that takes it."""
    head = f"--- {datetime.now(UTC).isoformat(timespec='seconds')}, sgjepa {__version__}: {shlex.join(sys.argv)}\n"
    content = (head + "".join(traceback.format_exception(error))).encode("utf-8", "backslashreplace")
    folders = (getattr(options, name, None) for name in ("run_folder", "out"))
    # no log in folders other than a run's: an empty one would then be refused as foreign
    runs = [folder / LOG for folder in folders if folder is not None and run_folder.is_run(folder)]
    return next((path for path in [*runs, Path(LOG)] if _appended(path, content)), None) or _temporary(content)


def _appended(path: Path, content: bytes) -> bool:
    """Append to a log; returns whether all of the content was written. An empty or torn log is removed."""
    try:
        before = path.stat().st_size if path.exists() else None
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with io.FileIO(handle, "ab") as file:
            try:
                whole = file.write(content) == len(content)
            except OSError:
                whole = False
            if not whole and before is not None:
                file.truncate(before)
        if not whole and before is None:
            path.unlink()
    except OSError:
        return False
    return whole


def _temporary(content: bytes) -> Path | None:
    """Write the content to a new temporary file that no other user can have created; None if that fails."""
    try:
        handle, name = tempfile.mkstemp(prefix="sgjepa-error-", suffix=".log")
    except OSError:
        return None
    os.close(handle)
    if _appended(Path(name), content):
        return Path(name)
    Path(name).unlink()
    return None
