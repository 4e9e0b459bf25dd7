"""Numbers of trials, until experiments ask Results themselves."""

from __future__ import annotations

from typing import Any

from sgjepa.core.stats import Interval
from sgjepa.report.closed_loop import measure_records
from sgjepa.report.words import difference_of
from sgjepa.results import claims
from sgjepa.results.control import Played


def measures(played: Played) -> list[dict[str, Any]]:
    """A record for every policy, region and measure."""
    return measure_records(played.as_table)


def points(one: Interval) -> tuple[str, str, str]:
    """A difference of shares in percentage points: mean with its sign, and the ends of its interval."""
    return difference_of(one.percent(), 1)


def verdict(one: Interval, better: int = 1) -> str:
    """Of a success, or a count, minus another."""
    return claims.verdict(one, better)
