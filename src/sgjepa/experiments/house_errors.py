"""Errors on houses of a model that was trained on other shapes: beside those of the model that was trained on houses, and
beside a house that stays where it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sgjepa.core.stats import Interval, bootstrap, bootstrap_of
from sgjepa.experiments.study import Done
from sgjepa.results.compare import Method
from sgjepa.results.paper_numbers import ablation

HOUSE, PARTS, MORE = "house", "triangle_square", "triangle_square_pentagon"
SETS = {PARTS: "triangle + square", MORE: "triangle + square + pentagon", HOUSE: "house"}
TRANSLATION, ROTATION = ("position_l2", "velocity_l2"), "rotation_turns"
SHOWN = (*TRANSLATION, ROTATION)
BAND = 3  # standard deviations of the training laws


def errors(method: Method, metric: str, h: int, source: str = "predicted") -> np.ndarray:
    """(seeds, episodes of the band, 1) at a horizon."""
    return method.stack(metric, source)[:, method.first.deviations <= BAND + 1e-6, h - 1 : h]


def ratios(done: Done, width: str, shapes: str, h: int, source: str = "predicted") -> dict[str, Interval]:
    """Errors over those of the model that was trained on houses, by metric."""
    one, house = done.method(f"{shapes}_{width}"), done.method(f"{HOUSE}_{width}")
    return {
        metric: bootstrap_of(lambda a, b: a / b, errors(one, metric, h, source), errors(house, metric, h, source))[0]
        for metric in SHOWN
    }


def void(done: Done, width: str, h: int) -> str:
    """Why nobody could tell what transfers; "" where the model that was trained on houses certainly errs less than a house
    that stays put, in position and rotation, and the one that never saw a house does in position."""
    house, parts = done.method(f"{HOUSE}_{width}"), done.method(f"{PARTS}_{width}")
    if not (_foretold(house, TRANSLATION[0], h) and _foretold(house, ROTATION, h)):
        return "houses themselves are not certainly foretold"
    return "" if _foretold(parts, TRANSLATION[0], h) else f"{SETS[PARTS]} alone do not certainly foretell a house"


def _foretold(method: Method, metric: str, h: int) -> bool:
    return bootstrap(errors(method, metric, h) - errors(method, metric, h, "stay"))[0].high < 0


def lead(done: Done, width: str, shapes: str, h: int) -> Interval:
    """Ratio of the position error minus ratio of the rotation error: below zero, translation transfers better."""
    one, house = done.method(f"{shapes}_{width}"), done.method(f"{HOUSE}_{width}")
    values = (errors(method, metric, h) for metric in (TRANSLATION[0], ROTATION) for method in (one, house))
    return bootstrap_of(lambda a, b, c, d: a / b - c / d, *values)[0]


@dataclass(frozen=True)
class Entry:
    """One metric of one training set at a horizon; ratios are to the model that was trained on houses, which has none."""

    width: str
    h: int
    shapes: str
    metric: str
    trainings: int
    error: Interval
    stays: float  # error of a house that stays where it was
    ratio: Interval | None
    ratio_true: float | None  # of the probe on true frames
    paper: float | None  # it has the last horizon alone
    paper_ratio: float | None


def entries(done: Done, width: str, h: int, shapes: str) -> Iterator[Entry]:
    """One for each metric."""
    method, other = done.method(f"{shapes}_{width}"), shapes != HOUSE
    over = ratios(done, width, shapes, h) if other else {}
    seen = ratios(done, width, shapes, h, "true") if other else {}
    for metric in SHOWN:
        says = ablation("shapes")[metric] if h == done.results.last else {}
        own, house = (says.get(f"{width} {name}") for name in (shapes, HOUSE))
        yield Entry(
            width,
            h,
            shapes,
            metric,
            len(method.seeds),
            bootstrap(errors(method, metric, h))[0],
            float(errors(method, metric, h, "stay").mean()),
            over.get(metric),
            seen[metric].mean if seen else None,
            own,
            own / house if own and house and other else None,
        )
