"""Numbers as text, with real minus signs, and the few sentences that a page says: a verdict, one per comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sgjepa.core.stats import Interval
from sgjepa.evaluation.metrics import METRICS
from sgjepa.results.claims import BETTER, MIN_TRAININGS, UNDECIDED, WORSE, verdict
from sgjepa.results.selection import REGIONS
from sgjepa.results.table import Results

_MINUS = "\N{MINUS SIGN}"
FEW = 10  # episodes; an interval from fewer is marked
DAGGER = "\N{DAGGER}"
SIGNIFICANT = {BETTER: "significantly better", WORSE: "significantly worse", UNDECIDED: "not significantly better"}


# --- numbers -------------------------------------------------------------------------------------------------------


def fixed(value: float, decimals: int) -> str:
    """A number with a real minus sign, and no minus before zero."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", _MINUS)


def with_sign(value: float, decimals: int) -> str:
    """A difference: a plus before what is above zero, a real minus before what is below."""
    text = fixed(value, decimals)
    return text if float(f"{value:.{decimals}f}") <= 0 else f"+{text}"


def with_interval(one: Interval, decimals: int = 3) -> str:
    """A number and its interval: "0.412 (0.300 to 0.520)"."""
    return f"{fixed(one.mean, decimals)} ({fixed(one.low, decimals)} to {fixed(one.high, decimals)})"


def decimals_of(metric: str) -> int:
    """How many decimals a table shows of a metric; three, as in the paper, for most."""
    return METRICS[metric].decimals


def digits(interval: Interval, metric: str) -> int:
    """So many decimals that the width of an interval has two digits, and that no end but a true zero reads as zero."""
    width = interval.high - interval.low
    least = decimals_of(metric) - 1
    decimals = max(least, 1 - math.floor(math.log10(width))) if width > 0 else least + 1
    while decimals < 4 and any(end != 0 and float(f"{end:.{decimals}f}") == 0 for end in (interval.low, interval.high)):
        decimals += 1
    return min(decimals, 4)


def unit(metric: str) -> str:
    """A metric's unit, as it stands behind a number; nothing for a pure number."""
    return METRICS[metric].suffix


def size_of(error: Interval, metric: str) -> str:
    """An error with its unit and interval: "0.41 m (95 % interval 0.30 to 0.52)"."""
    n = digits(error, metric)
    mean, low, high = (fixed(value, n) for value in (error.mean, error.low, error.high))
    return f"{_with_unit(mean, metric)} (95 % interval {low} to {high})"


def signed(difference: Interval, metric: str) -> str:
    """A difference with its sign, unit and interval: "+0.05 m, 95 % interval −0.10 to 0.20"."""
    n = digits(difference, metric)
    mean = _with_unit(with_sign(difference.mean, n), metric)
    return f"{mean}, 95 % interval {fixed(difference.low, n)} to {fixed(difference.high, n)}"


def _with_unit(number: str, metric: str) -> str:
    name = unit(metric)
    return number + ("" if name == "°" or not name else " ") + name


# --- words ---------------------------------------------------------------------------------------------------------


def capital(text: str) -> str:
    """The first letter as a capital, the rest as it is."""
    return text[:1].upper() + text[1:]


def count(number: int, noun: str) -> str:
    """1 episode, 1,250 episodes."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join(parts: Sequence[str]) -> str:
    """One, two and three."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def measured(metric: str) -> str:
    """A metric with its unit, as an axis or a table is called: "Position error (m)"."""
    return capital(METRICS[metric].label) + (f" ({unit(metric)})" if unit(metric) else "")


def few(episodes: int) -> str:
    """What a caption must add where intervals rest on so few episodes; nothing where they do not."""
    if episodes >= FEW:
        return ""
    return f" {DAGGER} From fewer than {FEW} episodes: such an interval covers the truth less often than 95 %."


def where(results: Results, region: str) -> str:
    """A region and its episodes: "in distribution (g from 3 to 5, 10 episodes)"."""
    episodes = count(results.count(region), "episode")
    if region == "all":
        tested = " × ".join(f"{len(axis.values)} {axis.several}" for axis in results.axes)
        return f"over all {tested} ({episodes})" if tested else f"over all {episodes}"
    laws = [axis.inside for axis in results.axes] if region == "in" else []
    return f"{REGIONS[region]} ({', '.join([*laws, episodes])})"


def too_few(results: Results, *arms: str) -> str:
    """That some arms were trained too seldom for a verdict on them; nothing where they were not. arms: all by default."""
    compared = arms or results.arms
    seldom = [arm for arm in compared if not results.decides(arm)]
    if not seldom:
        return ""
    if all(len(results.seeds(arm)) == 1 for arm in compared):
        return f"One training{' of each method' if len(compared) > 1 else ''}: no verdict, which needs {MIN_TRAININGS}."
    return f"Fewer than {MIN_TRAININGS} trainings of {join(seldom)}: no verdict there."


def compare(one: str, other: str, difference: Interval, metric: str, decides: bool) -> str:
    """One sentence about an error of `one` minus that of `other`. decides: whether there are trainings enough to judge."""
    if not decides:
        return f"{one} minus {other}: {signed(difference, metric)}"
    return f"{one} is {SIGNIFICANT[verdict(difference)]} than {other}: {signed(difference, metric)}"
