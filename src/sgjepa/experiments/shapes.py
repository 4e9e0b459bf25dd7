"""Do dynamics transfer to a new shape? Trained on triangle + square (+ pentagon), or on the house; judged on the house.

A house is a triangle joined to a square. The world model that never saw one is frozen, and a probe is fitted to its latents
of houses, so what is compared is the dynamics. Two widths of the encoder, so that capacity is no excuse. The paper looks at
h = 44 in a band around the training laws (three standard deviations: g from 2.5 to 5.5), and at ratios to the model that was
trained on houses: of the rollout, and of the probe on true frames, which says how much of it is the representation's.

Models for a CPU do not foretell a tumbling body as far as that; h = 16 is looked at too, which they do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap, bootstrap_of
from sgjepa.core.tables import to_csv
from sgjepa.data.probe_targets import METRICS
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import Done, Experiment
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.panels import Picture
from sgjepa.report.sweep_figures import PAPER, against_setting, alone
from sgjepa.report.words import fixed, join, with_interval
from sgjepa.results.claims import Claims, measure
from sgjepa.results.compare import Method
from sgjepa.results.gather import unit
from sgjepa.results.paper_numbers import ablation

HOUSE, PARTS, MORE = "house", "triangle_square", "triangle_square_pentagon"
SETS = {PARTS: "triangle + square", MORE: "triangle + square + pentagon", HOUSE: "house"}
TRANSLATION, ROTATION = ("position_l2", "velocity_l2"), "rotation_turns"
SHOWN = (*TRANSLATION, ROTATION)
BAND = 3  # standard deviations of the training laws
WIDTHS = {"gru": "usual encoder", "gru_small": "encoder twice as wide"}
NEAR = 16  # a horizon that models for a CPU can foretell; the paper's is the last
TABLE = "tables/shapes.csv"


def arms(size: str) -> list[Training]:
    """Three training sets with two encoders, all judged on houses."""
    return [
        Training(recipe(f"{shapes}_{width}", size), None, f"{HOUSE}-{size}", f"trained on {label}, {encoder}")
        for width, encoder in WIDTHS.items()
        for shapes, label in SETS.items()
    ]


def widths(done: Done) -> dict[str, str]:
    """Those for which both sides of the comparison were asked for."""
    return {width: label for width, label in WIDTHS.items() if done.has(f"{HOUSE}_{width}", f"{PARTS}_{width}")}


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


def answer(done: Done) -> Finding:
    """The report's section: errors and ratios by width, horizon and training set."""
    words, claims, pictures = list[str](), Claims(), list[Picture]()
    rows, records = list[tuple[str, ...]](), list[dict[str, Any]]()
    for width in widths(done):
        for h in horizons(done):
            found = {shapes: list(entries(done, width, h, shapes)) for shapes in sets(done, width)}
            gap, why = lead(done, width, PARTS, h), void(done, width, h)
            words.append(_said(done, width, h, found[PARTS], gap, why))
            claims += _claims(done, width, h, found[PARTS], gap, why)
            pictures += _pictures(width, h, found)
            rows += _rows(width, h, found)
            records += [_record(entry) for group in found.values() for entry in group]
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
    return Finding("To a new shape", tuple(words), caption, head, tuple(rows), more, tuple(pictures), shown, claims)


def _rows(width: str, h: int, found: Mapping[str, list[Entry]]) -> Iterator[tuple[str, ...]]:
    """Of the page's table, at one horizon."""
    where = WIDTHS[width], str(h)
    for shapes, group in found.items():
        yield *where, SETS[shapes], *(_shown(entry) for entry in group), *(_compared(entry) for entry in group)
    stays = (fixed(entry.stays, 3) for entry in found[HOUSE])
    yield *where, "stays where it was", *stays, *("" for _ in SHOWN)


def _shown(entry: Entry) -> str:
    return with_interval(entry.error) + (f" [{fixed(entry.paper, 3)}]" if entry.paper is not None else "")


def _compared(entry: Entry) -> str:
    if entry.ratio is None or entry.ratio_true is None:
        return ""
    return f"{with_interval(entry.ratio, 2)}; {fixed(entry.ratio_true, 2)}"


def _record(entry: Entry) -> dict[str, Any]:
    """The same as plain numbers."""
    return {
        "encoder": entry.width,
        "h": entry.h,
        "trained_on": entry.shapes,
        "trainings": entry.trainings,
        "metric": entry.metric,
        **entry.error.numbers,
        "stays": entry.stays,
        "paper": entry.paper,
        "ratio": entry.ratio and entry.ratio.mean,
        "ratio_low": entry.ratio and entry.ratio.low,
        "ratio_high": entry.ratio and entry.ratio.high,
        "ratio_true": entry.ratio_true,
    }


def _claims(done: Done, width: str, h: int, parts: list[Entry], more: Interval, why: str) -> Claims:
    papers = {entry.metric: entry.paper_ratio for entry in parts}
    position, rotation = papers[TRANSLATION[0]], papers[ROTATION]
    return measure(
        "translation",
        f"house, {WIDTHS[width]}, h = {h}",
        f"error ratio of the position minus that of the rotation, {SETS[PARTS]} over house",
        more,
        "below",
        done.seeds,
        paper=fixed(position - rotation, 2) if position and rotation else "",
        void=why,
    )


def _pictures(width: str, h: int, found: Mapping[str, list[Entry]]) -> list[Picture]:
    """The ratio of each metric, for each training set without houses."""
    places = {float(i): METRICS[metric].removeprefix("cumulative ") for i, metric in enumerate(SHOWN)}
    curves = defaultdict[str, list[tuple[float, Interval]]](list)
    for shapes, group in found.items():
        for x, entry in zip(places, group, strict=True):
            if entry.ratio:
                curves[SETS[shapes]].append((x, entry.ratio))
            if entry.paper_ratio:
                curves[PAPER + SETS[shapes]].append((x, alone(entry.paper_ratio)))
    measured, title = "error over that of the house's own", f"With the {WIDTHS[width]}, h = {h}"
    return against_setting(f"shapes_{width}_h{h}", title, "", measured, curves, names=places)


def _said(done: Done, width: str, h: int, parts: list[Entry], more: Interval, why: str) -> str:
    """One horizon in words."""
    times = join([f"{with_interval(e.ratio, 2)} times the {METRICS[e.metric]}" for e in parts if e.ratio])
    better = (
        "translation transfers better than rotation"
        if more.high < 0
        else "rotation transfers better than translation"
        if more.low > 0
        else "which of the two transfers better is not decided"
    )
    if why:
        better = f"what transfers nobody could tell, since {why}"
    where = f"With the {WIDTHS[width]}, at h = {h}"
    said = f"{where}, a model that never saw a house has {times} of one trained on houses: {better}."
    if MORE not in sets(done, width):
        return said
    one, other = (errors(done.method(f"{shapes}_{width}"), TRANSLATION[0], h) for shapes in (PARTS, MORE))
    gain = bootstrap(other - one)[0]
    pentagons = "help" if gain.high < 0 else "do harm" if gain.low > 0 else "make no difference that shows"
    return f"{said} Pentagons besides {pentagons} in the position error ({with_interval(gain)} m)."


EXPERIMENT = Experiment(
    name="shapes",
    question="Do dynamics transfer to a shape that was never seen?",
    claim="Translation transfers from triangle and square to the house, rotation hardly; pentagons besides do not help.",
    arms=arms,
    needs=lambda _: [[f"{HOUSE}_{width}", f"{PARTS}_{width}"] for width in WIDTHS],
    analyse=answer,
)
