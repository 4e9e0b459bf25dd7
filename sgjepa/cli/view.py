"""`sgjepa view`: truth and imagination side by side in the browser."""

from __future__ import annotations

import importlib.util
import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path

from sgjepa.cli import shared
from sgjepa.core.errors import MachineError

ABOUT = "a page in the browser: move gravity with the hand, watch truth and imagination part"
EXAMPLE = "sgjepa view runs/square_gru-mini-seed0 runs/square_lewm-mini-seed0"
PORT = 8765


def flags(parser: ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders that `sgjepa train` made")
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help="0 for any that is free (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="only say where the page is")


def run(options: Namespace) -> None:
    """Serve until somebody stops it."""
    need_view()
    shared.prepare_for_torch()
    import torch

    from sgjepa.view.server import HOST, bind, serve
    from sgjepa.view.shown import open_shown
    from sgjepa.view.studio import Studio

    listening = bind(options.port)  # before models are loaded: a taken port is said at once
    with listening:
        torch.set_num_threads(1)  # one picture at a time: more threads wait for each other longer than they help
        studio = Studio(open_shown(options.runs))
        address = f"http://{HOST}:{listening.getsockname()[1]}"
        print(f"{address} (stop it with Ctrl-C)", flush=True)
        if not options.no_browser:
            webbrowser.open(address)
        serve(studio, listening)


def need_view() -> None:
    """One line if the server's packages are not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn", "websockets")):
        raise MachineError("the viewer needs a server: pip install 'sgjepa[view]'")
