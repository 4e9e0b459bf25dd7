"""Is the Transformer only told the law badly? Five ways to condition it, and the GRU, all of one size.

AdaLN in every block with a gate of 0, 0.1 or 1 at first, the condition joined to the latent once before the first block, or
in both halves of every block; the MLPs' widths keep the number of parameters (recipes `transformer_*`). Everything else is
SG-JEPA's recipe; the square at paper size, Approach Ball at mini size.

Judged by the excess NMSE, averaged over all horizons: what the rollout adds to the error of the probe on true latents. The
share of the gap is how much of the distance from the usual Transformer (gate 0) to the GRU another way does away with.
"""

from __future__ import annotations

from sgjepa.core.methods import styles
from sgjepa.core.stats import Interval, bootstrap, bootstrap_ratio
from sgjepa.core.tables import to_csv
from sgjepa.experiments import sweep
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.experiments.sweep import Column, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.method_figures import error_by_horizon
from sgjepa.report.panels import Picture, axis_name, panel
from sgjepa.report.words import compare, fixed
from sgjepa.results.compare import Method, paired, verdict
from sgjepa.results.gather import MAIN, Results
from sgjepa.training.profile import outline, parameters

WAYS = {
    "gru": "GRU",
    "transformer": "AdaLN, gate 0",
    "transformer_adaln_0.1": "AdaLN, gate 0.1",
    "transformer_adaln_1": "AdaLN, gate 1",
    "transformer_input_concat": "joined once",
    "transformer_block_concat": "joined in every block",
}
EXCESS = "excess_nmse"
TABLE, LAWS = "tables/conditioning.csv", "tables/conditioning_by_law.csv"


def points(size: str) -> list[Setting]:
    """The recipes themselves."""
    runs = {label: recipe(f"{WORLDS[size]}_{way}", size) for way, label in WAYS.items()}
    return [
        Setting(run, label=label if label == "GRU" else f"Transformer, {label}", values=(label,))
        for label, run in runs.items()
    ]


def analyse(done: Done) -> Finding:
    """The report's section: does any way of conditioning reach the GRU?"""
    results, found = done.results, list(sweep.there(done, points, list(WORLDS)).values())
    last = results.last  # the excess there is the mean over all horizons up to it
    sizes = {job.name: parameters(outline(job.run))["predictor"] / 1e6 for job in done.jobs}

    def size_of(method: Method) -> Interval:
        return sweep.over_trainings([sizes[method.name]])

    columns = [
        Column("parameters (M)", size_of, 2),
        Column("excess NMSE over all horizons", sweep.error(EXCESS, last)),
        Column(f"position error at h = {last} (m)", sweep.error(MAIN, last)),
    ]
    head, rows, text = sweep.table("conditioning", ("predictor",), columns, found)
    by_way = {point.values[0]: method for point, method in found}
    words, records = said(results, by_way), by_law(results, by_way)
    pictures = [*_bars([method for _, method in found], last), *_by_horizon(results)]
    more = {TABLE: text, **({LAWS: to_csv(records)} if records else {})}
    title = "Can conditioning close the gap to the GRU?"
    about = sweep.caption("conditioning", "Predictors of one size with SG-JEPA's loss.")
    shown = (
        "Excess NMSE: the rollout's, minus that of the probe on true latents; averaged over all horizons, and up to each."
    )
    return Finding(title, (*words, *sweep.once(done)), about, head, rows, more, tuple(pictures), shown)


def said(results: Results, by_way: dict[str, Method]) -> tuple[str, ...]:
    """The best Transformer against the usual one and against the GRU."""
    last, gru, usual = results.last, by_way.get("GRU"), by_way.get("AdaLN, gate 0")
    ways = {way: method for way, method in by_way.items() if way != "GRU"}
    if gru is None or usual is None:
        return ("GRU and the usual Transformer are both needed to tell.",)
    best = min(ways, key=lambda way: ways[way].at(EXCESS, [last])[last].mean)
    words = [sweep.least(list(by_way.values()), EXCESS, last).replace(f"at h = {last}", "over all horizons")]
    words.append(f"{compare(usual.label, gru.label, paired(usual, gru, EXCESS, [last])[last], EXCESS)}.")
    if ways[best] is not usual:
        words.append(f"{compare(ways[best].label, gru.label, paired(ways[best], gru, EXCESS, [last])[last], EXCESS)}.")
        words.append(_share(ways[best], usual, gru, last))
    worse = [record for record in by_law(results, {"GRU": gru, best: ways[best]}) if record["verdict"] == "worse"]
    laws = len(results.axes[0].values) if results.axes else 0
    if laws:
        several = results.axes[0].several
        words.append(f"{ways[best].label} is certainly worse than the GRU at {len(worse)} of {laws} {several}.")
    return tuple(words)


def _share(best: Method, usual: Method, gru: Method, last: int) -> str:
    """Of the gap; it means something only where there certainly is one."""
    if verdict(paired(usual, gru, EXCESS, [last])[last]) != "worse":
        return "There is no certain gap between the usual Transformer and the GRU that a way of conditioning could close."
    mine, theirs, ours = (method.stack(EXCESS)[:, :, [last - 1]] for method in (best, usual, gru))
    if not len(mine) == len(theirs) == len(ours):
        return ""
    one = bootstrap_ratio(theirs - mine, theirs - ours)[0].percent()
    return (
        f"{best.label}, the best on these very episodes, closes {fixed(one.mean, 0)} % of the gap between the usual "
        f"Transformer and the GRU ({fixed(one.low, 0)} to {fixed(one.high, 0)})."
    )


def by_law(results: Results, by_way: dict[str, Method]) -> list[dict[str, str | float]]:
    """Every Transformer against the GRU at each value of the first law."""
    gru, found = by_way.get("GRU"), list[dict[str, str | float]]()
    if gru is None or not results.axes:
        return found
    law = results.axes[0]
    column, last = gru.first.laws.index(law.name), results.last
    for way, method in by_way.items():
        if method is gru or len(method.seeds) != len(gru.seeds):
            continue
        gaps = (method.stack(EXCESS) - gru.stack(EXCESS))[:, :, [last - 1]]
        for value in law.values:
            one = bootstrap(gaps[:, gru.first.law[:, column] == value])[0]
            numbers = {"difference": one.mean, "low": one.low, "high": one.high, "episodes": one.count}
            found.append({"predictor": way, law.name: value, **numbers, "verdict": verdict(one)})
    return found


def _bars(methods: list[Method], last: int) -> list[Picture]:
    """The mean excess of each, with its interval."""
    found: list[Picture] = []
    look = styles([method.label for method in methods])
    with panel(found, "conditioning_excess", "Excess NMSE over all horizons for each predictor", size=(5.2, 4.4)) as axis:
        for i, method in enumerate(methods):
            one = method.at(EXCESS, [last])[last]
            ends = [[max(one.mean - one.low, 0)], [max(one.high - one.mean, 0)]]
            axis.bar(i, one.mean, yerr=ends, color=look[method.label][0], capsize=4, width=0.65)
        names = [method.label.removeprefix("Transformer, ") for method in methods]
        axis.set_xticks(range(len(methods)), names, rotation=30, ha="right")
        axis.set(title="Over all horizons", ylabel=axis_name(EXCESS))
    return found


def _by_horizon(results: Results) -> list[Picture]:
    """As the report draws it, under a name of its own."""
    drawn = error_by_horizon(results, EXCESS)
    return [Picture(f"conditioning_{one.name}", one.alt, one.svg, one.png) for one in drawn]


EXPERIMENT = Experiment(
    name="conditioning",
    question="Is the Transformer only told the law badly?",
    claim="No way of conditioning the Transformer closes the gap to the GRU.",
    arms=points,
    analyse=analyse,
)
