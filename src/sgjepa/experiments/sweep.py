"""What sweeps share: settings as cells, a table with the paper's rows below ours, and who cannot be told from the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap
from sgjepa.core.tables import to_csv
from sgjepa.data.probe_targets import METRICS
from sgjepa.data.store import open_dataset
from sgjepa.evaluation.evaluate import usual_forecast
from sgjepa.evaluation.probes import fit_probe
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import Done
from sgjepa.report.words import capital, fixed, join
from sgjepa.results.compare import Horizon, Method, marks
from sgjepa.results.gather import unit
from sgjepa.results.paper_numbers import published_study
from sgjepa.results.training import curve

ONCE = "Every setting was trained once: the intervals cover the choice of episodes, not of the training seed."


@dataclass(frozen=True)
class Setting(Training):
    """One arm of a sweep. values: as the table has them. x: where it stands in a figure."""

    values: tuple[str, ...] = ()
    x: float = math.nan


@dataclass(frozen=True)
class Column:
    """One measurement of every setting."""

    head: str
    of: Callable[[Method], Interval]
    decimals: int = 3


def there(done: Done, points: Callable[[str], Sequence[Setting]], sizes: Sequence[str]) -> dict[str, tuple[Setting, Method]]:
    """The points that were trained, by name, in their own order."""
    by_name = {method.name: method for method in done.results.methods}
    known = {point.name: point for size in sizes for point in points(size)}
    return {name: (point, by_name[name]) for name, point in known.items() if name in by_name}


# --- measurements --------------------------------------------------------------------------------------------------


def over_trainings(values: Sequence[float]) -> Interval:
    """The mean over training seeds; with one of them, the number alone."""
    return bootstrap(np.array(values, float)[:, None, None])[0]


def error(metric: str, horizon: Horizon, source: str = "predicted") -> Callable[[Method], Interval]:
    """An error at a horizon."""
    return lambda method: method.at(metric, [horizon], source)[horizon]


def validation_losses(method: Method) -> list[float]:
    """The lowest of each training."""
    return [float(curve(one, "loss")[:, 1].min()) for one in method.seeds]


def validation_loss(method: Method) -> Interval:
    """Their mean."""
    return over_trainings(validation_losses(method))


def probe_nmses(method: Method) -> list[float]:
    """Of each training: the probe that reads the rollouts, on validation windows of true frames."""
    return [float(one.about.scores.probe["validation_nmse"]) for one in method.seeds]


def probe_nmse(method: Method) -> Interval:
    """Their mean."""
    return over_trainings(probe_nmses(method))


def rank(method: Method) -> Interval:
    """The effective rank of the latents at the last context frame."""
    return over_trainings([one.about.scores.effective_rank for one in method.seeds])


def linear_probes(done: Done) -> dict[str, list[float]]:
    """NMSE of a linear probe on validation windows of true frames, by cell and training; fitted if it is not there."""
    scores: dict[str, list[float]] = {}
    for job in done.jobs:
        dataset = open_dataset(done.datasets / job.run.data[0], verify=False)
        fitted = fit_probe(job.folder, dataset, usual_forecast(dataset.settings, "linear").probe)
        scores.setdefault(job.name, []).append(float(fitted.scores["validation_nmse"]))
    return scores


# --- sentences and the table ---------------------------------------------------------------------------------------


def least(compared: Sequence[Method], metric: str, horizon: Horizon) -> str:
    """Which setting errs least, and which cannot be told apart from it."""
    tied = [method for method, mark in zip(compared, marks(compared, metric, horizon), strict=True) if mark == "best"]
    errors = {method.label: method.at(metric, [horizon])[horizon].mean for method in compared}
    best = min(errors, key=errors.__getitem__)
    when = f"at h = {horizon}" if isinstance(horizon, int) else "over all horizons"
    said = f"{capital(best)} has the lowest {METRICS[metric]} {when}, {fixed(errors[best], 3)} {unit(metric)}".rstrip()
    others = [method.label for method in tied if method.label != best]
    if len(compared) < 2:
        return f"{said}; it is the only one here."
    if not others:
        return f"{said}; every other one is certainly worse."
    return f"{said}; not to be told apart from it: {join(others)}."


def lowest(found: Mapping[str, Sequence[float]], name: str, decimals: int = 3) -> str:
    """The setting with the lowest number of something that every training has one of, and who cannot be told from it.

    Trainings with the same seed are paired. With one training of each there is no interval, and none is claimed.
    """
    best = min(found, key=lambda label: np.mean(found[label]))
    mine = np.array(found[best])
    said = f"The lowest {name} is that of {best}: {fixed(mine.mean(), decimals)}"
    others = {label: np.array(values) for label, values in found.items() if label != best}
    if not others or len(mine) < 2 or any(len(values) != len(mine) for values in others.values()):
        return f"{said}{' (one training each)' if others and len(mine) < 2 else ''}."
    tied = [label for label, values in others.items() if over_trainings((values - mine).tolist()).low <= 0]
    return f"{said}; " + (f"not to be told apart from it: {join(tied)}." if tied else "every other one is certainly higher.")


def once(done: Done) -> tuple[str, ...]:
    """What must be said where nothing was trained twice."""
    return (ONCE,) if all(len(method.seeds) == 1 for method in done.results.methods) else ()


def table(
    name: str, heads: Sequence[str], columns: Sequence[Column], found: Sequence[tuple[Setting, Method]]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], str]:
    """Head and rows for a page, ours and then the paper's, and every number of ours as CSV."""
    rows: list[tuple[str, ...]] = []
    records: list[dict[str, Any]] = []
    paper = published_study(name)
    extra = [column for column in (paper.columns if paper else ()) if column not in [c.head for c in columns]]
    for point, method in found:
        values = [column.of(method) for column in columns]
        shown = [_shown(value, column.decimals) for value, column in zip(values, columns, strict=True)]
        rows.append(("ours", *point.values, str(len(method.seeds)), *shown, *("" for _ in extra)))
        setting = {"cell": point.name, **dict(zip(heads, point.values, strict=True)), "seeds": len(method.seeds)}
        for column, value in zip(columns, values, strict=True):
            numbers = {"measured": column.head, **value.numbers}
            records.append({**setting, **numbers, "episodes": value.count})
    for row in paper.rows if paper else ():
        theirs = dict(zip(paper.columns if paper else (), row[len(heads) :], strict=True))
        cells = (theirs.get(head) for head in [*(column.head for column in columns), *extra])
        named = (_plain(one) for one in row[: len(heads)])
        rows.append(("paper", *named, paper.trainings if paper else "", *(_plain(cell) for cell in cells)))
    head = ("", *heads, "trainings", *(column.head for column in columns), *extra)
    return head, tuple(rows), to_csv(records)


def caption(name: str, what: str) -> str:
    """Of the table: what it shows, and where the paper's rows come from."""
    paper = published_study(name)
    said = f" The paper's: {paper.source.removeprefix('SG-JEPA paper, ')}. {paper.says}" if paper else ""
    return f"{what} Means with 95 % intervals.{said}"


def _shown(value: Interval, decimals: int) -> str:
    if not math.isfinite(value.mean):
        return ""
    mean, low, high = (fixed(one, decimals) for one in (value.mean, value.low, value.high))
    return mean if low == high else f"{mean} ({low} to {high})"


def _plain(value: str | float | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:g}"
