"""`sgjepa doctor`: what this machine has and what is missing."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from sgjepa.cli import shared

ABOUT = "what this machine has and what is missing"
EXAMPLE = "sgjepa doctor --json doctor.json"
FIXES = ("opengl", "browser", "conventional")


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    shared.json_flag(parser, "also write the report as JSON; without FILE, print that alone")
    parser.add_argument(
        "--fix",
        nargs="*",
        choices=FIXES,
        metavar="WHAT",
        help="install what is missing, where root or sudo allows: opengl (default), "
        "browser (chromium, with which the tests open a report), or conventional (model files of reacher and cube, by pip)",
    )


def run(options: Namespace) -> None:
    """Install what was asked for, then report."""
    shared.check_json(options.json)
    from sgjepa.cli import examination, install

    if options.fix is not None:
        fixes = (install.install_opengl, install.install_browser, install.install_conventional)
        for name in options.fix or ["opengl"]:
            fixes[FIXES.index(name)]()
    found = examination.examine()
    shared.print_or_write(options.json, found, examination.as_text(found))
