"""The command line: one module per stage. Here are the table of stages, the parser, exit codes and signals."""

from __future__ import annotations

import argparse
import io
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol

from sgjepa import __version__
from sgjepa.cli import coverage, data, demo, describe, doctor, predict, preview, probe, report, study, train
from sgjepa.core.errors import InputError, one_line


class Stage(Protocol):
    """What a module of this package holds. It may also hold `names()`: lines for its help that take an import to compute."""

    ABOUT: str
    EXAMPLE: str

    def flags(self, parser: argparse.ArgumentParser, /) -> None:
        """Add what it takes to its parser."""

    def run(self, options: argparse.Namespace, /) -> None:
        """Do it."""


# in the order of use; the modules import what is heavy when they run, so that help and a wrong argument answer at once
STAGES: dict[str, Stage] = {
    "doctor": doctor,
    "demo": demo,
    "data": data,
    "preview": preview,
    "coverage": coverage,
    "describe": describe,
    "train": train,
    "probe": probe,
    "predict": predict,
    "report": report,
    "study": study,
}


class Parser(argparse.ArgumentParser):
    """One line for a wrong argument, and where to read more. The help of a stage ends with its names and an example."""

    stage: Stage | None = None

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"sgjepa: error: {one_line(message)} (see `{self.prog} --help`)\n")

    def format_help(self) -> str:
        if self.stage is not None:
            names = getattr(self.stage, "names", None)
            self.epilog = (names() + "\n\n" if names else "") + f"example: {self.stage.EXAMPLE}"
        return super().format_help()


def parser() -> Parser:
    """The whole command line."""
    top = Parser(
        prog="sgjepa",
        description="World models under changing laws of physics. The stages, in the order of use:",
        epilog="example: sgjepa data square --size mini && sgjepa preview datasets/square-mini",
    )
    top.add_argument("--version", action="version", version=f"sgjepa {__version__}")
    stages = top.add_subparsers(title="stages", metavar="STAGE", required=True)
    for name, stage in STAGES.items():
        about = stage.ABOUT
        added = stages.add_parser(name, help=about, description=about, formatter_class=argparse.RawTextHelpFormatter)
        added.stage = stage
        stage.flags(added)
        added.set_defaults(run=stage.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for bad input, 130 when interrupted."""
    options = parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        options.run(options)
    except InputError as error:
        return _fail(str(error))
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stdout = None
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        return _fail(one_line(error.strerror or error) + place + "; mend it and run the same command again")
    except KeyboardInterrupt:
        print("\nsgjepa: stopped; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _fail(message: str) -> int:
    print(f"sgjepa: error: {message}", file=sys.stderr)
    return 2
