"""The command line: one module per command. This one holds the table of commands, the parser and the entry point."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from sgjepa import __version__
from sgjepa.cli import (
    claims,
    coverage,
    data,
    demo,
    describe,
    doctor,
    errors,
    evaluate,
    evaluate_policy,
    preview,
    report,
    study,
    suggestions,
    train,
    train_policy,
    view,
    zoo,
)
from sgjepa.core import interrupts
from sgjepa.core.errors import one_line
from sgjepa.core.registry import import_plugins


class Command(Protocol):
    """The interface of a command's module. It may also have `names()`: lines for its help that take an import to compute."""

    ABOUT: str
    EXAMPLE: str

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None:
        """Add the command's arguments."""

    def run(self, options: argparse.Namespace, /) -> None:
        """Run the command."""


# in the order of use; the modules import heavy packages when they run, so that help and a wrong argument answer at once
COMMANDS: dict[str, Command] = {
    "doctor": doctor,
    "demo": demo,
    "data": data,
    "preview": preview,
    "coverage": coverage,
    "describe": describe,
    "train": train,
    "evaluate": evaluate,
    "train-policy": train_policy,
    "evaluate-policy": evaluate_policy,
    "report": report,
    "view": view,
    "study": study,
    "claims": claims,
    "zoo": zoo,
}


_NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|-(inf|nan)$", re.IGNORECASE)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line with a pointer to the help; a command's help ends with its names and an example."""

    command: Command | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = _NEGATIVE  # argparse's own takes -1e-3 for a flag

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Report the arguments that this command does not have: argparse would leave that to the whole program's help."""
        self._words: Sequence[str] = args or ()
        parsed, extra = super().parse_known_args(args, namespace)
        if extra and self.command is not None:
            self.error(self._unknown(extra))
        return parsed, extra

    def _unknown(self, extra: Sequence[str]) -> str:
        name = self.prog.rpartition(" ")[2]
        return suggestions.describe_unknown_flags(name, extra, self._words, list(self._option_string_actions))

    def _foreign(self) -> list[str]:
        """Flags on the command line that this command does not have."""
        flags = (word.partition("=")[0] for word in self._words if word.startswith("--"))
        return [flag for flag in flags if not any(own.startswith(flag) for own in self._option_string_actions)]

    def error(self, message: str) -> NoReturn:
        if self.command is not None and message.startswith("the following arguments are required") and self._foreign():
            message = self._unknown(self._foreign())  # the actual error, not the missing word that the flag swallowed
        self.exit(errors.USAGE, f"sgjepa: error: {one_line(message)} (see `{self.prog} --help`)\n")

    def format_help(self) -> str:
        if self.command is not None:
            names = getattr(self.command, "names", None)
            self.epilog = (names() + "\n\n" if names else "") + f"example: {self.command.EXAMPLE}"
        return super().format_help()


def parser() -> Parser:
    """The parser of the whole command line."""
    top = Parser(
        prog="sgjepa",
        description="World models under changing laws of physics. The commands, in the order of use:",
        epilog="example: sgjepa data square --size mini && sgjepa preview datasets/square-mini",
    )
    top.add_argument("--version", action="version", version=f"sgjepa {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        about = command.ABOUT
        added = commands.add_parser(
            name, help=about, description=about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        added.command = command
        command.add_arguments(added)
        added.add_argument(
            "--import",
            dest="plugins",
            action="append",
            default=[],
            metavar="MODULE",
            help="import this module first: it registers worlds, laws, models or policies of your own (repeatable)",
        )
        added.set_defaults(run=command.run, command=name)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, one of cli/errors.py, or 130. Help and wrong usage exit as in argparse."""
    errors.prepare_streams()
    options = None
    with interrupts.caught():
        try:
            options = parser().parse_args(arguments)
            import_plugins(options.plugins)
            options.run(options)
            sys.stdout.flush()  # a full disk behind it is detected here, not at Python's exit
        except SystemExit:
            raise
        except BaseException as error:
            return errors.report_error(suggestions.suggest_name(error, options), options)
    return 0
