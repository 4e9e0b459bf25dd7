"""The claims of the paper that experiments test, with the paper's numbers, and verdicts on them from measured intervals.

The rule of all verdicts: no decision if the interval contains the bound, or from fewer than three trainings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sgjepa.core import artifact, config, files
from sgjepa.core.errors import InputError, unknown
from sgjepa.core.provenance import provenance
from sgjepa.core.stats import Interval

# --- verdicts ------------------------------------------------------------------------------------------------------

FILE = "claims.json"
HOLDS, FAILS, OPEN, MISSING = "holds", "does not hold", "not decided", "not run"
MIN_TRAININGS = 3  # trainings needed for a verdict: an interval over episodes only does not cover the spread of trainings
BETTER, WORSE, UNDECIDED = "better", "worse", "undecided"
Side: TypeAlias = Literal["below", "above"]


def side_of(gap: Interval, bound: float = 0.0) -> int:
    """The side of a bound on which an interval lies: -1 below, 1 above, 0 if it contains the bound."""
    return -1 if gap.high < bound else int(gap.low > bound)


def verdict(gap: Interval, better: int = -1) -> str:
    """The verdict on the interval of a difference. better: -1 if lower is better (errors), 1 if higher is (success)."""
    return {0: UNDECIDED, better: BETTER, -better: WORSE}[side_of(gap)]


def significant(gap: Interval, trainings: int) -> str:
    """Whether a difference of arms is significant, and its direction, in words; too few trainings give no verdict."""
    side = side_of(gap)
    if not side:
        return "not significant"
    return (
        "too few trainings for a verdict"
        if trainings < MIN_TRAININGS
        else f"significantly {'lower' if side < 0 else 'higher'}"
    )


# --- claims of the paper --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A claim of the paper. paper: the paper's numbers, as printed. study: the experiment that tests it.

    subjects: the worlds or arms that the claim is about, by their names in results; empty for a single subject.
    """

    id: str
    statement: str
    paper: str
    study: str
    subjects: tuple[str, ...] = ()

    def missing(self, names: Iterable[str]) -> list[str]:
        """The subjects that occur in none of the names of results."""
        known = list(names)
        return [subject for subject in self.subjects if not any(subject in name for name in known)]


_ALL = (
    Claim(
        "below_lewm",
        "SG-JEPA (GRU) is closer to the truth than LeWM over a long rollout.",
        "position at h = 44: 1.034 against 2.074 m (square), 2.529 against 2.625 m (right triangle), "
        "0.076 against 0.123 m (Approach Ball)",
        "predictors",
        ("approach ball", "square", "right triangle"),
    ),
    Claim(
        "below_dino",
        "SG-JEPA (GRU) is closer to the truth than DINO-WM over a long rollout.",
        "position at h = 44: 1.034 against 2.006 m (square), 2.529 against 2.764 m (right triangle), "
        "0.076 against 0.115 m (Approach Ball), 0.114 against 0.119 m (Arm Paddle)",
        "predictors",
        ("approach ball", "square", "right triangle", "arm paddle ball"),
    ),
    Claim(
        "control",
        "On SG-JEPA's features a policy succeeds more often than on DINO-WM's and LeWM's.",
        "success on DINO-WM's and on SG-JEPA's: 9.5 and 23.3 % (catcher), 27.4 and 30.5 % (basket; in one of its five "
        "rollouts 27.6 and 30.4, on LeWM's 28.8), 17.7 and 23.8 % (paddle)",
        "control",
        ("arm catcher ball", "arm paddle ball", "franka basket"),
    ),
    Claim(
        "planning",
        "Planned with a GRU or an SSM, conventional tasks succeed as often as with the Transformer.",
        "success with GRU, SSM and Transformer: 98, 98 and 100 % (Reacher), 70, 68 and 68 % (Cube)",
        "planning",
        ("reacher", "cube"),
    ),
    Claim(
        "law_and_rollout",
        "Giving the law and training through a rollout help more together than each by itself.",
        "not in the paper; an independent replication, one training: interaction −1.355 m at h = 44 (square)",
        "factorial",
    ),
    Claim(
        "true_law",
        "The error is lowest when the model is given the true law.",
        "the minimum lies at the true law for g = 2, 4 and 6, with GRU and Transformer (square)",
        "counterfactual",
        ("SG-JEPA (GRU)", "SG-JEPA (Transformer)"),
    ),
    Claim(
        "encoder",
        "The gain follows the encoder that was trained with the GRU, whichever predictor is fitted to it.",
        "excess NMSE 1.376 against 1.555 with a fresh GRU, 1.269 against 1.453 with a fresh Transformer: 12 % less (square)",
        "crossover",
        ("fresh GRU", "fresh Transformer"),
    ),
    Claim(
        "local_gap",
        "Before anything is fed back, a fresh predictor errs less on SG-JEPA's features than on DINO's.",
        "about 32 % less at g ≤ 2 or g ≥ 6 (square, transitions without a collision)",
        "local_gap",
    ),
    Claim(
        "rollout_gap",
        "Feeding predictions back makes a small local gap a large one.",
        "gap to DINO in the squared error: below 0.06 one step at a time, near 0.38 around h = 20 when fed back (square)",
        "local_gap",
    ),
    Claim(
        "short_history",
        "A short history costs the encoder that was trained with the Transformer more.",
        "penalty of 4 instead of 20 latents, Transformer's encoder minus GRU's: 0.089 over h = 1..44, and only 0.015 over "
        "h = 1..5 (square)",
        "history",
    ),
    Claim(
        "mixed",
        "Post-training on a few new laws mixed with source episodes gains more than on the new laws alone.",
        "14.05 against 6.85 %, mean of four methods and two shapes; SG-JEPA (GRU): 13.60 against 5.39 % (square)",
        "post_training",
        ("SG-JEPA (GRU)", "SG-JEPA (SSM)", "LeWM", "DINO-WM"),
    ),
    Claim(
        "translation",
        "Translation transfers to a new shape better than rotation.",
        "error of triangle + square over that of the house itself, at h = 44, g from 2.5 to 5.5: position 1.56, velocity "
        "1.97, rotation 4.25 with the smaller encoder, 1.40, 1.70, 3.36 with the larger",
        "shapes",
        ("house, default encoder,", "house, encoder twice as wide,"),
    ),
    Claim(
        "muon",
        "Muon with AdamW reaches a lower validation loss than AdamW alone.",
        "14.9 % lower with the GRU, 21.9 % with the SSM, 17.3 % with the Transformer (square)",
        "optimiser",
        (", GRU", ", SSM", ", Transformer"),
    ),
    Claim(
        "five_steps",
        "A rollout of K = 5 steps is enough to train on.",
        "NMSE at h = 32 with H = 20, K = 5 against K = 10: 0.185 against 0.182, in less memory (Approach Ball)",
        "history_rollout",
    ),
    Claim(
        "twenty_frames",
        "The recipe's history (H = 20 in the paper) is enough.",
        "NMSE at h = 32, H = 20 and K = 5 against the best of H = 30, K = 10: 0.185 against 0.236 (Approach Ball)",
        "history_rollout",
    ),
    Claim(
        "rank",
        "The effective rank of the latents grows with the weight of SIGReg, up to the chosen one.",
        "higher at 0.72, the chosen weight, than at smaller ones (a figure), and than at 1.44: 138.0 against 131.0 (square)",
        "sigreg",
    ),
)
CLAIMS = {claim.id: claim for claim in _ALL}


# --- verdicts on claims --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A measured claim. where: the subject. measured: the quantity. bound, side: its range according to the claim.

    interval: the measured value. unit: of the value; "" for a pure number. paper: the paper's value. seeds: trainings per
    arm.
    note: a comment on the verdict. void: the test has no power, for the reason in the note, so there is no verdict.
    """

    claim: str
    where: str
    measured: str
    interval: Interval
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
        if not all(
            math.isfinite(value) for value in (self.interval.mean, self.interval.low, self.interval.high, self.bound)
        ):
            raise InputError(f"the claim {self.claim} needs numbers, got {self.interval}")
        if self.void and not self.note:
            raise InputError(f"the claim {self.claim} should say why its test has no power")
        if self.verdict != _verdict(self.interval, self.bound, self.side, self.seeds, self.void):
            raise InputError(f"the verdict on {self.claim} does not follow from its interval")


Claims: TypeAlias = tuple[Measured, ...]


def measure(
    claim: str,
    where: str,
    measured: str,
    interval: Interval,
    side: Side,
    seeds: int,
    *,
    bound: float = 0.0,
    unit: str = "",
    paper: str = "",
    note: str = "",
    void: str = "",
) -> Claims:
    """The verdict on a claim; empty without a number, as for a region without episodes.

    void: the reason why the test has no power; "" if it has.
    """
    if not all(math.isfinite(value) for value in (interval.mean, interval.low, interval.high)):
        return ()
    verdict, notes = _verdict(interval, bound, side, seeds, bool(void)), "; ".join(part for part in (void, note) if part)
    return (Measured(claim, where, measured, interval, unit, bound, side, paper, seeds, verdict, notes, bool(void)),)


def _verdict(interval: Interval, bound: float, side: Side, seeds: int, void: bool) -> str:
    known = seeds >= MIN_TRAININGS and interval.low < interval.high and not void
    return _verdict_of_interval(interval, bound, side) if known else OPEN


def _verdict_of_interval(interval: Interval, bound: float, side: Side) -> str:
    return {0: OPEN, -1 if side == "below" else 1: HOLDS}.get(side_of(interval, bound), FAILS)


def so_far(row: Measured) -> str:
    """A verdict in words: with the tendency of too few trainings, and with its note."""
    by_interval = _verdict_of_interval(row.interval, row.bound, row.side)
    few = row.seeds < MIN_TRAININGS and by_interval != OPEN and row.interval.low < row.interval.high and not row.void
    trainings = "one training" if row.seeds == 1 else f"{row.seeds} trainings"
    parts = [f"{row.verdict} ({trainings}: {by_interval})" if few else row.verdict, row.note]
    return "; ".join(part for part in parts if part)


@dataclass(frozen=True)
class ClaimsRecord:
    """The verdicts of an experiment, as stored in claims.json.

    updates, settings: of the trainings, where they differ from the recipes'; such verdicts do not count.
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
    """Write claims.json to the folder of a report."""
    record = ClaimsRecord(study, size, updates, command, tuple(rows), provenance(), dict(settings or {}))
    artifact.add(folder, FILE, files.to_json(config.to_dict(record)).encode())


def read_claims(folders: Iterable[Path]) -> list[ClaimsRecord]:
    """Read the claims in folders: those of experiments (NAME-SIZE/report/claims.json), or files with any name (*.json)."""
    records = []
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder with results")
        report = folder / FILE  # the other files of a report are not claims
        own = [report] if report.is_file() else folder.glob("*.json")
        for path in sorted([*own, *folder.glob(f"*/{FILE}"), *folder.glob(f"*/*/{FILE}")]):
            records.append(_read(path))
    return records


def _read(path: Path) -> ClaimsRecord:
    try:
        if artifact.made_by(path.parent):
            artifact.checked(path.parent, path.name)
        return config.from_dict(ClaimsRecord, files.read_json(path))
    except InputError as error:
        raise InputError(f"{path} is no list of claims ({error}); run the study again, or delete it") from error


def best(records: Sequence[ClaimsRecord]) -> dict[str, list[tuple[ClaimsRecord, Measured]]]:
    """Results by claim, in the order of CLAIMS: for each subject and size the result with the most trainings.

    Experiments with other updates or settings than the recipes' are left out.
    """
    selected: dict[tuple[str, str, str, str], tuple[ClaimsRecord, Measured]] = {}
    for record in records:
        for row in record.rows if record.updates is None and not record.settings else ():
            key = (row.claim, row.where, row.measured, record.size)
            before = selected.get(key)
            newer = before is not None and str(record.provenance["made"]) > str(before[0].provenance["made"])
            if before is None or (row.seeds, newer) > (before[1].seeds, False):
                selected[key] = record, row
    return {name: [pair for key, pair in selected.items() if key[0] == name] for name in CLAIMS}
