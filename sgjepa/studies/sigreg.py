"""How strong should SIGReg be? Five weights: the raw statistic, the effective rank, probes, and the error by law.

The paper takes 0.09 to 1.44 on the square, twice as much each time, and chooses 0.72. Its own size has that grid. The sizes
for a CPU have one test over all frames of an update, whose weight is another one: they take the grid that their recipes'
weight was chosen from (studies/tuning.py), 0.01 to 0.18, so that the two studies share their trainings. At mini size the
world is Approach Ball.

A low statistic alone says little: it measures agreement with a Gaussian, not how many directions carry something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sgjepa.core.stats import Interval, spearman
from sgjepa.core.tables import to_csv
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.sweep_figures import against_setting, by_law
from sgjepa.report.words import fixed
from sgjepa.results.compare import Method
from sgjepa.results.gather import MAIN
from sgjepa.results.training import curve
from sgjepa.results.verdicts import Claims, measure
from sgjepa.studies import sweep
from sgjepa.studies.study import WORLDS, Done, Study
from sgjepa.studies.sweep import Column, Point

WEIGHTS = {"paper": (0.09, 0.18, 0.36, 0.72, 1.44)}
ON_CPU = (0.01, 0.02, 0.045, 0.09, 0.18)  # of one test over all frames of an update, the recipe's among them
HORIZONS = (5, 20, 44)
TABLE, LAWS = "tables/sigreg.csv", "tables/sigreg_by_law.csv"


def points(size: str) -> list[Point]:
    """The GRU's recipe with each weight."""
    base = recipe(f"{WORLDS[size]}_gru", size)
    found = []
    for weight in WEIGHTS.get(size, ON_CPU):
        run = replace(base, name=f"{base.name}_w{weight:g}", loss=replace(base.loss, sigreg=weight))
        found.append(Point(run, f"weight {weight:g}", (f"{weight:g}",), weight))
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


def grows(done: Done, found: list[tuple[Point, Method]]) -> Claims:
    """Rank correlation between weight and effective rank up to the recipe's weight, in each training seed."""
    world, _, size = found[0][0].run.data[0].rpartition("-")  # a dataset's usual name is WORLD-SIZE
    chosen = recipe(f"{world}_gru", size).loss.sigreg
    along = _correlations([(point, method) for point, method in found if point.x <= chosen * (1 + 1e-6)])
    one = sweep.over_trainings(along)
    inside = replace(one, low=max(one.low, -1.0), high=min(one.high, 1.0))  # a correlation has ends
    what = "rank correlation of the effective rank with the weight, up to the recipe's"
    return measure("rank", done.results.world.replace("_", " "), what, inside, "above", len(along))


def _correlations(found: list[tuple[Point, Method]]) -> list[float]:
    """Of the effective rank with the weight, by training seed."""
    weights = np.array([point.x for point, _ in found])
    seeds = [[one.about.scores.effective_rank for one in method.seeds] for _, method in found]
    return [spearman(weights, np.array(row))[0] for row in zip(*seeds, strict=False)]


def ranks(found: list[tuple[Point, Method]]) -> str:
    """Does the effective rank grow with the weight? With several trainings, as far as they agree on it."""
    order = sorted(found, key=lambda pair: pair[0].x)
    measured = [sweep.rank(method) for _, method in order]
    values = ", ".join(fixed(one.mean, 1) for one in measured)
    if len(order) < 2:
        return f"The effective rank is {values}."
    along = _correlations(order)
    one = sweep.over_trainings(along)
    if len(along) > 1:
        how = "grows" if one.low > 0 else "falls" if one.high < 0 else "neither grows nor falls for certain"
        interval = f"{fixed(one.mean, 2)}, {fixed(one.low, 2)} to {fixed(one.high, 2)} over {len(along)} trainings"
        return f"The effective rank {how} with the weight: {values} (rank correlation {interval})."
    steps = np.diff([one.mean for one in measured])
    top = max(order, key=lambda pair: sweep.rank(pair[1]).mean)[0].x
    how = f"is highest at the weight {top:g}"
    if (steps > 0).all() or (steps < 0).all():
        how = f"{'grows' if steps[0] > 0 else 'falls'} with every weight"
    return f"The effective rank {how}: {values} (one training each, rank correlation with the weight {fixed(one.mean, 2)})."


STUDY = Study(
    name="sigreg",
    question="How strong should SIGReg be?",
    claim="The effective rank grows with the weight up to a point, which also has the best linear probe.",
    cells=sweep.cells_of(points),
    analyse=analyse,
    labels=sweep.labels_of(points, list(WORLDS)),
    seeds=dict.fromkeys(WORLDS, 1),
)
