"""The table of claims: the paper's numbers, the measured numbers, and the command of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sgjepa.report.blocks import Table, Verdict
from sgjepa.report.words import fixed, join
from sgjepa.results.claims import CLAIMS, FAILS, HOLDS, MISSING, OPEN, ClaimsRecord, Measured, so_far

TITLE = "# What holds"
WHERE, MEASURED = "where, and what is measured", "measured (95 % interval)"
BRIEF = ("claim of the paper", HOLDS, FAILS, OPEN)
HEAD = ("claim of the paper", "the paper's number", WHERE, MEASURED, "trainings", "verdict", "command")
CAPTION = (
    "A claim holds where all of the interval lies on the side that the paper says, does not hold where all of it lies on "
    "the other, and is not decided otherwise, with fewer than three trainings, or where the test has no power."
)
Measurements = Mapping[str, Sequence[tuple[ClaimsRecord, Measured]]]


def number(row: Measured) -> str:
    """The mean with its interval, if it has one: "−0.12 m (−0.20 to −0.05)"."""
    ends = (row.interval.low, row.interval.high)
    width = ends[1] - ends[0]
    decimals = 1 if abs(row.interval.mean) >= 10 or width >= 10 else 2 if width >= 0.5 else 3
    while decimals < 4 and any(end != row.bound and abs(end - row.bound) < 0.5 * 10**-decimals for end in ends):
        decimals += 1  # an end close to the bound must not be rounded to it
    mean, low, high = (fixed(value, decimals) for value in (row.interval.mean, *ends))
    value_text = f"{mean}{f' {row.unit}' if row.unit else ''}"
    return f"{value_text} ({low} to {high})" if width > 0 else value_text


def rows(measured: Measurements) -> list[tuple[str, ...]]:
    """A row for each result of a claim, and for each claim without a result.

    Only the first row of a claim has its statement; each row has the paper's number for its world.
    """
    lines: list[tuple[str, ...]] = []
    for name, claim in CLAIMS.items():
        for index, (record, row) in enumerate(measured.get(name, ())):
            where = f"{row.where}, {record.size} size: {row.measured}"
            number_there = row.paper if row.paper.endswith(")") or not row.paper else f"here {row.paper}"
            paper = "; ".join(part for part in (number_there, claim.paper if index == 0 else "") if part)
            numbers = (number(row), str(row.seeds), so_far(row), f"`{record.command}`")
            lines.append((claim.statement if index == 0 else "", paper, where, *numbers))
        command = f"`sgjepa study {claim.study}`"
        if not measured.get(name):
            lines.append((claim.statement, claim.paper, "", "", "", MISSING, command))
        else:
            lines += [("", "", what, "", "", MISSING, command) for what in _missing(name, measured)]
    return lines


def _missing(name: str, measured: Measurements) -> list[str]:
    """The subjects of a claim without a result."""
    missing = CLAIMS[name].missing(f"{row.where}: {row.measured}" for _, row in measured[name])
    return [what.strip(", ") for what in missing]


def brief(measured: Measurements) -> list[tuple[str, ...]]:
    """A row for each claim: the worlds in which it holds, does not hold or is not decided, with numbers of results."""
    lines: list[tuple[str, ...]] = []
    for name, claim in CLAIMS.items():
        pairs = measured.get(name, ())
        counts = Counter((_world(record, row), row.verdict) for record, row in pairs)
        whole = Counter(_world(record, row) for record, row in pairs)
        cells = (
            ", ".join(f"{world} ({counts[world, verdict]} of {whole[world]})" for world in whole if counts[world, verdict])
            for verdict in (HOLDS, FAILS, OPEN)
        )
        if not pairs:
            lines.append((claim.statement, "", "", f"{MISSING}: `sgjepa study {claim.study}`"))
            continue
        holds, fails, open_ = cells
        not_run = f"{MISSING}: {', '.join(missing)}" if (missing := _missing(name, measured)) else ""
        lines.append((claim.statement, holds, fails, "; ".join(part for part in (open_, not_run) if part)))
    return lines


def _world(record: ClaimsRecord, row: Measured) -> str:
    """The world of a result, with its size if that is not mini."""
    return row.where.partition(",")[0] + ("" if record.size == "mini" else f" at {record.size} size")


def as_markdown(measured: Measurements) -> str:
    """The text of docs/claims.md."""
    short, body = _markdown(Table(BRIEF, brief(measured))), _markdown(Table(HEAD, rows(measured)))
    return "\n".join(
        [
            TITLE,
            "",
            "The claims of the paper, one of a replication, and what this code finds. Written by `sgjepa claims` from the",
            "files that the [studies](studies.md) write; nothing is typed by hand, and claims that do not hold or were not",
            "tested are listed, too.",
            "",
            tally(measured),
            "",
            CAPTION,
            "",
            "Little room: the simulator, started from the state that SG-JEPA's probe reads, is hardly better there than an",
            "object that stays put, so that the test has no power. At mini and small size DINO-WM uses MobileNetV2",
            "(ImageNet) instead of DINOv2. A number of the paper for another world names that world.",
            "",
            "## In short",
            "",
            "Worlds, with how many of their results (horizons, in and out of distribution) say so. Mini size by default.",
            "",
            *short,
            "",
            "## Every result",
            "",
            *body,
            "",
        ]
    )


def tally(measured: Measurements) -> str:
    """The numbers of results by verdict, in words."""
    counts = Counter(row.verdict for pairs in measured.values() for _, row in pairs)
    missing = sum(not measured.get(name) for name in CLAIMS)
    kinds = [f"{count} {'result' if count == 1 else 'results'} “{verdict}”" for verdict, count in sorted(counts.items())]
    kinds += [f"{missing} without a result"] if missing else []
    return f"{len(CLAIMS)} claims: {join(kinds)}."


def _markdown(table: Table) -> list[str]:
    """A table of texts as lines of Markdown."""
    lines = [table.columns, ("---",) * len(table.columns), *table.rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]  # type: ignore[union-attr]
    return [f"| {' | '.join(line)} |".replace("|  |", "| |").replace("|  |", "| |") for line in cells]


def claims_table(measured: Sequence[Measured]) -> Table | None:
    """The table of the paper's claims that an experiment tests; None if there are none."""
    rows = [
        (
            CLAIMS[row.claim].statement,
            row.paper or CLAIMS[row.claim].paper,
            f"{row.where}: {row.measured}",
            number(row),
            row.seeds,
            Verdict(row.verdict, so_far(row).removeprefix(row.verdict).strip()),
        )
        for row in measured
    ]
    head = ("claim", *HEAD[1:-1])
    return Table(head, rows, f"Claims of the paper. {CAPTION}", text=(0, 1, 2, 5)) if rows else None
