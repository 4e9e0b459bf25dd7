"""The command line: one module per stage. Here are the table of stages, the parser, and what becomes of a failure."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from sgjepa import __version__
from sgjepa.cli import (
    claims,
    control,
    coverage,
    data,
    demo,
    describe,
    doctor,
    faults,
    plan,
    policy,
    predict,
    preview,
    probe,
    report,
    study,
    terminal,
    train,
    view,
    wishes,
    zoo,
)
from sgjepa.core import interrupts
from sgjepa.core.errors import one_line
from sgjepa.core.registry import import_plugins


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
    "policy": policy,
    "control": control,
    "plan": plan,
    "report": report,
    "view": view,
    "study": study,
    "claims": claims,
    "zoo": zoo,
}


_NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|-(inf|nan)$", re.IGNORECASE)


class Parser(argparse.ArgumentParser):
    """One line for a wrong argument, and where to read more. The help of a stage ends with its names and an example."""

    stage: Stage | None = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._negative_number_matcher = _NEGATIVE  # argparse's own takes -1e-3 for a flag

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """A stage says itself what it does not know: argparse would leave that to the whole command, and its help."""
        self._words: Sequence[str] = args or ()
        found, extra = super().parse_known_args(args, namespace)
        if extra and self.stage is not None:
            self.error(self._unknown(extra))
        return found, extra

    def _unknown(self, extra: Sequence[str]) -> str:
        return wishes.unknown_flags(self.prog.rpartition(" ")[2], extra, self._words, list(self._option_string_actions))

    def _foreign(self) -> list[str]:
        """Flags that it was given and does not have."""
        flags = (word.partition("=")[0] for word in self._words if word.startswith("--"))
        return [flag for flag in flags if not any(own.startswith(flag) for own in self._option_string_actions)]

    def error(self, message: str) -> NoReturn:
        if self.stage is not None and message.startswith("the following arguments are required") and self._foreign():
            message = self._unknown(self._foreign())  # that is what is wrong, not the word that it swallowed
        self.exit(faults.USAGE, f"sgjepa: error: {one_line(message)} (see `{self.prog} --help`)\n")

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
        added = stages.add_parser(name, help=about, description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        added.stage = stage
        stage.flags(added)
        added.add_argument(
            "--import",
            dest="plugins",
            action="append",
            default=[],
            metavar="MODULE",
            help="import this module first: it registers worlds, laws, models or policies of your own (repeatable)",
        )
        added.set_defaults(run=stage.run, stage=name)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, one of cli/faults.py, or 130. Help and wrong usage leave as argparse does."""
    terminal.prepare()
    options = None
    with interrupts.caught():
        try:
            options = parser().parse_args(arguments)
            import_plugins(options.plugins)
            options.run(options)
            sys.stdout.flush()  # a full disk behind it is found here, not when Python has gone
        except SystemExit:
            raise
        except BaseException as error:
            return faults.answer(wishes.instead(error, options), options)
    return 0
