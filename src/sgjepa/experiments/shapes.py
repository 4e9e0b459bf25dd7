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
from typing import Any

from sgjepa.core.errors import InputError
from sgjepa.core.stats import Interval, bootstrap
from sgjepa.core.tables import to_csv
from sgjepa.data.probe_targets import METRICS
from sgjepa.experiments.cells import Cell
from sgjepa.experiments.house_errors import (
    BAND,
    HOUSE,
    MORE,
    PARTS,
    ROTATION,
    SETS,
    SHOWN,
    TRANSLATION,
    Entry,
    entries,
    errors,
    lead,
    void,
)
from sgjepa.experiments.study import Done, Study
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.panels import Picture
from sgjepa.report.sweep_figures import PAPER, against_setting, alone
from sgjepa.report.words import fixed, join, with_interval
from sgjepa.results.claims import Claims, measure
from sgjepa.results.gather import unit

WIDTHS = {"gru": "usual encoder", "gru_small": "encoder twice as wide"}
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
