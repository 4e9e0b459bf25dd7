"""How much history does a representation need? Fresh predictors that see the last m latents alone, on frozen encoders.

For the encoders of joint GRU and joint Transformer trainings, and a fresh GRU and a fresh Transformer on each: only the m
newest latents are visible, and the frames to be predicted are the same whatever m is (`Train.skip`). The penalty of a short
history is the excess NMSE with it minus that with the whole history, over the first five horizons and over all, on the same
episodes. An encoder that leaves in each latent what the next step needs has a small penalty.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from sgjepa.core.stats import Interval, bootstrap
from sgjepa.core.tables import to_csv
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.experiments.frozen_encoder import PREDICTORS, fresh, joint, label_of, name_of
from sgjepa.report.content import Finding
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import fixed, signed, with_interval
from sgjepa.results.claims import measure
from sgjepa.results.compare import verdict
from sgjepa.results.paper_numbers import ablation, of_the_square

SHORT = (2, 4, 8)  # latents that are visible, beside the whole history
MAIN_SHORT = 4  # the paper's comparison
FIRST = 5  # horizons of the short average
ENDPOINT = "excess_nmse"  # at h: the mean over 1..h
TABLE = "tables/history.csv"


def arms(size: str) -> list[Training]:
    """Two joint trainings; for each encoder two predictors with every history. The whole one is that of `crossover`."""
    found = [joint(source, size) for source in PREDICTORS]
    for predictor, source in product(PREDICTORS, PREDICTORS):
        whole = fresh(predictor, source, size)
        found += [whole, *(shortened(whole, visible) for visible in SHORT)]
    return found


def needs(size: str) -> list[list[str]]:
    """The paper's comparison: both predictors on both encoders, with few latents and with all."""
    pairs = [name_of(WORLDS[size], *pair) for pair in product(PREDICTORS, PREDICTORS)]
    return [[f"{pair}{end}" for pair in pairs for end in ("", f"_m{MAIN_SHORT}")]]


def shortened(arm: Training, visible: int) -> Training:
    """The same with so many latents visible; windows begin so much later that they answer the same frames."""
    run = arm.run
    train = replace(run.train, skip=run.train.skip + run.history - visible)
    model, loss = replace(run.model, history=visible), replace(run.loss, windows="dense")
    run = replace(run, name=f"{run.name}_m{visible}", model=model, loss=loss, train=train)
    return replace(arm, run=run, label=f"{arm.label}, {visible} latents")


def shorts(done: Done) -> list[int]:
    """The histories that were asked for. The paper's comparison needs its own."""
    pairs = [name_of(done.results.world, *pair) for pair in product(PREDICTORS, PREDICTORS)]
    return [m for m in SHORT if m == MAIN_SHORT or done.has(*(f"{pair}_m{m}" for pair in pairs))]


def penalties(done: Done, visible: int) -> dict[tuple[str, str], np.ndarray]:
    """By predictor and encoder: what a short history adds, (seeds, episodes, 2): over the first horizons, over all."""
    found = {}
    for predictor, source in product(PREDICTORS, PREDICTORS):
        name = name_of(done.results.world, predictor, source)
        short, whole = (done.method(one).stack(ENDPOINT) for one in (f"{name}_m{visible}", name))
        found[predictor, source] = (short - whole)[..., [FIRST - 1, done.results.last - 1]]
    return found


def by_encoder(done: Done, visible: int) -> dict[str, np.ndarray]:
    """The mean over the fresh predictors."""
    found = penalties(done, visible)
    return {source: np.mean([found[predictor, source] for predictor in PREDICTORS], axis=0) for source in PREDICTORS}


def answer(done: Done) -> Finding:
    """The report's section: penalties by encoder, predictor and history, and whose encoder pays more."""
    last = done.results.last
    spans = (f"h = 1..{FIRST}", f"h = 1..{last}")
    rows, records = [], list[dict[str, Any]]()

    def add(label: str, visible: int, found: list[Interval]) -> None:
        rows.append((label, str(visible), *(with_interval(one) for one in found)))
        for span, one in zip(spans, found, strict=True):
            records.append({"what": label, "visible": visible, "over": span, **one.numbers})

    for visible in shorts(done):
        for (predictor, source), values in penalties(done, visible).items():
            add(label_of(predictor, source), visible, bootstrap(values))
        means = by_encoder(done, visible)
        for source, values in means.items():
            add(f"{PREDICTORS[source]}'s encoder, both predictors", visible, bootstrap(values))
        add("Transformer's encoder minus GRU's", visible, bootstrap(means["transformer"] - means["gru"]))
    means = by_encoder(done, MAIN_SHORT)
    differences = bootstrap(means["transformer"] - means["gru"])
    words = tuple(_said(span, one) for span, one in zip(spans, differences, strict=True))
    paper = ablation("history")["penalty"]
    claims = measure(
        "short_history",
        f"{done.results.world.replace('_', ' ')}, {spans[1]}",
        f"penalty in excess NMSE of {MAIN_SHORT} visible latents instead of all, Transformer's encoder minus GRU's",
        differences[1],
        "above",
        done.seeds,
        paper=of_the_square(fixed(paper["44"], 3), done.results.world),
    )
    caption = (
        "What a short history adds to the excess NMSE, with 95 % intervals over the same episodes: above zero it costs. "
        f"The paper's difference for {MAIN_SHORT} latents instead of 20: {paper['5']} and {paper['44']} (square)."
    )
    head = ("encoder and predictor", "latents visible", *spans)
    pictures = []
    for i, (span, name) in enumerate(zip(spans, ("first", "all"), strict=True)):
        curves = {
            f"{label}'s encoder": [(float(m), bootstrap(by_encoder(done, m)[source])[i]) for m in shorts(done)]
            for source, label in PREDICTORS.items()
        }
        pictures += against_setting(
            f"history_penalty_{name}", f"Over {span}", "latents visible, m", "penalty in excess NMSE", curves, log=True
        )
    shown = "What m visible latents cost each encoder, against the whole history; mean of both fresh predictors."
    more = {TABLE: to_csv(records)}
    return Finding("How much history?", words, caption, head, tuple(rows), more, tuple(pictures), shown, claims)


def _said(span: str, difference: Interval) -> str:
    said = {
        "worse": "a short history costs the encoder that was trained with the Transformer more",
        "better": "a short history costs the encoder that was trained with the GRU more",
        "undecided": "these runs cannot tell which encoder a short history costs more",
    }[verdict(difference)]
    return f"Over {span}, {said} ({MAIN_SHORT} latents visible: {signed(difference, ENDPOINT)})."


EXPERIMENT = Experiment(
    name="history",
    question="How much history does a representation need?",
    claim="The encoder that was trained with the GRU loses less from a short history over a long rollout.",
    arms=arms,
    needs=needs,
    analyse=answer,
)
