"""How much history does a representation need? Fresh predictors that see only the last m latents, on frozen encoders.

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
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.experiments.frozen_encoder import PREDICTORS, fresh, joint, label_of, name_of
from sgjepa.report.blocks import Block, Cell, Data, Text
from sgjepa.report.figures import against_setting
from sgjepa.report.words import fixed, signed
from sgjepa.results.claims import BETTER, UNDECIDED, WORSE, measure, verdict
from sgjepa.results.paper_numbers import ablation, of_the_square

SHORT = (2, 4, 8)  # latents that are visible, beside the whole history
MAIN_SHORT = 4  # the paper's comparison
FIRST = 5  # horizons of the short average
ENDPOINT = "excess_nmse"  # at h: the mean over 1..h
PAIRS = tuple(product(PREDICTORS, PREDICTORS))  # predictor, encoder
VERDICT_WORDS = {
    WORSE: "a short history costs the encoder that was trained with the Transformer more",
    BETTER: "a short history costs the encoder that was trained with the GRU more",
    UNDECIDED: "what a short history costs the two encoders does not differ significantly",
}


def arms(size: str) -> list[Training]:
    """Two joint trainings; for each encoder two predictors with every history. The complete one is that of `crossover`."""
    compared = [joint(source, size) for source in PREDICTORS]
    for whole in (fresh(*pair, size) for pair in PAIRS):
        compared += [whole, *(shortened(whole, visible) for visible in SHORT)]
    return compared


def needs(size: str) -> list[list[str]]:
    """The paper's comparison: both predictors on both encoders, with few latents and with all."""
    return [[f"{name_of(WORLDS[size], *pair)}{end}" for pair in PAIRS for end in ("", f"_m{MAIN_SHORT}")]]


def shortened(arm: Training, visible: int) -> Training:
    """An arm with `visible` latents; windows begin later, so that the predicted frames are the same."""
    run = arm.run
    train = replace(run.train, skip=run.train.skip + run.history - visible)
    model, loss = replace(run.model, history=visible), replace(run.loss, windows="dense")
    run = replace(run, name=f"{run.name}_m{visible}", model=model, loss=loss, train=train)
    return replace(arm, run=run, label=f"{arm.label}, {visible} latents")


def penalties(evidence: Evidence, visible: int) -> dict[tuple[str, str], np.ndarray]:
    """Penalties (seeds, episodes, 2) of a short history by predictor and encoder, over the first horizons and over all."""
    added = {}
    for pair in PAIRS:
        name = name_of(evidence.results.world, *pair)
        short, whole = (evidence.values(arm_name, ENDPOINT) for arm_name in (f"{name}_m{visible}", name))
        added[pair] = (short - whole)[..., [FIRST - 1, evidence.results.horizons - 1]]
    return added


def by_encoder(evidence: Evidence, visible: int) -> dict[str, np.ndarray]:
    """The mean penalty over the fresh predictors, by encoder."""
    added = penalties(evidence, visible)
    return {source: np.mean([added[predictor, source] for predictor in PREDICTORS], axis=0) for source in PREDICTORS}


def answer(evidence: Evidence) -> Answer:
    """Penalties by encoder, predictor and history, and the difference of the encoders."""
    results = evidence.results
    spans = (f"h = 1..{FIRST}", f"h = 1..{results.horizons}")
    pairs = [name_of(results.world, *pair) for pair in PAIRS]
    tried = [m for m in SHORT if m == MAIN_SHORT or evidence.has(*(f"{pair}_m{m}" for pair in pairs))]
    means = {m: by_encoder(evidence, m) for m in tried}
    rows, records = list[tuple[Cell, ...]](), list[dict[str, Any]]()

    def add(label: str, visible: int, values: np.ndarray) -> list[Interval]:
        intervals = bootstrap(values)
        rows.append((label, str(visible), *intervals))
        for span, entry in zip(spans, intervals, strict=True):
            records.append({"what": label, "visible": visible, "over": span, **entry.numbers})
        return intervals

    differences, costs = dict[int, list[Interval]](), dict[tuple[str, int], list[Interval]]()
    for m in tried:
        for pair, values in penalties(evidence, m).items():
            add(label_of(*pair), m, values)
        for source, values in means[m].items():
            costs[source, m] = add(f"{PREDICTORS[source]}'s encoder, both predictors", m, values)
        differences[m] = add("Transformer's encoder minus GRU's", m, means[m]["transformer"] - means[m]["gru"])
    paper = ablation("history")["penalty"]
    claims = measure(
        "short_history",
        f"{results.world.replace('_', ' ')}, {spans[1]}",
        f"penalty in excess NMSE of {MAIN_SHORT} visible latents instead of all, Transformer's encoder minus GRU's",
        differences[MAIN_SHORT][1],
        "above",
        results.trainings(),
        paper=of_the_square(fixed(paper["44"], 3), results.world),
    )
    caption = (
        "What a short history adds to the excess NMSE, on the same episodes: above zero it costs. The paper's difference "
        f"for {MAIN_SHORT} latents instead of 20: {paper['5']} and {paper['44']} (square)."
    )
    blocks: list[Block | None] = [
        Text("What m visible latents cost each encoder; mean of both fresh predictors.", quiet=True)
    ]
    for i, (span, file) in enumerate(zip(spans, ("first", "all"), strict=True)):
        curves = {
            f"{label}'s encoder": [(float(m), costs[source, m][i]) for m in tried] for source, label in PREDICTORS.items()
        }
        how = (f"Over {span}", "latents visible, m", "penalty in excess NMSE", curves)
        figure = against_setting(f"history_penalty_{file}", *how, log=True)
        blocks.append(figure)
    heads = ("encoder and predictor", "latents visible", *spans)
    blocks += [main_table(heads, rows, caption), Data("history", records)]
    words = [
        f"Over {span}, {VERDICT_WORDS[verdict(entry)]} ({MAIN_SHORT} latents visible: {signed(entry, ENDPOINT)})."
        for span, entry in zip(spans, differences[MAIN_SHORT], strict=True)
    ]
    return Answer("What a short history costs", words, blocks, claims)


EXPERIMENT = Experiment(
    name="history",
    question="How much history does a representation need?",
    claim="The encoder that was trained with the GRU loses less from a short history over a long rollout.",
    arms=arms,
    needs=needs,
    analyse=answer,
)
