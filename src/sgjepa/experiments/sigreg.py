"""How strong should SIGReg be? Five weights: the raw statistic, the effective rank, probes, and the error by law.

The paper takes 0.09 to 1.44 on the square, twice as much each time, and chooses 0.72. Its own size has that grid. The sizes
for a CPU have one test over all frames of an update, whose weight is another one: they take the grid from which their
recipes' weight was chosen (experiments/hyperparameters.py), 0.01 to 0.18, so that the two share trainings. At mini size the
world is Approach Ball.

A low statistic alone says little: it measures agreement with a Gaussian, not how many directions carry something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sgjepa.core.stats import Interval
from sgjepa.core.tables import to_csv
from sgjepa.experiments import sweep
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.experiments.sweep import Column, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.sweep_figures import against_setting, by_law
from sgjepa.report.words import fixed, join
from sgjepa.results.claims import Claims, measure
from sgjepa.results.compare import Method
from sgjepa.results.gather import MAIN
from sgjepa.results.training import curve

WEIGHTS = {"paper": (0.09, 0.18, 0.36, 0.72, 1.44)}
ON_CPU = (0.01, 0.02, 0.045, 0.09, 0.18)  # of one test over all frames of an update, the recipe's among them
HORIZONS = (5, 20, 44)
TABLE, LAWS = "tables/sigreg.csv", "tables/sigreg_by_law.csv"


def points(size: str) -> list[Setting]:
    """The GRU's recipe with each weight."""
    base = recipe(f"{WORLDS[size]}_gru", size)
    found = []
    for weight in WEIGHTS.get(size, ON_CPU):
        run = replace(base, name=f"{base.name}_w{weight:g}", loss=replace(base.loss, sigreg=weight))
        found.append(Setting(run, label=f"weight {weight:g}", values=(f"{weight:g}",), x=weight))
    return found


def statistic(method: Method) -> Interval:
    """SIGReg itself, before weighting, at the last validation."""
    return sweep.over_trainings([float(curve(one, "sigreg")[-1, 1]) for one in method.seeds])


def analyse(done: Done) -> Finding:
    """The report's section."""
    return finding(done, sweep.linear_probes(done))


def finding(done: Done, linear: Mapping[str, Sequence[float]]) -> Finding:
    """linear: the linear probes' errors, by cell."""
    found = list(sweep.there(done, points, list(WORLDS)).values())
    methods = [method for _, method in found]
    horizons = tuple(dict.fromkeys(min(h, done.results.last) for h in HORIZONS))

    def of_linear(method: Method) -> Interval:
        return sweep.over_trainings(linear[method.name])

    columns = [
        Column("SIGReg statistic", statistic),
        Column("effective rank", sweep.rank, 1),
        Column("linear probe NMSE", of_linear, 4),
        Column("probe NMSE", sweep.probe_nmse, 4),
        *(Column(f"NMSE at h = {h}", sweep.error("nmse", h)) for h in horizons),
        Column(f"position error at h = {horizons[-1]} (m)", sweep.error(MAIN, horizons[-1])),
    ]
    head, rows, text = sweep.table("sigreg", ("weight",), columns, found)
    words = (
        ranks(found),
        sweep.lowest({method.label: linear[method.name] for method in methods}, "linear-probe NMSE", 4),
        *(sweep.least(methods, "nmse", h) for h in horizons),
        *sweep.once(done),
    )
    measured = {"sigreg_statistic": columns[0], "sigreg_rank": columns[1]}
    pictures = [
        picture
        for name, column in measured.items()
        for picture in against_setting(
            name,
            column.head,
            "weight of SIGReg",
            column.head,
            {column.head: [(point.x, column.of(method)) for point, method in found]},
            log=True,
        )
    ]
    probes = {"linear probe": of_linear, "MLP probe": sweep.probe_nmse}
    read = {name: [(point.x, of(method)) for point, method in found] for name, of in probes.items()}
    how = ("Probes", "weight of SIGReg", "NMSE on validation frames")
    pictures += against_setting("sigreg_probes", *how, read, log=True)
    axes = done.results.axes[:1]
    pictures += [picture for axis in axes for h in horizons for picture in by_law(methods, "nmse", h, axis)]
    by_laws = [
        {"cell": m.name, axis.name: value, "horizon": h, "nmse": one.mean, "low": one.low, "high": one.high}
        for axis in axes
        for m in methods
        for h in horizons
        for (value,), one in m.by_law("nmse", h, [axis.name]).items()
    ]
    more = {TABLE: text, **({LAWS: to_csv(by_laws)} if by_laws else {})}
    title, about = (
        "How strong should SIGReg be?",
        sweep.caption("sigreg", "Every weight, last validation and test episodes."),
    )
    shown = "Statistic, rank and probes against the weight, and the rollouts' NMSE by law; yellow: the training laws."
    return Finding(title, words, about, head, rows, more, tuple(pictures), shown, grows(done, found))


def grows(done: Done, found: list[tuple[Setting, Method]]) -> Claims:
    """What a doubling of the weight adds to the effective rank, up to the recipe's weight, over trainings."""
    world, _, size = found[0][0].run.data[0].rpartition("-")  # a dataset's usual name is WORLD-SIZE
    chosen = recipe(f"{world}_gru", size).loss.sigreg
    along = per_doubling([(point, method) for point, method in found if point.x <= chosen * (1 + 1e-6)])
    if not along:
        return ()
    what = "what a doubling of the weight adds to the effective rank, up to the recipe's weight"
    return measure("rank", done.results.world.replace("_", " "), what, sweep.over_trainings(along), "above", len(along))


def per_doubling(found: list[tuple[Setting, Method]]) -> list[float]:
    """Slope of the effective rank over log2 of the weight, by training seed; none for a single weight."""
    if len(found) < 2:
        return []
    weights = np.log2([point.x for point, _ in found])
    seeds = [[one.about.scores.effective_rank for one in method.seeds] for _, method in found]
    return [float(np.polyfit(weights, row, 1)[0]) for row in zip(*seeds, strict=False)]


def ranks(found: list[tuple[Setting, Method]]) -> str:
    """Does the effective rank grow with the weight, and which weight has the highest? As far as trainings agree on it."""
    order = sorted(found, key=lambda pair: pair[0].x)
    shown = join([fixed(sweep.rank(method).mean, 1) for _, method in order])
    if len(order) < 2:
        return f"The effective rank is {shown}."
    said = f"The effective rank is {shown} for the weights {join([f'{point.x:g}' for point, _ in order])}"
    along = sweep.over_trainings(per_doubling(order))
    by_weight = {point.x: np.array([one.about.scores.effective_rank for one in method.seeds]) for point, method in order}
    top = max(by_weight, key=lambda x: by_weight[x].mean())
    if (trainings := len(by_weight[top])) == 1:
        return f"{said}, highest at {top:g} (one training each)."
    how = "grows" if along.low > 0 else "falls" if along.high < 0 else "neither grows nor falls for certain"
    said += f": it {how} with the weight, by {fixed(along.mean, 1)} ({fixed(along.low, 1)} to {fixed(along.high, 1)}, "
    said += f"{trainings} trainings) for each doubling, and is highest at {top:g}"
    below = {x: sweep.over_trainings((by_weight[top] - ranks_).tolist()) for x, ranks_ in by_weight.items() if x != top}
    tied = [f"{x:g}" for x, lead in below.items() if lead.low <= 0]
    return f"{said}, from which {join(tied)} cannot be told." if tied else f"{said}, certainly."


EXPERIMENT = Experiment(
    name="sigreg",
    question="How strong should SIGReg be?",
    claim="The effective rank grows with the weight up to a point, which also has the best linear probe.",
    arms=points,
    analyse=analyse,
)
