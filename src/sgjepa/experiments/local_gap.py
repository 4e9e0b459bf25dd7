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
from sgjepa.evaluation.metrics import MAIN
from sgjepa.experiments.answer import Answer, Evidence, main_table, region_words
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.experiments.frozen_encoder import fresh, joint, name_of
from sgjepa.experiments.sweep import probe_nmse
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Block, Cell, Data, Text
from sgjepa.report.figures import by_horizon, limits
from sgjepa.report.words import fixed, join, with_interval
from sgjepa.results.claims import WORSE, Claims, measure, verdict
from sgjepa.results.paper_numbers import ablation, of_the_square
from sgjepa.results.selection import MEAN

OURS, LEWM, DINO = "SG-JEPA", "LeWM", "DINO"
LOCAL, FED_BACK = "one_step", "predicted"  # sources of an evaluation
FAR = 4  # standard deviations of the training laws: the paper's g <= 2 or g >= 6
TITLES = {LOCAL: "local", FED_BACK: "fed back"}


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


def errors(evidence: Evidence, label: str, source: str) -> np.ndarray:
    """(seeds, episodes, horizons): what the probe reads of a prediction against what it reads of the true latent."""
    squared = []
    for run in evidence.results.evaluations(_arm(evidence, label)):
        gap = (run.states(source) - run.states("true")) / np.asarray(run.about.target_std)
        squared.append(np.square(gap).mean(axis=-1))
    return np.stack(squared)


def _arm(evidence: Evidence, label: str) -> str:
    return evidence.results.arm(_names(evidence.results.world)[label])


def answer(evidence: Evidence) -> Answer:
    """Local and fed-back gaps of each other encoder to ours, at the tables' horizons."""
    results, paper = evidence.results, ablation("local_gap")
    region = "out" if "out" in results.regions else "all"
    chosen, away = results.region(region), results.deviations >= FAR - 1e-6
    where = f"{results.world.replace('_', ' ')}, {region_words(region)}"
    mine = {source: errors(evidence, OURS, source) for source in (LOCAL, FED_BACK)}
    each = {source: {OURS: bootstrap(values[:, chosen])} for source, values in mine.items()}
    rows, words, apart = list[tuple[Cell, ...]](), list[str](), dict[str, list[Interval]]()
    records: list[dict[str, Any]] = []
    claims: Claims = ()
    for label in (LEWM, DINO):
        theirs, seen = {source: errors(evidence, label, source) for source in mine}, _called(evidence, label)
        gaps = {source: (theirs[source] - mine[source])[:, chosen] for source in mine}
        curves = {source: simultaneous(gap) for source, gap in gaps.items()}
        for source, curve in curves.items():
            each[source][seen] = bootstrap(theirs[source][:, chosen])
            apart[f"{seen}, {TITLES[source]}"] = curve
            rows.append((f"{seen} minus {OURS}, {TITLES[source]}", *(curve[h - 1] for h in results.steps)))
            for h, one in enumerate(curve, start=1):
                about = {"features": seen, "error": TITLES[source], "region": region, "horizon": h}
                records.append({**about, **one.numbers, "episodes": one.count})
        widening = beyond(gaps[FED_BACK][..., 1:], gaps[LOCAL][..., 1:])
        words.append(_said(seen, curves, widening))
        if label == DINO and away.any():  # the paper's comparison
            less = _relative(mine[LOCAL][:, away], theirs[LOCAL][:, away])
            what = f"local error on {OURS}'s features relative to that on {seen}'s, minus 1"
            far = f"{results.world.replace('_', ' ')}, laws {FAR} deviations away"
            says = of_the_square(fixed(paper["far"][label], 2), results.world)
            claims += measure("local_gap", far, what, less, "below", results.trainings(), paper=says)
        what = f"gap to {seen} when fed back, minus the size of the local one, mean over h = 2..{results.horizons}"
        notes = [] if label == DINO else ["the paper's gap is to DINO"]
        # in metres: it does not depend on what else a probe can read
        if MAIN in results.metrics:
            metres = results.gap(_arm(evidence, label), _arm(evidence, OURS), MAIN, MEAN, region)
            notes += [] if verdict(metres) == WORSE else [f"in metres {OURS}'s features are not certainly ahead"]
        claims += measure("rollout_gap", where, what, widening, "above", results.trainings(), note="; ".join(notes))
    local, fed_back = (fixed(paper["peak"][source], 2) for source in (LOCAL, FED_BACK))
    labels = _names(results.world)
    floors = {_called(evidence, label): probe_nmse(evidence, _arm(evidence, label)).mean() for label in labels}
    missed = join([f"{name} {fixed(floor, 3)}" for name, floor in floors.items()])
    caption = (
        f"How much more a fresh GRU errs on other features than on {OURS}'s, {region_words(region)}, in squared standard "
        "deviations of the targets. Local: one step from true latents. Intervals hold for all horizons at once as to "
        f"episodes. Above zero: SG-JEPA's features are better. What the probes miss of true frames (NMSE): {missed}. "
        f"The paper's gap to DINO: below {local} one step at a time, near {fed_back} at its largest when fed back (square)."
    )
    measured, scale = "squared error (deviations²)", limits(*(curve for by in each.values() for curve in by.values()))
    titles = {LOCAL: "One step from true latents", FED_BACK: "On its own predictions"}
    blocks: list[Block | None] = [
        Text(f"Errors by horizon {region_words(region)}, on one scale, and the gaps to {OURS}'s.", quiet=True)
    ]
    for source, by in each.items():
        blocks.append(by_horizon(f"local_gap_{source}", titles[source], measured, by, results.steps, scale=scale))
    blocks.append(by_horizon("local_gap", f"Error minus that on {OURS}'s features", measured, apart, results.steps))
    table = main_table(("gap", *(f"h = {h}" for h in results.steps)), rows, caption)
    return Answer("Before anything is fed back", words, [*blocks, table, Data("local_gap", records)], claims)


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


def _said(label: str, curves: dict[str, list[Interval]], widening: Interval) -> str:
    """At how many horizons our features are ahead, and whether feeding back puts them ahead by more."""
    parts = []
    for source, curve in curves.items():
        better, worse = sum(one.low > 0 for one in curve), sum(one.high < 0 for one in curve)
        parts.append(f"{TITLES[source]} better at {better} of {len(curve)} horizons and worse at {worse}")
    grows = (
        "ahead by more" if widening.low > 0 else "not ahead by more" if widening.high < 0 else "not significantly further"
    )
    return (
        f"Against {label}, {OURS}'s features are {' and '.join(parts)}; feeding back puts them {grows} "
        f"({with_interval(widening)})."
    )


def _called(evidence: Evidence, label: str) -> str:
    """What the features are called: a foreign encoder by its own name, since at the sizes for a CPU it is not DINOv2."""
    encoder = evidence.results.evaluations(_arm(evidence, label))[0].about.encoder
    return (encoder or label).partition(" (")[0]


EXPERIMENT = Experiment(
    name="local_gap",
    question="Is the difference there before anything is fed back?",
    claim="A fresh predictor errs less on SG-JEPA's features one step at a time, and feeding back widens the gap.",
    arms=arms,
    needs=lambda size: [list(_names(WORLDS[size]).values())],
    analyse=answer,
)
