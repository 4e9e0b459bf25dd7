"""`sgjepa claims`: verdicts on the paper's claims, from results on disk."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

ABOUT = "write the table of the paper's claims, with this package's numbers and verdicts, from the results of studies"
EXAMPLE = "sgjepa claims --results studies docs/results/claims"
RESULTS = (Path("studies"), Path("docs/results/claims"))
OUT = Path("docs/claims.md")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    defaults = " ".join(map(str, RESULTS))
    parser.add_argument(
        "--results",
        type=Path,
        nargs="+",
        metavar="DIR",
        help=f"folders of studies, or of kept claims.json files (default: the existing ones of {defaults})",
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help="the table (default: %(default)s)")


def run(options: Namespace) -> None:
    """Write the table, and print the number of claims that hold."""
    from sgjepa.core import files
    from sgjepa.core.errors import InputError
    from sgjepa.report.claims import TITLE, as_markdown, tally
    from sgjepa.results.claims import best, read_claims

    if options.out.is_symlink():
        raise InputError(f"{options.out} is a link; choose another --out or move it away")
    if options.out.exists() and not options.out.read_bytes().startswith(TITLE.encode()):
        raise InputError(f"{options.out} was not written by `sgjepa claims`; choose another --out or move it away")
    folders = options.results or [folder for folder in RESULTS if folder.is_dir()]
    claims = best(read_claims(folders))
    if options.results and not any(claims.values()):
        where = ", ".join(map(str, folders))
        raise InputError(f"no study's claims lie in {where} (STUDY-SIZE/report/claims.json); nothing was written")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(options.out, as_markdown(claims).encode())
    print(tally(claims))
    print(options.out)
