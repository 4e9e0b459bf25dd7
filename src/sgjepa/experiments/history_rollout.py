"""How many frames, how many steps fed back, and what does that cost? H, K and the weight of SIGReg on Approach Ball.

The paper takes (H, K) = (20, 5), (20, 10), (30, 10), (30, 20), each with three weights, and chooses (20, 5). Mini and small
recipes have H = 10, K = 5 and stretches of 24 frames: there (10, 5), (10, 10), (15, 5), (15, 7), with one, two and four
times the recipe's weight, as in the paper; in each of them three windows of a stretch find room. Within each (H, K) the
probe's validation NMSE chooses the weight; test episodes choose nothing. All are given 20 true frames (30 at paper size).

Memory is the peak of the training's process (of the GPU's own where there is one), seconds are those of the training.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

from sgjepa.core.stats import Interval
from sgjepa.experiments import sweep
from sgjepa.experiments.engine import Done, Experiment
from sgjepa.experiments.sweep import Column, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import compare, fixed
from sgjepa.results.claims import Claims, measure
from sgjepa.results.compare import MEAN, Method, paired, ratio
from sgjepa.results.training import cost, peak_memory

WORLD, SIZES = "approach_ball", ("mini", "small", "paper")
LENGTHS = {  # H and K; the recipe's own first
    "paper": ((20, 5), (20, 10), (30, 10), (30, 20)),
    "mini": ((10, 5), (10, 10), (15, 5), (15, 7)),
    "small": ((10, 5), (10, 10), (15, 5), (15, 7)),
}
MULTIPLES = (1, 2, 4)  # of the recipe's weight
CONTEXT = {"paper": 30}
HORIZONS = (20, 32)
MARGIN = 0.05  # of the error, that a shorter one may cost and still be enough
TABLE = "tables/history_rollout.csv"


def points(size: str) -> list[Setting]:
    """The GRU's recipe with each length and weight."""
    base = recipe(f"{WORLD}_gru", size)
    found = []
    for history, steps in LENGTHS[size]:
        for multiple in MULTIPLES:
            weight = float(f"{multiple * base.loss.sigreg:.3g}")
            frames = base.train.frames if base.loss.windows == "dense" else history + steps
            loss: Any = replace(base.loss, sigreg=weight)
            model, loss = replace(base.model, history=history), replace(loss, steps=steps)
            name = f"{base.name}_h{history}_k{steps}_w{weight:g}"
            run = replace(base, name=name, model=model, loss=loss, train=replace(base.train, frames=frames))
            label = f"H = {history}, K = {steps}, weight {weight:g}"
            found.append(Setting(run, label=label, values=(str(history), str(steps), f"{weight:g}"), x=weight))
    return found


def seconds(method: Method) -> Interval:
    """Of a whole training."""
    return sweep.over_trainings([cost(one).seconds for one in method.seeds])


def memory(method: Method) -> Interval:
    """Peak GiB of a training."""
    return sweep.over_trainings([peak_memory(one) for one in method.seeds])


def analyse(done: Done) -> Finding:
    """The report's section: each (H, K) with the weight that its probe chose, against the recipe's own lengths."""
    found = list(sweep.there(done, points, SIZES).values())
    horizons = tuple(dict.fromkeys(min(h, done.results.last) for h in HORIZONS))
    columns = [
        Column("probe NMSE", sweep.probe_nmse, 4),
        Column("probe NMSE, test", _probe_on_test),
        *(Column(f"rollout NMSE at h = {h}", sweep.error("nmse", h)) for h in horizons),
        Column("peak memory (GiB)", memory, 2),
        Column("seconds", seconds, 0),
    ]
    head, rows, text = sweep.table("history_rollout", ("H", "K", "weight"), columns, found)
    chosen = choices(found)
    words: list[str] = []
    probes = {point.label: sweep.probe_nmses(method) for point, method in found}
    words.append(sweep.lowest(probes, "probe NMSE on validation frames", 4))
    words += _against_the_first(chosen, horizons[-1])
    curves: dict[str, Any] = {
        f"H = {h}, K = {k}": [(point.x, sweep.probe_nmse(method)) for point, method in found if point.values[:2] == (h, k)]
        for h, k in dict.fromkeys(point.values[:2] for point, _ in found)
    }
    measured = "probe NMSE on validation frames"
    pictures = against_setting("history_rollout_probe", "By weight", "weight of SIGReg", measured, curves, log=True)
    at_end = {
        f"h = {h}": [(float(i), method.at("nmse", [h])[h]) for i, (_, method) in enumerate(chosen.values(), start=1)]
        for h in horizons
    }
    names = {float(i): f"{h}, {k}" for i, (h, k) in enumerate(chosen, start=1)}
    several = len(chosen) < len(found)  # weights of a length, from which its probe chooses
    title = "With the chosen weights" if several else "At two horizons"
    pictures += against_setting("history_rollout_errors", title, "H, K", "rollout NMSE", at_end, names=names)
    costs = {"peak memory (GiB)": ("memory", memory), "seconds": ("seconds", seconds)}
    title = "What a training took"
    for measured, (name, of) in costs.items():
        there = {measured: [(float(i), of(method)) for i, (_, method) in enumerate(chosen.values(), start=1)]}
        pictures += against_setting(f"history_rollout_{name}", title, "H, K", measured, there, names=names)
    title = "How many frames, how many steps fed back?"
    about = sweep.caption("history_rollout", "Every length and weight: probe, rollouts on the test episodes, cost.")
    what = "What chooses the weight; rollouts with the chosen weights" if several else "The probe; rollouts"
    shown = f"{what}, and what their trainings took. Whiskers: 95 % intervals."
    said, drawn, claims = (*words, *sweep.once(done)), tuple(pictures), enough(found, horizons[-1])
    return Finding(title, said, about, head, rows, {TABLE: text}, drawn, shown, claims)


def choices(found: list[tuple[Setting, Method]]) -> dict[tuple[str, ...], tuple[Setting, Method]]:
    """For each (H, K), the weight with the lowest probe NMSE on validation frames."""
    by_length: dict[tuple[str, ...], list[tuple[Setting, Method]]] = {}
    for point, method in found:
        by_length.setdefault(point.values[:2], []).append((point, method))
    return {length: min(some, key=lambda pair: sweep.probe_nmse(pair[1]).mean) for length, some in by_length.items()}


def enough(found: list[tuple[Setting, Method]], horizon: int) -> Claims:
    """Lengths against longer ones, one thing at a time: enough if the error is not larger by more than a margin.

    K = 5 is asked of the recipe's own lengths, its H also beside another K: at paper size (20, 10) against (30, 10), since
    no other pair there differs in H alone.
    """
    claims, chosen = Claims(), choices(found)
    weights = Counter(point.values[:2] for point, _ in found)  # tried, by length
    recipes = {tuple(map(str, lengths[0])) for lengths in LENGTHS.values()}
    for (short, (mine, usual)), (longer, (other, method)) in combinations(chosen.items(), 2):
        if short in recipes and short[0] == longer[0]:
            claim = "five_steps"
        elif short[0] in {history for history, _ in recipes} and short[1] == longer[1]:
            claim = "twenty_frames"
        else:
            continue
        found_ = ratio(usual, method, "nmse", [horizon])[horizon]
        more = Interval(found_.mean - 1, found_.low - 1, found_.high - 1, found_.count)
        where = f"approach ball, H = {short[0]}, K = {short[1]}"
        what = f"NMSE at h = {horizon} relative to H = {longer[0]}, K = {longer[1]}, minus 1 (enough below {MARGIN})"
        seeds, tried = min(len(usual.seeds), len(method.seeds)), min(weights[short], weights[longer])
        how = f"chosen of {tried} on validation frames" if tried > 1 else "not chosen for these lengths"
        note = f"weights {mine.x:g} and {other.x:g}, {how}"
        claims += measure(claim, where, what, more, "below", seeds, bound=MARGIN, note=note)
    return claims


def _against_the_first(chosen: dict[tuple[str, ...], tuple[Setting, Method]], horizon: int) -> list[str]:
    """What longer ones gain and cost."""
    (_, usual), *others = chosen.values()
    said = []
    for point, method in others:
        difference = paired(method, usual, "nmse", [horizon])[horizon]
        times = seconds(method).mean / max(seconds(usual).mean, 1e-9)
        words = compare(point.label, usual.label, difference, "nmse")
        said.append(f"{words} at h = {horizon}; its training took {fixed(times, 2)} times as long.")
    return said


def _probe_on_test(method: Method) -> Interval:
    """Over all test episodes and frames."""
    return method.at("nmse", [MEAN], "true")[MEAN]


EXPERIMENT = Experiment(
    name="history_rollout",
    question="How many frames, how many steps fed back, and what does that cost?",
    claim="H = 20 and K = 5 suffice: longer ones cost more and gain nothing.",
    arms=points,
    analyse=analyse,
    context=CONTEXT,
)
