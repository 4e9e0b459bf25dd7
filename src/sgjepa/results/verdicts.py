"""What our results say about the claims of the paper. NumPy only.

A study's analysis measures a claim somewhere (a world, a horizon) and leaves it in `claims.json` beside its report; from
such files `sgjepa claims` makes the table. The verdict follows from the interval: it holds if all of the interval lies where
the paper says, does not if all lies on the other side, and is not decided otherwise, with fewer than three trainings, with
an interval of no width, or where nobody could tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sgjepa.core import files, output, records
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.stats import Interval
from sgjepa.results.claims import CLAIMS

FILE = "claims.json"
HOLDS, FAILS, OPEN, MISSING = "holds", "does not hold", "not decided", "not run"
LEAST = 3  # trainings, with fewer of which nothing is decided
Side: TypeAlias = Literal["below", "above"]


@dataclass(frozen=True)
class Measured:
    """One claim somewhere. measured: which number. bound, side: where the paper says it lies. paper: its own number there.

    unit: of the number; "" for a pure one. seeds: trainings of each cell. note: what a reader of the verdict should know.
    void: nobody could tell there, for the reason in the note; nothing is decided then, whatever the interval.
    """

    claim: str
    where: str
    measured: str
    ours: Interval
    unit: str
    bound: float
    side: Side
    paper: str
    seeds: int
    verdict: str
    note: str = ""
    void: bool = False

    def __post_init__(self) -> None:
        if self.claim not in CLAIMS:
            raise unknown("claim", self.claim, CLAIMS)
        if not all(math.isfinite(value) for value in (self.ours.mean, self.ours.low, self.ours.high, self.bound)):
            raise InputError(f"the claim {self.claim} needs numbers, got {self.ours}")
        if self.void and not self.note:
            raise InputError(f"the claim {self.claim} should say why nobody could tell")
        if self.verdict != _verdict(self.ours, self.bound, self.side, self.seeds, self.void):
            raise InputError(f"the verdict on {self.claim} does not follow from its interval")


Claims: TypeAlias = tuple[Measured, ...]


def measure(
    claim: str,
    where: str,
    measured: str,
    ours: Interval,
    side: Side,
    seeds: int,
    *,
    bound: float = 0.0,
    unit: str = "",
    paper: str = "",
    note: str = "",
    void: str = "",
) -> Claims:
    """The verdict on a claim; none where there is no number, as for a region without episodes.

    void: why nobody could tell there; "" where somebody could.
    """
    if not all(math.isfinite(value) for value in (ours.mean, ours.low, ours.high)):
        return ()
    verdict, told = _verdict(ours, bound, side, seeds, bool(void)), "; ".join(part for part in (void, note) if part)
    return (Measured(claim, where, measured, ours, unit, bound, side, paper, seeds, verdict, told, bool(void)),)


def _verdict(ours: Interval, bound: float, side: Side, seeds: int, void: bool) -> str:
    known = seeds >= LEAST and ours.low < ours.high and not void
    return _of(ours, bound, side) if known else OPEN


def _of(ours: Interval, bound: float, side: Side) -> str:
    """What the interval alone says."""
    below, above = ours.high < bound, ours.low > bound
    if not (below or above):
        return OPEN
    return HOLDS if below == (side == "below") else FAILS


def so_far(one: Measured) -> str:
    """The verdict, what too few trainings say, and what there is to know about it. A bare number says nothing."""
    said = _of(one.ours, one.bound, one.side)
    few = one.seeds < LEAST and said != OPEN and one.ours.low < one.ours.high and not one.void
    trainings = "one training" if one.seeds == 1 else f"{one.seeds} trainings"
    parts = [f"{one.verdict} ({trainings}: {said})" if few else one.verdict, one.note]
    return "; ".join(part for part in parts if part)


@dataclass(frozen=True)
class ClaimsRecord:
    """claims.json: what a study says about claims of the paper.

    updates, settings: of the trainings, None and none for the recipes' own, as it should be.
    """

    study: str
    size: str
    updates: int | None
    command: str
    rows: tuple[Measured, ...]
    provenance: dict[str, Any]
    settings: dict[str, str] = field(default_factory=dict)


def write_claims(
    folder: Path,
    study: str,
    size: str,
    updates: int | None,
    command: str,
    rows: Sequence[Measured],
    settings: Mapping[str, str] | None = None,
) -> None:
    """Beside a report, in its folder."""
    record = ClaimsRecord(study, size, updates, command, tuple(rows), files.provenance(), dict(settings or {}))
    output.add(folder, FILE, records.to_bytes(record))


def read_claims(folders: Iterable[Path]) -> list[ClaimsRecord]:
    """All that lie in these folders: of studies (STUDY-SIZE/report/claims.json), or kept under any name (*.json)."""
    found = []
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder with results")
        kept = (
            [folder / FILE] if (folder / FILE).is_file() else folder.glob("*.json")
        )  # a report's other files are no claims
        for path in sorted([*kept, *folder.glob(f"*/{FILE}"), *folder.glob(f"*/*/{FILE}")]):
            found.append(records.read(ClaimsRecord, path, f"run the study again, or delete {path}"))
    return found


def best(found: Sequence[ClaimsRecord]) -> dict[str, list[tuple[ClaimsRecord, Measured]]]:
    """By claim, in the list's order: of several results for the same place and size, the one from most trainings.

    Trials with other updates or settings than the recipes' are left out: they decide nothing.
    """
    kept: dict[tuple[str, str, str, str], tuple[ClaimsRecord, Measured]] = {}
    for record in found:
        for row in record.rows if record.updates is None and not record.settings else ():
            key = (row.claim, row.where, row.measured, record.size)
            there = kept.get(key)
            newer = there is not None and str(record.provenance["made"]) > str(there[0].provenance["made"])
            if there is None or (row.seeds, newer) > (there[1].seeds, False):
                kept[key] = record, row
    return {name: [pair for key, pair in kept.items() if key[0] == name] for name in CLAIMS}
