"""`sgjepa preview`: write pictures of a dataset."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

ABOUT = "write a contact sheet (PNG) and a short video of a dataset"
EXAMPLE = "sgjepa preview datasets/square-mini"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("dataset", type=Path, help="folder that `sgjepa data` made")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the pictures go (default: DATASET/preview)")
    parser.add_argument("--video", default="webp", metavar="FORMAT", help="webp (default) or mp4 (needs the extra `video`)")
    parser.add_argument("--rows", type=int, default=5, metavar="N", help="how many laws to show (default: %(default)s)")


def run(options: Namespace) -> None:
    """Write the pictures and print their paths."""
    from sgjepa.data.preview import preview
    from sgjepa.data.store import open_dataset

    out = options.out or options.dataset / "preview"
    for path in preview(open_dataset(options.dataset), out, options.video, options.rows):
        print(path)
