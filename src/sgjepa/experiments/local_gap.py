"""Is the difference there before anything is fed back? Fresh GRUs of one size on frozen SG-JEPA, LeWM and DINO features.

Each predictor is trained alike on features that stay as they are. It is then asked twice for the same frames: one step from
true latents ("local"), and on its own predictions ("fed back"). Both are read by the features' own probe, in windows of
predictions, and compared with what the same probe reads from the true latents, in units of the targets' spread: so what a
probe reads wrongly of true latents counts for none of them. One that reads next to nothing moves little, whatever is
predicted: each probe's own error stands in the caption. DINO's patch grids do not fit a GRU: its features are the mean
patch, the vector that probes and policies read of it. Width, depth and training are the same; maps from and to the features
are as wide as these.

A seed is a whole pipeline, the encoder's training too, but for DINO's, which is given. The paper counts transitions without
a collision; here all count. Gaps over horizons have simultaneous intervals: they hold for the whole curve.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap, bootstrap_of, simultaneous
from sgjepa.core.tables import to_csv
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.experiments.frozen_encoder import fresh, joint, name_of
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.panels import Picture
from sgjepa.report.sweep_figures import by_horizon
from sgjepa.report.words import compare, fixed, join, with_interval
from sgjepa.results.claims import Claims, measure
from sgjepa.results.compare import MEAN, Method, paired, verdict
from sgjepa.results.gather import MAIN
from sgjepa.results.paper_numbers import ablation, of_the_square

OURS, LEWM, DINO = "SG-JEPA", "LeWM", "DINO"
LOCAL, FED_BACK = "one_step", "predicted"  # sources of an evaluation
FAR = 4  # standard deviations of the training laws: the paper's g <= 2 or g >= 6
_TITLES = {LOCAL: "local", FED_BACK: "fed back"}
TABLE = "tables/local_gap.csv"


def arms(size: str) -> list[Training]:
    """Two joint trainings, a fresh GRU on each, and one on DINO's mean patch, whose encoder nobody trains."""
    dino = Training(recipe(f"{WORLDS[size]}_dino_gru", size))
    labels = {name: f"fresh GRU on {label}'s features" for label, name in _names(WORLDS[size]).items()}
    compared = [
        replace(arm, label=labels[arm.name]) for arm in (fresh("gru", "gru", size), fresh("gru", "lewm", size), dino)
    ]
    return [joint("gru", size), joint("lewm", size), *compared]


def _names(world: str) -> dict[str, str]:
    on = {OURS: "gru", LEWM: "lewm"}
    return {**{label: name_of(world, "gru", source) for label, source in on.items()}, DINO: f"{world}_dino_gru"}


def errors(method: Method, source: str) -> np.ndarray:
    """(seeds, episodes, horizons): what the probe reads of a prediction against what it reads of the true latent."""
    found = []
    for one in method.seeds:
        gap = (one.states(source) - one.states("true")) / np.asarray(one.about.target_std)
        found.append(np.square(gap).mean(axis=-1))
    return np.stack(found)


def answer(done: Done) -> Finding:
    """The report's section: local and fed-back gaps of each other encoder to ours, at the tables' horizons."""
    results, names, paper = done.results, _names(done.results.world), ablation("local_gap")
    ours = done.method(names[OURS])
    region = "out" if "out" in results.regions else "all"
    chosen, away = ours.first.region(region), ours.first.deviations >= FAR - 1e-6
    mine = {source: errors(ours, source) for source in (LOCAL, FED_BACK)}
    rows, words = [], list[str]()
    each = {source: {OURS: bootstrap(found[:, chosen])} for source, found in mine.items()}
    apart: dict[str, list[Interval]] = {}
    records: list[dict[str, Any]] = []
    claims: Claims = ()
    called = _called(done)
    for label in (LEWM, DINO):
        theirs, seen = {source: errors(done.method(names[label]), source) for source in mine}, called[label]
        gaps = {source: (theirs[source] - mine[source])[:, chosen] for source in mine}
        curves = {source: simultaneous(gap) for source, gap in gaps.items()}
        for source, curve in curves.items():
            title = _TITLES[source]
            each[source][seen] = bootstrap(theirs[source][:, chosen])
            apart[f"{seen}, {title}"] = curve
            rows.append((f"{seen} minus {OURS}, {title}", *(with_interval(curve[h - 1]) for h in results.horizons)))
            for h, one in enumerate(curve, start=1):
                numbers = {**one.numbers, "episodes": one.count}
                records.append({"features": seen, "error": title, "region": region, "horizon": h, **numbers})
        widening = beyond(gaps[FED_BACK][..., 1:], gaps[LOCAL][..., 1:])
        less = _relative(mine[LOCAL][:, away], theirs[LOCAL][:, away]) if away.any() else None
        words.append(_said(seen, curves, widening, less))
        if MAIN in results.metrics:
            words.append(_in_metres(done.method(names[label]), ours, seen, region))
        where = results.world.replace("_", " ")
        if label == DINO and less is not None:  # the paper's comparison
            what = f"local error on {OURS}'s features relative to that on {seen}'s, minus 1"
            said = of_the_square(fixed(paper["far"][label], 2), results.world)
            place = f"{where}, laws {FAR} deviations away"
            claims += measure("local_gap", place, what, less, "below", done.seeds, paper=said)
        what = f"gap to {seen} when fed back, minus the size of the local one, mean over h = 2..{results.last}"
        note = "" if label == DINO else "the paper's gap is to DINO"
        if MAIN in results.metrics and verdict(_metres(done.method(names[label]), ours, region)) != "worse":
            note = "; ".join(part for part in (note, f"in metres {OURS}'s features are not certainly ahead") if part)
        claims += measure("rollout_gap", f"{where}, {_where(region)}", what, widening, "above", done.seeds, note=note)
    local, fed_back = (fixed(paper["peak"][source], 2) for source in (LOCAL, FED_BACK))
    caption = (
        f"How much more a fresh GRU errs on other features than on {OURS}'s, {_where(region)}, in squared standard "
        "deviations of the targets. Local: one step from true latents. Intervals (95 %) hold for all horizons at once as to "
        f"episodes. Above zero: SG-JEPA's features are better. What the probes miss of true frames (NMSE): {_floors(done)}. "
        f"The paper's gap to DINO: below {local} one step at a time, near {fed_back} at its largest when fed back (square)."
    )
    head = ("gap", *(f"h = {h}" for h in results.horizons))
    top = max(one.high for curves_ in each.values() for curve in curves_.values() for one in curve)
    measured, pictures = "squared error (deviations²)", list[Picture]()
    for source, curves_ in each.items():
        title = {LOCAL: "One step from true latents", FED_BACK: "On its own predictions"}[source]
        pictures += by_horizon(f"local_gap_{source}", title, measured, curves_, results.horizons, top)
    pictures += by_horizon("local_gap", f"Error minus that on {OURS}'s features", measured, apart, results.horizons)
    shown = (
        f"A fresh GRU on each kind of features, {_where(region)}: teacher-forced and free-running errors by horizon, on one "
        f"scale, and the gaps to {OURS}'s with bands that hold for all horizons at once."
    )
    more = {TABLE: to_csv(records)}
    title = "Before anything is fed back"
    return Finding(title, tuple(words), caption, head, tuple(rows), more, tuple(pictures), shown, claims)


def beyond(fed_back: np.ndarray, local: np.ndarray) -> Interval:
    """By how much the gap when fed back exceeds the local one, whichever side that is on; gaps (seeds, episodes, horizons).

    Above zero only where SG-JEPA's features are ahead once predictions are fed back, and by more than before.
    """
    means = (gap.mean(axis=-1, keepdims=True) for gap in (fed_back, local))
    return bootstrap_of(lambda a, b: a - np.abs(b), *means)[0]


def _relative(one: np.ndarray, other: np.ndarray) -> Interval:
    """mean(one) / mean(other) - 1 over episodes and horizons."""
    means = (values.mean(axis=-1, keepdims=True) for values in (one, other))
    return bootstrap_of(lambda a, b: a / b - 1, *means)[0]


def _said(label: str, curves: dict[str, list[Interval]], widening: Interval, less: Interval | None) -> str:
    parts = []
    for source, title in ((LOCAL, "one step at a time"), (FED_BACK, "fed back")):
        curve = curves[source]
        better, worse = sum(one.low > 0 for one in curve), sum(one.high < 0 for one in curve)
        largest = max(curve, key=lambda one: abs(one.mean))
        parts.append(
            f"{title}, {OURS}'s features are better at {better} of {len(curve)} horizons and worse at {worse} "
            f"(largest gap {fixed(largest.mean, 3)})"
        )
    grows = {
        (True, False): f"puts {OURS}'s features ahead by more",
        (False, True): f"does not put {OURS}'s features ahead by more",
    }.get((widening.low > 0, widening.high < 0), "changes the gap by nothing that these runs can tell")
    away = "" if less is None else f"; far outside, {OURS}'s local error lies {_percent(less)} from {label}'s"
    return f"Against {label}: {parts[0]}; {parts[1]}. Feeding back {grows} ({with_interval(widening)}){away}."


def _metres(other: Method, ours: Method, region: str) -> Interval:
    """The position error of the rollouts minus ours, over all horizons: it does not depend on what else a probe can read."""
    return paired(other, ours, MAIN, [MEAN], region)[MEAN]


def _in_metres(other: Method, ours: Method, seen: str, region: str) -> str:
    said = compare(f"a fresh GRU on {seen}'s features", f"one on {OURS}'s", _metres(other, ours, region))
    return f"In position, fed back, {_where(region)}, on average over the horizons, {said}."


def _called(done: Done) -> dict[str, str]:
    """What the features are called: a foreign encoder by its own name, since at the sizes for a CPU it is not DINOv2."""
    encoders = {label: done.method(name).first.about.encoder for label, name in _names(done.results.world).items()}
    return {label: (encoder or label).partition(" (")[0] for label, encoder in encoders.items()}


def _floors(done: Done) -> str:
    """Mean over trainings of each probe's own error on validation frames."""
    found, called = [], _called(done)
    for label, name in _names(done.results.world).items():
        errors_ = [one.about.scores.probe["validation_nmse"] for one in done.method(name).seeds]
        found.append(f"{called[label]} {fixed(float(np.mean(errors_)), 3)}")
    return join(found)


def _where(region: str) -> str:
    return "out of distribution" if region == "out" else "over all episodes"


def _percent(one: Interval) -> str:
    return f"{fixed(100 * one.mean, 0)} % ({fixed(100 * one.low, 0)} to {fixed(100 * one.high, 0)})"


EXPERIMENT = Experiment(
    name="local_gap",
    question="Is the difference there before anything is fed back?",
    claim="A fresh predictor errs less on SG-JEPA's features one step at a time, and feeding back widens the gap.",
    arms=arms,
    needs=lambda size: [list(_names(WORLDS[size]).values())],
    analyse=answer,
)
