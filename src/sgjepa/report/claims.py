"""The table of claims: what the paper says, what our results say, and the command that made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sgjepa.report.blocks import Table, Verdict
from sgjepa.report.words import fixed, join
from sgjepa.results.claims import CLAIMS, FAILS, HOLDS, MISSING, OPEN, ClaimsRecord, Measured, so_far

TITLE = "# What holds"
PLACE, OURS = "where, and what is measured", "ours (95 % interval)"
BRIEF = ("claim of the paper", HOLDS, FAILS, OPEN)
HEAD = ("claim of the paper", "the paper's number", PLACE, OURS, "trainings", "verdict", "command")
CAPTION = (
    "A claim holds where all of the interval lies on the side that the paper says, does not hold where all of it lies on "
    "the other, and is not decided otherwise, with fewer than three trainings, or where nobody could tell."
)
Measurements = Mapping[str, Sequence[tuple[ClaimsRecord, Measured]]]


def number(one: Measured) -> str:
    """The mean with its interval: "−0.12 m (−0.20 to −0.05)"; a single training of a number has none."""
    ends = (one.interval.low, one.interval.high)
    width = ends[1] - ends[0]
    decimals = 1 if abs(one.interval.mean) >= 10 or width >= 10 else 2 if width >= 0.5 else 3
    while decimals < 4 and any(end != one.bound and abs(end - one.bound) < 0.5 * 10**-decimals for end in ends):
        decimals += 1  # an end beside the bound must not look as if it lay on it
    mean, low, high = (fixed(value, decimals) for value in (one.interval.mean, *ends))
    named = f"{mean}{f' {one.unit}' if one.unit else ''}"
    return f"{named} ({low} to {high})" if width > 0 else named


def rows(measured: Measurements) -> list[tuple[str, ...]]:
    """A line for each claim and world; a claim without a result has one too.

    A claim is named in its first line alone; the paper's number for the very world stands in each.
    """
    lines: list[tuple[str, ...]] = []
    for name, claim in CLAIMS.items():
        for index, (record, one) in enumerate(measured.get(name, ())):
            where = f"{one.where}, {record.size} size: {one.measured}"
            here = one.paper if one.paper.endswith(")") or not one.paper else f"here {one.paper}"
            paper = "; ".join(part for part in (here, claim.paper if index == 0 else "") if part)
            numbers = (number(one), str(one.seeds), so_far(one), f"`{record.command}`")
            lines.append((claim.statement if index == 0 else "", paper, where, *numbers))
        command = f"`sgjepa study {claim.study}`"
        if not measured.get(name):
            lines.append((claim.statement, claim.paper, "", "", "", MISSING, command))
        else:
            lines += [("", "", what, "", "", MISSING, command) for what in _missing(name, measured)]
    return lines


def _missing(name: str, measured: Measurements) -> list[str]:
    """What the paper has a claim of and we have not, though we have others."""
    missing = CLAIMS[name].missing(f"{one.where}: {one.measured}" for _, one in measured[name])
    return [what.strip(", ") for what in missing]


def brief(measured: Measurements) -> list[tuple[str, ...]]:
    """A line for each claim: in which worlds it holds, does not, or is not decided, by how many of their results."""
    lines: list[tuple[str, ...]] = []
    for name, claim in CLAIMS.items():
        pairs = measured.get(name, ())
        counts = Counter((_world(record, one), one.verdict) for record, one in pairs)
        whole = Counter(_world(record, one) for record, one in pairs)
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


def _world(record: ClaimsRecord, one: Measured) -> str:
    """A place begins with its world."""
    return one.where.partition(",")[0] + ("" if record.size == "mini" else f" at {record.size} size")


def as_markdown(measured: Measurements) -> str:
    """docs/claims.md."""
    short, body = _markdown(Table(BRIEF, brief(measured))), _markdown(Table(HEAD, rows(measured)))
    return "\n".join(
        [
            TITLE,
            "",
            "The claims of the paper, one of a replication, and what this code finds. Written by `sgjepa claims` from the",
            "files that the [studies](studies.md) leave; nothing here is typed by hand, and what does not hold or was not",
            "run stays in.",
            "",
            tally(measured),
            "",
            CAPTION,
            "",
            "Little room: the simulator, started from what SG-JEPA's probe sees, is hardly better there than an object that",
            "stays put, so that nobody could tell which dynamics are right. At mini and small size DINO-WM looks through",
            "MobileNetV2 (ImageNet) instead of DINOv2. A number of the paper for another world than ours names it.",
            "",
            "## In short",
            "",
            "Worlds, with how many of their results (horizons, in and out of distribution) say so. Mini size, unless said.",
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
    """How many results there are of each kind."""
    counts = Counter(one.verdict for pairs in measured.values() for _, one in pairs)
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
    """The claims of the paper that an experiment measures; None if there are none."""
    rows = [
        (
            CLAIMS[one.claim].statement,
            one.paper or CLAIMS[one.claim].paper,
            f"{one.where}: {one.measured}",
            number(one),
            one.seeds,
            Verdict(one.verdict, so_far(one).removeprefix(one.verdict).strip()),
        )
        for one in measured
    ]
    head = ("claim", *HEAD[1:-1])
    return Table(head, rows, f"Claims of the paper. {CAPTION}", text=(0, 1, 2, 5)) if rows else None
