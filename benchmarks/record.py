"""What every benchmark shares: where its result goes, and what stands in the file beside the numbers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sgjepa.core import files
from sgjepa.core.provenance import provenance


def parser(about: str | None, file: str) -> argparse.ArgumentParser:
    """A benchmark's own parser, with `--out`; by default `results/NAME.json` beside the benchmark's file."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    place = Path(file)
    made.add_argument("--out", type=Path, default=place.parent / "results" / f"{place.stem}.json", help="the results file")
    return made


def settings(options: argparse.Namespace, *hidden: str) -> dict[str, Any]:
    """What was asked for, without where it goes."""
    return {key: value for key, value in vars(options).items() if key not in ("out", *hidden)}


def write(out: Path, asked: dict[str, Any], result: dict[str, Any]) -> None:
    """The result with its settings and where it came from."""
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(out, {**result, "settings": asked, "provenance": provenance()})
    print(f"written to {out}")
