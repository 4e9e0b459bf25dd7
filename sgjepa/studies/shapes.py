"""Do dynamics transfer to a new shape? Trained on triangle + square (+ pentagon), or on the house; judged on the house.

A house is a triangle joined to a square. The world model that never saw one is frozen, and a probe is fitted to its latents
of houses, so what is compared is the dynamics. Two widths of the encoder, so that capacity is no excuse. The paper looks at
h = 44 in a band around the training laws (three standard deviations: g from 2.5 to 5.5), and at ratios to the model that was
trained on houses: of the rollout, and of the probe on true frames, which says how much of it is the representation's.

Models for a CPU do not foretell a tumbling body as far as that; h = 16 is looked at too, which they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sgjepa.core.errors import InputError
from sgjepa.core.stats import Interval, bootstrap, bootstrap_of
from sgjepa.core.tables import to_csv
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.panels import Picture
from sgjepa.report.sweep_figures import PAPER, Curve, against_setting, alone
from sgjepa.report.words import fixed, join, with_interval
from sgjepa.results.compare import Method
from sgjepa.results.gather import METRICS, unit
from sgjepa.results.published import ablation
from sgjepa.results.verdicts import Claims, measure
from sgjepa.studies.cells import Cell
from sgjepa.studies.study import Done, Study

HOUSE, PARTS, MORE = "house", "triangle_square", "triangle_square_pentagon"
SETS = {PARTS: "triangle + square", MORE: "triangle + square + pentagon", HOUSE: "house"}
WIDTHS = {"gru": "usual encoder", "gru_small": "encoder twice as wide"}
TRANSLATION, ROTATION = ("position_l2", "velocity_l2"), "rotation_turns"
SHOWN = (*TRANSLATION, ROTATION)
BAND = 3  # standard deviations of the training laws
NEAR = 16  # a horizon that models for a CPU can foretell; the paper's is the last
TABLE = "tables/shapes.csv"


def cells(size: str) -> list[Cell]:
    """Three training sets with two encoders, all judged on houses."""
    return [Cell(recipe(f"{shapes}_{width}", size), judged_on=f"{HOUSE}-{size}") for width in WIDTHS for shapes in SETS]


def widths(done: Done) -> dict[str, str]:
    """Those for which both sides of the comparison were asked for."""
    found = {width: label for width, label in WIDTHS.items() if done.has(f"{HOUSE}_{width}", f"{PARTS}_{width}")}
    if not found:
        first = next(iter(WIDTHS))
        needed = f"{HOUSE}_{first} and {PARTS}_{first}"
        raise InputError(f"the study needs its cells {needed}; leave out --only, or add them")
    return found


def sets(done: Done, width: str) -> dict[str, str]:
    """The training sets that were asked for, by name."""
    return {shapes: label for shapes, label in SETS.items() if done.has(f"{shapes}_{width}")}


def horizons(done: Done) -> tuple[int, ...]:
    """Where it is looked at; the paper's last."""
    return tuple(dict.fromkeys((min(NEAR, done.results.last), done.results.last)))


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


def answer(done: Done) -> Finding:
    """The report's section: errors and ratios by width, horizon and training set."""
    words, claims, pictures = list[str](), Claims(), list[Picture]()
    for width in widths(done):
        for h in horizons(done):
            words.append(_said(done, width, h))
            claims += _claims(done, width, h)
            pictures += _pictures(done, width, h)
    records = list(_records(done))
    caption = (
        f"Errors on houses within {BAND} standard deviations of the training laws, with 95 % intervals; in square brackets "
        "the paper's. Ratios to the model that was trained on houses: of the rollout; of the probe on true frames. The last "
        "row of each horizon: a house that stays where it was."
    )
    heads = (f"{METRICS[metric]} ({unit(metric)})" for metric in SHOWN)
    head = ("model", "h", "trained on", *heads, *(f"{METRICS[metric]}, ratio" for metric in SHOWN))
    shown = (
        "Errors on houses relative to the model that was trained on houses; above 1, they are larger. Hollow: the paper's."
    )
    more = {TABLE: to_csv(records)}
    rows = tuple(_rows(done))
    return Finding("To a new shape", tuple(words), caption, head, rows, more, tuple(pictures), shown, claims)


def _papers(done: Done, width: str, shapes: str, h: int) -> dict[str, float]:
    """The paper's errors, by metric; it has them at the last horizon alone."""
    if h != done.results.last:
        return {}
    return {metric: ablation("shapes")[metric][f"{width} {shapes}"] for metric in SHOWN}


def _rows(done: Done) -> Iterator[tuple[str, ...]]:
    """Of the page's table."""
    for width, encoder in widths(done).items():
        for h in horizons(done):
            for shapes, label in sets(done, width).items():
                method, says = done.method(f"{shapes}_{width}"), _papers(done, width, shapes, h)
                found = {metric: bootstrap(errors(method, metric, h))[0] for metric in SHOWN}
                paper = {metric: f" [{fixed(says[metric], 3)}]" if says else "" for metric in SHOWN}
                compared = [""] * len(SHOWN)
                if shapes != HOUSE:
                    over, seen = (ratios(done, width, shapes, h, source) for source in ("predicted", "true"))
                    compared = [f"{with_interval(over[metric], 2)}; {fixed(seen[metric].mean, 2)}" for metric in SHOWN]
                yield encoder, str(h), label, *(with_interval(found[m]) + paper[m] for m in SHOWN), *compared
            house = done.method(f"{HOUSE}_{width}")
            stays = (fixed(float(errors(house, metric, h, "stay").mean()), 3) for metric in SHOWN)
            yield encoder, str(h), "stays where it was", *stays, *("" for _ in SHOWN)


def _records(done: Done) -> Iterator[dict[str, Any]]:
    """The same as plain numbers."""
    for width in widths(done):
        for h in horizons(done):
            for shapes in sets(done, width):
                method, says = done.method(f"{shapes}_{width}"), _papers(done, width, shapes, h)
                over = {} if shapes == HOUSE else ratios(done, width, shapes, h)
                seen = {} if shapes == HOUSE else ratios(done, width, shapes, h, "true")
                for metric in SHOWN:
                    one = bootstrap(errors(method, metric, h))[0]
                    yield {
                        "encoder": width,
                        "h": h,
                        "trained_on": shapes,
                        "trainings": len(method.seeds),
                        "metric": metric,
                        **one.numbers,
                        "stays": float(errors(method, metric, h, "stay").mean()),
                        "paper": says.get(metric, ""),
                        "ratio": over[metric].mean if over else "",
                        "ratio_low": over[metric].low if over else "",
                        "ratio_high": over[metric].high if over else "",
                        "ratio_true": seen[metric].mean if seen else "",
                    }


def _claims(done: Done, width: str, h: int) -> Claims:
    parts, house = (_papers(done, width, shapes, h) for shapes in (PARTS, HOUSE))
    papers = {metric: parts[metric] / house[metric] for metric in parts}
    return measure(
        "translation",
        f"house, {WIDTHS[width]}, h = {h}",
        f"error ratio of the position minus that of the rotation, {SETS[PARTS]} over house",
        lead(done, width, PARTS, h),
        "below",
        done.seeds,
        paper=fixed(papers[TRANSLATION[0]] - papers[ROTATION], 2) if papers else "",
        void=void(done, width, h),
    )


def _pictures(done: Done, width: str, h: int) -> list[Picture]:
    """The ratio of each metric, for each training set without houses."""
    places = {float(i): METRICS[metric].removeprefix("cumulative ") for i, metric in enumerate(SHOWN)}
    curves: dict[str, Curve] = {}
    house = _papers(done, width, HOUSE, h)
    for shapes, label in sets(done, width).items():
        if shapes != HOUSE:
            ours, says = ratios(done, width, shapes, h), _papers(done, width, shapes, h)
            curves[label] = [(x, ours[metric]) for x, metric in zip(places, SHOWN, strict=True)]
            if says:
                both = zip(places, SHOWN, strict=True)
                curves[PAPER + label] = [(x, alone(says[metric] / house[metric])) for x, metric in both]
    measured, title = "error over that of the house's own", f"With the {WIDTHS[width]}, h = {h}"
    return against_setting(f"shapes_{width}_h{h}", title, "", measured, curves, names=places)


def _said(done: Done, width: str, h: int) -> str:
    """One horizon in words."""
    found, more = ratios(done, width, PARTS, h), lead(done, width, PARTS, h)
    parts = join([f"{with_interval(found[metric], 2)} times the {METRICS[metric]}" for metric in SHOWN])
    better = (
        "translation transfers better than rotation"
        if more.high < 0
        else "rotation transfers better than translation"
        if more.low > 0
        else "which of the two transfers better is not decided"
    )
    if why := void(done, width, h):
        better = f"what transfers nobody could tell, since {why}"
    where = f"With the {WIDTHS[width]}, at h = {h}"
    said = f"{where}, a model that never saw a house has {parts} of one trained on houses: {better}."
    if MORE not in sets(done, width):
        return said
    one, other = (errors(done.method(f"{shapes}_{width}"), TRANSLATION[0], h) for shapes in (PARTS, MORE))
    gain = bootstrap(other - one)[0]
    pentagons = "help" if gain.high < 0 else "do harm" if gain.low > 0 else "make no difference that shows"
    return f"{said} Pentagons besides {pentagons} in the position error ({with_interval(gain)} m)."


STUDY = Study(
    name="shapes",
    question="Do dynamics transfer to a shape that was never seen?",
    claim="Translation transfers from triangle and square to the house, rotation hardly; pentagons besides do not help.",
    cells=cells,
    analyse=answer,
    labels={
        f"{shapes}_{width}": f"trained on {label}, {encoder}"
        for width, encoder in WIDTHS.items()
        for shapes, label in SETS.items()
    },
)
