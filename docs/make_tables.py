"""Tables of README and docs, made from the files in docs/results: `python docs/make_tables.py` writes them anew.

A table stands between `<!-- table NAME -->` and `<!-- end -->`. A test runs this and finds nothing to change.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sgjepa.core.stats import Interval, bootstrap, bootstrap_share

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REGIONS = {"all": "all gravities", "in": "in distribution", "out": "out of distribution"}
SHOWN = {  # references, and what they are called here
    "object stays put": "the object stays where it was",
    "simulator from SG-JEPA (GRU)'s probe": "simulator from what SG-JEPA's probe sees",
}
NAMES = {"position_l2": "position", "velocity_l2": "velocity"}
UNITS = {"position_l2": "m", "velocity_l2": "m/s"}
Row = dict[str, str]


def read(name: str) -> list[Row]:
    """A file of docs/results."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def kept(study: str, table: str) -> list[tuple[str, Row]]:
    """The rows of a table of all results of a study that were kept, each with the size it is of."""
    found = []
    for path in sorted((RESULTS / "studies").glob(f"{study}-*/{table}.csv")):
        rows = read(path.relative_to(RESULTS).with_suffix("").as_posix())
        found += [(path.parent.name.split("-")[1], row) for row in rows]
    return found


def errors(name: str, regions: Sequence[str], columns: Sequence[tuple[str, str]], paper: str = "") -> str:
    """Methods and references, region by region. columns: metric and horizon. paper: the metric of its column, all laws."""
    rows = read(name)
    heads = [f"{NAMES[metric]}, {_when(horizon)} ({UNITS[metric]})" for metric, horizon in columns]
    heads += [f"the paper's {NAMES[paper]}, all gravities, mean / h = 44"] if paper else []
    found = [_line(["", *heads]), _line(["---"] * (len(heads) + 1))]
    everywhere = {(row["method"], row["metric"], row["horizon"]): row for row in rows if row["region"] == "all"}
    for region in regions:
        here = {(row["method"], row["metric"], row["horizon"]): row for row in rows if row["region"] == region}
        count = next(iter(here.values()))["episodes"]
        found.append(_line([f"*{REGIONS[region]}, {count} episodes*", *[""] * len(heads)]))
        for label in _methods(rows):
            named, *shown = _errors(label, [here.get((label, *column)) for column in columns])
            if paper:
                says = [everywhere.get((f"paper: {label.split(',')[0]}", paper, horizon)) for horizon in ("mean", "44")]
                shown.append(" / ".join(f"{float(one['mean']):.4f}" for one in says if one) if region == regions[0] else "")
            found.append(_line([named, *shown]))
    return "\n".join(found)


def position(name: str, horizons: Sequence[str]) -> str:
    """Methods and references, in and out of distribution side by side, up to some horizon."""
    rows = [row for row in read(name) if row["metric"] == "position_l2"]
    columns = [(region, horizon) for region in ("out", "in") for horizon in horizons]
    found = {(row["method"], row["region"], row["horizon"]): row for row in rows}
    lines = [_line(["", *(f"{REGIONS[region]}, {_when(horizon)} (m)" for region, horizon in columns)])]
    lines.append(_line(["---"] * (len(columns) + 1)))
    lines += [_line(_errors(label, [found[label, *column] for column in columns])) for label in _methods(rows)]
    return "\n".join(lines)


def _methods(rows: Sequence[Row]) -> list[str]:
    """And the references that are shown."""
    return list(dict.fromkeys(row["method"] for row in rows if row["kind"] == "method" or row["method"] in SHOWN))


def _errors(label: str, cells: Sequence[Row | None]) -> list[str]:
    """A line's cells: who, with how many trainings, and the errors; intervals of methods only."""
    first = next(cell for cell in cells if cell)
    seeds = f", {first['seeds']} trainings" if int(first["seeds"]) > 1 else ""
    return [f"{SHOWN.get(label, label)}{seeds}", *(_value(cell, interval=first["kind"] == "method") for cell in cells)]


def by_law(name: str, law: str, methods: Sequence[str], values: Sequence[float], metric: str = "position_l2") -> str:
    """Error at the last horizon at some values of a law, with L_law."""
    rows = [row for row in read(name) if row["metric"] == metric]
    found = {(row["method"], round(float(row[f"law.{law}"]), 3)): row for row in rows}
    head = _line([law, *(f"{value:g}" for value in values)])
    lines = [head, _line(["---"] * (len(values) + 1))]
    lines.append(_line(["√L_law", *(f"{float(found[methods[0], value]['L_law']) ** 0.5:.1f}" for value in values)]))
    lines += [_line([method, *(_value(found[method, value]) for value in values)]) for method in methods]
    return "\n".join(lines)


def counterfactual(name: str) -> str:
    """A line per method and true law, a column per law that is told: the rise of the error's area over the horizons."""
    rows = read(name)
    told = sorted({round(float(row["law.given"]), 2) for row in rows})
    head = _line(["", *(f"told {value:g}" for value in told)])
    lines = [head, _line(["---"] * (len(told) + 1))]
    for method, true in dict.fromkeys((row["method"], row["law.true"]) for row in rows):
        mine = [row for row in rows if (row["method"], row["law.true"]) == (method, true)]
        here = {round(float(row["law.given"]), 2): row for row in mine}
        cells = [_rise(here.get(value)) for value in told]
        lines.append(_line([f"{method}, g = {float(true):g}", *cells]))
    return "\n".join(lines)


def _rise(row: Row | None) -> str:
    if row is None or row["law.true"] == row["law.given"]:
        return "" if row is None else "0"
    rise, low, high = (float(row[key]) for key in ("rise", "rise_low", "rise_high"))
    return f"{rise:+.2f} ({low:.2f} to {high:.2f})".replace("-", "\N{MINUS SIGN}")


def tuning(name: str) -> str:
    """The grid: a line per method, residual step and dropout; a column per weight: error over all horizons, at h = 44."""
    rows = read(name)
    weights = sorted({float(row["weight"]) for row in rows})  # 0: a frozen encoder needs none
    found = {(row["method"], row["residual"], row["dropout"], float(row["weight"])): row for row in rows}
    lines = [
        _line(["", *(f"weight {weight:g}" if weight else "no SIGReg" for weight in weights)]),
        _line(["---"] * (len(weights) + 1)),
    ]
    for method, residual, dropout in sorted({key[:3] for key in found}):
        how = f"{method}, {'residual' if residual == 'True' else 'plain'}, dropout {float(dropout):g}"
        here = [found.get((method, residual, dropout, weight)) for weight in weights]
        best = min(float(row["position_mean"]) for row in rows if row["method"] == method)
        lines.append(_line([how, *(_tuned(row, best) for row in here)]))
    return "\n".join(lines)


def factorial(name: str) -> str:
    """Law given or constant x one step or rollout: the mean over the horizons and the last, in and out of distribution."""
    rows = [row for row in read(name) if row["metric"] == "position_l2" and row["kind"] == "method"]
    columns = [(region, horizon) for region in ("in", "out") for horizon in ("mean", "44")]
    heads = [f"{REGIONS[region]}, {_when(horizon)}" for region, horizon in columns]
    lines = [_line(["", *heads]), _line(["---"] * (len(heads) + 1))]
    found = {(row["method"], row["region"], row["horizon"]): row for row in rows}
    for method in dict.fromkeys(row["method"] for row in rows):
        name = "GRU, law given, rollout: SG-JEPA" if method.startswith("SG-JEPA") else method
        lines.append(_line([name, *(_value(found[method, *column]) for column in columns)]))
    return "\n".join(lines)


def control() -> str:
    """Success in closed loop in per cent: a line per world and policy, in and out of distribution and over all episodes."""
    found, regions = _success(), ("in", "out", "all")
    lines = [_line(["", *(f"{REGIONS[region]} (%)" for region in regions)]), _line(["---"] * 4)]
    for world, policies in found.items():
        counts = ", ".join(next(iter(policies.values()))[region]["count"] for region in regions)
        lines.append(_line([f"*{world}, {counts} episodes, {_trainings(world)}*", "", "", ""]))
        lines += [_line([policy, *(_share(cells.get(region)) for region in regions)]) for policy, cells in policies.items()]
    return "\n".join(lines)


def control_worlds() -> str:
    """The same over all gravities, a column per world."""
    found = _success()
    heads = [f"{world} (%), {_trainings(world)}" for world in found]
    lines = [_line(["", *heads]), _line(["---"] * (len(heads) + 1))]
    for policy in dict.fromkeys(policy for policies in found.values() for policy in policies):
        lines.append(_line([policy, *(_share(policies.get(policy, {}).get("all")) for policies in found.values())]))
    return "\n".join(lines)


def _success() -> dict[str, dict[str, dict[str, Row]]]:
    """By world, policy and region, from all studies of control that were kept."""
    found: dict[str, dict[str, dict[str, Row]]] = {}
    for _, row in kept("control", "control"):
        if row["measure"] == "success" and not row["given"]:
            # at mini size that is always its encoder; earlier tables do not say so
            policy = "DINO-WM, MobileNetV2" if row["policy"].startswith("DINO-WM") else row["policy"]
            found.setdefault(row["world"].replace("_", " "), {}).setdefault(policy, {})[row["region"]] = row
    return found


def _trainings(world: str) -> str:
    """Of the policies in a world; references have none."""
    (count,) = {row["trainings"] for _, row in kept("control", "finding") if row["world"] == world and row["trainings"]}
    return "1 training" if count == "1" else f"{count} trainings"


def height(cell: Callable[[Interval], str], who: Sequence[str]) -> str:
    """Root mean square error of the ball's height, h = 13 to 44: a line per model, a column per range of gravity."""
    groups = _heights()
    shown = {one: [_root(*bootstrap(group[one][:, None] ** 2)) for group in groups.values()] for one in who}
    least = [min(round(cells[i].mean, 3) for cells in shown.values()) for i in range(len(groups))]
    lines = [_line(["height error (m)", *groups]), _line(["---"] * (len(groups) + 1))]
    for name, cells in shown.items():
        found = [cell(one) for one in cells]
        bold = [
            f"**{text}**" if round(one.mean, 3) == low else text for text, one, low in zip(found, cells, least, strict=True)
        ]
        lines.append(_line([name, *bold]))
    return "\n".join(lines)


def height_ratios() -> str:
    """SG-JEPA's error of the height as a share of another's, on the same episodes."""
    groups = _heights()
    lines = [_line(["SG-JEPA's height error as a share of", *groups]), _line(["---"] * (len(groups) + 1))]
    for who in (*_WHO[1:], _SIMULATOR):
        squares = [(group[_WHO[0]][:, None] ** 2, group[who][:, None] ** 2) for group in groups.values()]
        found = [_root(*bootstrap_share(*pair)).percent() for pair in squares]
        lines.append(_line([who, *(f"{one.mean:.0f} % ({one.low:.0f}–{one.high:.0f})" for one in found)]))
    return "\n".join(lines)


def height_spread() -> str:
    """How far the true height strays from its mean over the same frames, and in how many episodes."""
    lines = [_line(["", *_RANGES]), _line(["---"] * (len(_RANGES) + 1))]
    spread, count = [], []
    for group in _heights().values():
        mean, std = group["height_mean"], group["height_std"]
        spread.append(f"{math.sqrt(float((std**2).mean() + mean.var())):.3f}")
        count.append(str(len(mean)))
    return "\n".join([*lines, _line(["spread of the true height (m)", *spread]), _line(["test episodes", *count])])


def _heights() -> dict[str, dict[str, np.ndarray]]:
    """The columns of every range of gravity, an entry per episode."""
    rows = read("height_episodes")
    found = {}
    for name, (low, high) in _RANGES.items():
        mine = [row for row in rows if low <= float(row["gravity"]) < high]
        found[name] = {column: np.array([float(row[column]) for row in mine]) for column in mine[0]}
    return found


def _root(one: Interval) -> Interval:
    """Of a mean of squares: percentiles keep their places under a root."""
    return Interval(math.sqrt(one.mean), math.sqrt(one.low), math.sqrt(one.high), one.count)


def worlds() -> str:
    """Where a size can decide: what the study of predictors says of each world, those with the most room first."""
    found = [
        {**row, "world": row["world"] if size == "mini" else f"{row['world']}, {size} size"}
        for size, row in kept("predictors", "finding")
    ]
    found.sort(key=lambda row: (-float(row["room"].split()[0]), row["world"]))
    return _joined(found, leave_out=("episodes",))


def finding(study: str) -> str:
    """The table of a study's own section."""
    return _joined([row for _, row in kept(study, "finding")])


def _joined(rows: Sequence[Row], leave_out: Sequence[str] = ()) -> str:
    """Rows of several files, with the columns that all of them have."""
    heads = [head for head in rows[0] if head not in leave_out and all(head in row for row in rows)]
    cells = [[re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", row[head]) for head in heads] for row in rows]
    return "\n".join(map(_line, [heads, ["---"] * len(heads), *cells]))


def _share(row: Row | None) -> str:
    if row is None:
        return ""
    mean, low, high = (round(100 * float(row[key])) for key in _KEYS)
    return f"{mean} ({low}–{high})"


def _tuned(row: Row | None, best: float) -> str:
    if row is None:
        return ""
    mean = f"{float(row['position_mean']):.3f}"
    return f"{f'**{mean}**' if float(row['position_mean']) == best else mean}, {float(row['position_h44']):.2f}"


def _when(horizon: str) -> str:
    return "mean" if horizon == "mean" else f"h = {horizon}"


def _value(row: Row | None, interval: bool = True) -> str:
    if row is None:
        return ""
    mean, low, high = (f"{float(row[key]):.2f}" if float(row["mean"]) >= 1 else f"{float(row[key]):.3f}" for key in _KEYS)
    bold = f"**{mean}**" if row.get("mark") == "best" else mean
    return f"{bold} ({low}–{high})" if interval else bold


_WHO = ("SG-JEPA", "LeWM", "SG-JEPA, not told gravity", "constant position")
_SIMULATOR = "simulator from SG-JEPA's probe"
_RANGES = {  # of gravity in m/s²; training gravities are 9.8 ± 4
    "below 3": (-math.inf, 3),
    "3 to 5.8": (3, 5.8),
    "5.8 to 13.8, training": (5.8, 13.8),
    "14 to 17": (13.8, 17.5),
    "above 17.5": (17.5, math.inf),
}
_KEYS = ("mean", "low", "high")


def speedrun() -> str:
    """The candidates of the speedrun, fastest first. Seconds are medians over seeds."""
    kept_rows = json.loads((ROOT / "benchmarks/results/speedrun.json").read_text(encoding="utf-8"))["candidates"].values()
    heads = (
        "date",
        "candidate",
        "seeds",
        "CPU seconds",
        "GFLOP/s",
        "error, all horizons (m)",
        "at h = 44 (m)",
        "height (m)",
        "level",
    )
    lines = [_line(heads), _line(["---"] * len(heads))]
    for row in sorted((entry["summary"] for entry in kept_rows), key=lambda summary: float(summary["seconds"])):
        errors_ = [f"{row[name]:.3f}" for name in ("mean", "last", "height_rms")]
        level = "reached" if row["reached"] else "missed"
        numbers = [f"{row['seeds']}", f"{row['seconds']:.0f}", f"{row['matrix_gflops']:.0f}", *errors_]
        lines.append(_line([row["date"], row["what"], *numbers, level]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(cells)} |")


_SHORT = [("position_l2", "mean"), ("position_l2", "44"), ("velocity_l2", "mean"), ("velocity_l2", "44")]
_FULL = [("position_l2", horizon) for horizon in ("1", "5", "16", "32", "44", "mean")]
_SHOWN = (0, 0.62, 1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20)  # gravities
TABLES: dict[str, Callable[[], str]] = {
    "speedrun": speedrun,
    "height": lambda: height(lambda one: f"{one.mean:.3f}", _WHO),
    "height_intervals": lambda: height(lambda one: f"{one.mean:.3f} ({one.low:.3f}–{one.high:.3f})", (*_WHO, _SIMULATOR)),
    "height_ratios": height_ratios,
    "height_spread": height_spread,
    "approach_ball": lambda: errors("approach_ball_mini_errors", ("out", "in"), _SHORT, "position_l2"),
    "approach_ball_horizons": lambda: errors("approach_ball_mini_errors", ("out", "in"), _FULL),
    "approach_ball_gravity": lambda: by_law("approach_ball_mini_by_gravity", "gravity", ("SG-JEPA (GRU)", "LeWM"), _SHOWN),
    "counterfactual": lambda: counterfactual("approach_ball_mini_counterfactual"),
    "factorial": lambda: factorial("studies/factorial-mini/errors"),
    "control": control,
    "control_worlds": control_worlds,
    "crossover": lambda: finding("crossover"),
    "local_gap": lambda: finding("local_gap"),
    "history": lambda: finding("history"),
    "post_training": lambda: finding("post_training"),
    "optimiser": lambda: finding("optimiser"),
    "history_rollout": lambda: finding("history_rollout"),
    "sigreg": lambda: finding("sigreg"),
    "shapes": lambda: finding("shapes"),
    "planning": lambda: finding("planning"),
    "worlds": worlds,
    "tuning_225": lambda: tuning("hyperparameters_approach_ball_mini_225"),
    "tuning_675": lambda: tuning("hyperparameters_approach_ball_mini_675"),
    "square_small": lambda: position("square_small_errors", ("1", "5", "16", "32", "44")),
    "square": lambda: position("square_small_errors", ("5", "16")),
    "tuning_small": lambda: tuning("hyperparameters_square_small"),
}


def filled(text: str) -> str:
    """A page with its tables as the results have them."""

    def table(found: re.Match[str]) -> str:
        return f"<!-- table {found[1]} -->\n{TABLES[found[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
