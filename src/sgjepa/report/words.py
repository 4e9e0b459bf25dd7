"""Numbers as text, with real minus signs, and sentences of pages, such as verdicts."""

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
    """A difference with a plus sign or a real minus sign."""
    text = fixed(value, decimals)
    return text if float(f"{value:.{decimals}f}") <= 0 else f"+{text}"


def with_interval(interval: Interval, decimals: int = 3) -> str:
    """A number and its interval: "0.412 (0.300 to 0.520)"."""
    return f"{fixed(interval.mean, decimals)} ({fixed(interval.low, decimals)} to {fixed(interval.high, decimals)})"


def decimals_of(metric: str) -> int:
    """The number of decimals of a metric in tables; three, as in the paper, for most."""
    return METRICS[metric].decimals


def digits(interval: Interval, metric: str) -> int:
    """The number of decimals that show an interval's width with two digits, and no end other than zero as zero."""
    width = interval.high - interval.low
    fewest = decimals_of(metric) - 1
    decimals = max(fewest, 1 - math.floor(math.log10(width))) if width > 0 else fewest + 1
    while decimals < 4 and any(end != 0 and float(f"{end:.{decimals}f}") == 0 for end in (interval.low, interval.high)):
        decimals += 1
    return min(decimals, 4)


def unit(metric: str) -> str:
    """A metric's unit, as written after a number; empty for a pure number."""
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
    """A number with its noun: "1 episode", "1,250 episodes"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join(parts: Sequence[str]) -> str:
    """Parts joined as in "one, two and three"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def measured(metric: str) -> str:
    """A metric with its unit, as the label of an axis or table: "Position error (m)"."""
    return capital(METRICS[metric].label) + (f" ({unit(metric)})" if unit(metric) else "")


def few(episodes: int) -> str:
    """A note for captions of intervals from few episodes; empty for enough episodes."""
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
    """A note that arms have too few trainings for a verdict; empty if they have enough. arms: default all."""
    compared = arms or results.arms
    seldom = [arm for arm in compared if not results.decides(arm)]
    if not seldom:
        return ""
    if all(len(results.seeds(arm)) == 1 for arm in compared):
        return f"One training{' of each method' if len(compared) > 1 else ''}: no verdict, which needs {MIN_TRAININGS}."
    return f"Fewer than {MIN_TRAININGS} trainings of {join(seldom)}: no verdict there."


def compare(first: str, second: str, difference: Interval, metric: str, decides: bool) -> str:
    """A sentence on the error of `first` minus that of `second`. decides: whether trainings suffice for a verdict."""
    if not decides:
        return f"{first} minus {second}: {signed(difference, metric)}"
    return f"{first} is {SIGNIFICANT[verdict(difference)]} than {second}: {signed(difference, metric)}"
