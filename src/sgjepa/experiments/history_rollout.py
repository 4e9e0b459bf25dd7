"""How many frames, how many steps fed back, and what does that cost? H, K and the weight of SIGReg on Approach Ball.

The paper takes (H, K) = (20, 5), (20, 10), (30, 10), (30, 20), each with three weights, and chooses (20, 5). Mini and small
recipes have H = 10, K = 5 and stretches of 24 frames: there (10, 5), (10, 10), (15, 5), (15, 7), with one, two and four
times the recipe's weight, as in the paper; in each of them three windows of a stretch find room. Within each (H, K) the
probe's validation NMSE chooses the weight; test episodes choose nothing. All are given 20 true frames (30 at paper size).

Memory is the peak of the training's process (of the GPU's own where there is one), seconds are those of the training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from sgjepa.core.stats import Interval
from sgjepa.experiments import sweep
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.sweep import Column, Measured, Panel, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Block
from sgjepa.report.figures import against_setting
from sgjepa.report.words import compare, fixed
from sgjepa.results.claims import Claims, measure
from sgjepa.results.selection import MEAN

LENGTHS = {"paper": ((20, 5), (20, 10), (30, 10), (30, 20))}  # H and K; the recipe's own first
ON_CPU = ((10, 5), (10, 10), (15, 5), (15, 7))
MULTIPLES = (1, 2, 4)  # of the recipe's weight
HORIZONS = (20, 32)
MARGIN = 0.05  # of the error, that a shorter one may cost and still be enough
PROBE, SECONDS = "probe NMSE", "seconds"


def settings(size: str) -> list[Setting]:
    """The GRU's recipe with each length and weight."""
    base = recipe("approach_ball_gru", size)
    loss: Any = base.loss
    arms = []
    for (history, steps), multiple in product(LENGTHS.get(size, ON_CPU), MULTIPLES):
        weight = float(f"{multiple * base.loss.sigreg:.3g}")
        frames = base.train.frames if base.loss.windows == "dense" else history + steps
        name = f"{base.name}_h{history}_k{steps}_w{weight:g}"
        train, objective = replace(base.train, frames=frames), replace(loss, sigreg=weight, steps=steps)
        run = replace(base, name=name, model=replace(base.model, history=history), loss=objective, train=train)
        length, values = f"H = {history}, K = {steps}", (str(history), str(steps), f"{weight:g}")
        arms.append(Setting(run, label=f"{length}, weight {weight:g}", values=values, x=weight, line=length))
    return arms


def columns(evidence: Evidence) -> list[Column]:
    """What chooses the weight, what rollouts come to, and the cost."""
    chooses = Panel("history_rollout_probe", "By weight", "probe NMSE on validation frames", "weight of SIGReg", log=True)
    return [
        Column(PROBE, sweep.probe_nmse, 4, chooses, judged=True),
        Column("probe NMSE, test", sweep.error("nmse", MEAN, "true")),
        *(Column(f"rollout NMSE at h = {h}", sweep.error("nmse", h)) for h in sweep.up_to_last(evidence, HORIZONS)),
        Column("peak memory (GiB)", sweep.training_memory, 2),
        Column(SECONDS, sweep.training_seconds, 0),
    ]


def chosen_lengths(evidence: Evidence, measured: Measured) -> tuple[Sequence[str], Sequence[Block | None], Claims]:
    """Each (H, K) with the weight that its probe chose: against the recipe's own lengths, and in figures."""
    results, h, blocks = evidence.results, sweep.up_to_last(evidence, HORIZONS)[-1], list[Block | None]()
    chosen = choices(measured)
    names = {float(x): ", ".join(length) for x, length in enumerate(chosen, start=1)}
    rollouts = {f"rollout NMSE at h = {step}": "errors" for step in sweep.up_to_last(evidence, HORIZONS)}
    for head, file in {**rollouts, "peak memory (GiB)": "memory", SECONDS: "seconds"}.items():
        points = [(x, sweep.interval(measured[arm][1][head])) for x, arm in zip(names, chosen.values(), strict=True)]
        end = head.rpartition(" ")[2] if file == "errors" else ""
        figure = against_setting(
            f"history_rollout_{file}{end}", "With the chosen weights", "H, K", head, {head: points}, names=names
        )
        blocks.append(figure)
    usual, *others = chosen.values()
    words = []
    for arm in others:
        times = measured[arm][1][SECONDS].mean() / max(measured[usual][1][SECONDS].mean(), 1e-9)
        gap = results.gap(arm, usual, "nmse", h)
        words.append(
            f"{compare(arm, usual, gap, 'nmse', results.decides(arm, usual))} at h = {h}, "
            f"in {fixed(times, 2)} times the training time."
        )
    return words, blocks, enough(evidence, measured, h)


def choices(measured: Measured) -> dict[tuple[str, ...], str]:
    """For each (H, K) the arm whose weight has the lowest probe NMSE on validation frames."""
    by_length: dict[tuple[str, ...], list[str]] = {}
    for arm, (setting, _) in measured.items():
        by_length.setdefault(setting.values[:2], []).append(arm)
    return {length: min(arms, key=lambda arm: measured[arm][1][PROBE].mean()) for length, arms in by_length.items()}


def enough(evidence: Evidence, measured: Measured, horizon: int) -> Claims:
    """Lengths against longer ones, one thing at a time: enough if the error is not larger by more than a margin.

    K = 5 is asked of the recipe's own lengths, its H also beside another K: at paper size (20, 10) against (30, 10), since
    no other pair there differs in H alone.
    """
    claims, results = Claims(), evidence.results
    weights = Counter(setting.values[:2] for setting, _ in measured.values())  # tried, by length
    recipes = {tuple(map(str, lengths[0])) for lengths in (LENGTHS["paper"], ON_CPU)}
    for (short, usual), (longer, other) in combinations(choices(measured).items(), 2):
        if short in recipes and short[0] == longer[0]:
            claim = "five_steps"
        elif short[0] in {history for history, _ in recipes} and short[1] == longer[1]:
            claim = "twenty_frames"
        else:
            continue
        times = results.ratio(usual, other, "nmse", [horizon])[horizon]
        more = Interval(times.mean - 1, times.low - 1, times.high - 1, times.count)
        tried = min(weights[short], weights[longer])
        how = f"chosen of {tried} on validation frames" if tried > 1 else "not chosen for these lengths"
        mine, theirs = measured[usual][0].x, measured[other][0].x
        claims += measure(
            claim,
            f"approach ball, H = {short[0]}, K = {short[1]}",
            f"NMSE at h = {horizon} relative to H = {longer[0]}, K = {longer[1]}, minus 1 (enough below {MARGIN})",
            more,
            "below",
            results.trainings(usual, other),
            bound=MARGIN,
            note=f"weights {mine:g} and {theirs:g}, {how}",
        )
    return claims


EXPERIMENT = sweep.sweep(
    name="history_rollout",
    question="How many frames, how many steps fed back, and what does that cost?",
    claim="H = 20 and K = 5 suffice: longer ones cost more and gain nothing.",
    settings=settings,
    heads=("H", "K", "weight"),
    columns=columns,
    caption="Every length and weight: probe, rollouts on the test episodes, cost.",
    more=chosen_lengths,
    seeds=sweep.THRICE,
    context={"paper": 30},
)
