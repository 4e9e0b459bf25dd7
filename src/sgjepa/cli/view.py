"""`sgjepa view`: a page in the browser with a simulation next to rollouts of models, or policies that act."""

from __future__ import annotations

import importlib.util
import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path

from sgjepa.cli import arguments
from sgjepa.core import interrupts
from sgjepa.core.errors import InputError, MachineError

ABOUT = "interactive viewer: change gravity, compare simulation with model rollouts or watch a policy"
EXAMPLE = "sgjepa view zoo:approach_ball_sg_jepa zoo:approach_ball_lewm"
PORT = 8765


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="folders of `sgjepa train` or `sgjepa train-policy`, or zoo:NAME (default: all that come with the package)",
    )
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help="0 for any that is free (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address of the page")
    parser.add_argument(
        "--export", type=Path, metavar="DIR", help="write a page that needs no server: a grid of laws and launches"
    )
    parser.add_argument("--laws", type=int, metavar="N", help="with --export: values of each law (default: 9)")
    parser.add_argument("--seeds", type=int, metavar="N", help="with --export: launches (default: 3)")


def run(options: Namespace) -> None:
    """Serve until interrupted, or export the page."""
    if options.export is None and (options.laws is not None or options.seeds is not None):
        raise InputError("--laws and --seeds need --export DIR; add --export DIR")
    arguments.prepare_for_torch()
    try:
        if options.export is None:
            _serve(options)
        else:
            _export(options)
    except KeyboardInterrupt as stop:
        raise interrupts.Closed("the viewer is closed" if options.export is None else "the export is stopped") from stop


def _serve(options: Namespace) -> None:
    require_server()
    from sgjepa.view.server import HOST, bind, serve
    from sgjepa.view.viewer import open_viewer

    with bind(options.port) as listening:  # before models are loaded: a port in use is reported at once
        viewer = open_viewer(_folders(options.runs))
        address = f"http://{HOST}:{listening.getsockname()[1]}"
        print(f"{address} (stop it with Ctrl-C)", flush=True)
        if not options.no_browser:
            webbrowser.open(address)
        serve(viewer, listening)


def _export(options: Namespace) -> None:
    from sgjepa.view.export import Grid, export
    from sgjepa.view.viewer import open_viewer

    grid = Grid(**{name: value for name in ("laws", "seeds") if (value := getattr(options, name)) is not None})
    viewer = open_viewer(_folders(options.runs))
    try:
        print(export(viewer, options.export, grid))
    finally:
        viewer.close()


def _folders(runs: list[str]) -> list[Path]:
    """The folders of the models and policies. They are only read, so models of the package are not copied."""
    from sgjepa import zoo

    return [zoo.folder_to_read(text) for text in runs] or [zoo.folder_of(name) for name in zoo.names()]


def require_server() -> None:
    """Refuse to start without the server's packages; an export needs none of them."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn", "websockets")):
        raise MachineError("the viewer needs a server: pip install 'sgjepa[view]'")
