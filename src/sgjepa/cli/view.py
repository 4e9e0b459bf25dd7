"""`sgjepa view`: truth and imagination side by side in the browser, or a policy that drives."""

from __future__ import annotations

import importlib.util
import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path

from sgjepa.cli import arguments
from sgjepa.core.errors import InputError, MachineError

ABOUT = "a page in the browser: move gravity with the hand, watch truth and imagination part, or a policy drive"
EXAMPLE = "sgjepa view zoo:approach_ball_sg_jepa zoo:approach_ball_lewm"
PORT = 8765
CLOSED = "the viewer is closed"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="folders of `sgjepa train` or `sgjepa train-policy`, or zoo:NAME (default: all that come with the package)",
    )
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help="0 for any that is free (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="only say where the page is")
    parser.add_argument(
        "--export", type=Path, metavar="DIR", help="write a page that needs no server: a grid of laws and launches"
    )
    parser.add_argument("--laws", type=int, metavar="N", help="of an export: values of each law (default: 9)")
    parser.add_argument("--seeds", type=int, metavar="N", help="of an export: launches (default: 3)")


def run(options: Namespace) -> None:
    """Serve until somebody stops it, or write the page."""
    if options.export is None and (options.laws is not None or options.seeds is not None):
        raise InputError("--laws and --seeds are of an export; add --export DIR")
    arguments.prepare_for_torch()
    if options.export is None:
        _serve(options)
    else:
        _export(options)


def _serve(options: Namespace) -> None:
    require_server()
    from sgjepa.view.opened import open_page
    from sgjepa.view.server import HOST, bind, serve

    with bind(options.port) as listening:  # before models are loaded: a taken port is said at once
        page = open_page(_folders(options.runs))
        address = f"http://{HOST}:{listening.getsockname()[1]}"
        print(f"{address} (stop it with Ctrl-C)", flush=True)
        if not options.no_browser:
            webbrowser.open(address)
        try:
            serve(page, listening)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(CLOSED) from stop


def _export(options: Namespace) -> None:
    from sgjepa.view.export import Grid, export
    from sgjepa.view.opened import open_page

    asked = {name: value for name in ("laws", "seeds") if (value := getattr(options, name)) is not None}
    grid = Grid(**asked)
    page = open_page(_folders(options.runs))
    try:
        print(export(page, options.export, grid))
    finally:
        page.close()


def _folders(runs: list[str]) -> list[Path]:
    """Of what is shown. Nothing is written there, so models of the package are used where they lie."""
    from sgjepa import zoo

    named = runs or [f"{zoo.PREFIX}{name}" for name in zoo.names()]
    return [zoo.folder_of(text.removeprefix(zoo.PREFIX)) if text.startswith(zoo.PREFIX) else Path(text) for text in named]


def require_server() -> None:
    """One line if the server's packages are not installed; an export needs none of them."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn", "websockets")):
        raise MachineError("the viewer needs a server: pip install 'sgjepa[view]'")
