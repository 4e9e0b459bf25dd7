"""The figures of forecasts: curves of Results by horizon and by law, ratios, decoded rollouts, training."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence

import numpy as np

from sgjepa.core.errors import InputError, one_line
from sgjepa.core.methods import GREY, styles
from sgjepa.core.plotting import INK
from sgjepa.core.run_folder import STRIPS
from sgjepa.core.stats import Interval
from sgjepa.evaluation.metrics import MAIN, METRICS
from sgjepa.report import figures
from sgjepa.report.blocks import Figure
from sgjepa.report.figures import DASH_DOT, DASHED, DOTTED, SOLID, Thin
from sgjepa.report.words import decimals_of, fixed, measured, unit, where
from sgjepa.results.evaluations import Evaluation
from sgjepa.results.selection import BASELINES, Axis
from sgjepa.results.table import Results
from sgjepa.results.training import TERMS, curves

_BARS = ("position_l2", "velocity_l2", "rotation_turns", "nmse")


def judged_regions(results: Results) -> list[str]:
    """The regions of the main comparisons, out of distribution first; "all" if there is only one."""
    return [region for region in ("out", "in") if region in results.regions] or ["all"]


def drawn_metrics(results: Results) -> list[str]:
    """The metrics that have figures; the angle is in the tables."""
    return [metric for metric in results.comparable if metric != "angle_deg"]


def _means(curve: Sequence[Interval]) -> list[float]:
    return [interval.mean for interval in curve]


def horizon_figures(results: Results, metric: str) -> list[Figure]:
    """A panel for each region, with the same scale."""
    regions, colours = judged_regions(results)[::-1], styles(results.arms)
    curves = {region: {arm: results.curve(arm, metric, None, region) for arm in results.arms} for region in regions}
    stay = {region: results.curve(results.baseline, metric, "stay", region) for region in regions}
    scale = figures.limits(*(curve for several in curves.values() for curve in several.values()), *stay.values())
    panels = []
    for region in regions:
        thin: dict[str, Thin] = {}
        for arm in results.arms:
            perfect = _means(results.curve(arm, metric, "simulator", region))
            thin |= {f"_{arm}": (perfect, colours[arm][0], DOTTED)} if np.isfinite(perfect[-1]) else {}
        if np.isfinite(stay[region][-1].mean):
            thin |= {BASELINES["stay"]: (_means(stay[region]), GREY, DASHED), "simulator, same colour": ([], GREY, DOTTED)}
        title, name = where(results, region), f"{metric}_by_horizon_{region}"
        panels.append(figures.by_horizon(name, title, measured(metric), curves[region], results.steps, thin, scale))
    return panels


def law_figure(results: Results, metric: str, axis: Axis) -> Figure:
    """A figure of an error at the last horizon by a law; in a world with one law, with coverage for the main error."""
    last, laws = results.horizons, [axis.name]
    curves = {arm: list(results.by_law(arm, metric, last, laws).values()) for arm in results.arms}
    stay = _means(list(results.by_law(results.baseline, metric, last, laws, "stay").values()))
    thin: dict[str, Thin] = {BASELINES["stay"]: (stay, GREY, DASHED)} if np.isfinite(stay[0]) else {}
    far = {point[results.law_names.index(axis.name)]: value for point, value in results.coverage.items()}
    # with several laws L_law is not a function of one of them
    far = far if metric == MAIN and len(results.axes) == 1 else {}
    scale = (0.0, figures.limits(*curves.values(), map(figures.without_interval, stay))[1])  # an error is not below zero
    title, name = f"{METRICS[metric].label} at h = {last}", f"{metric}_by_{axis.name}"
    return figures.by_law(name, title, measured(metric), axis, curves, thin, scale, far)


def law_maps(results: Results) -> list[Figure]:
    """The main error at the last horizon over the plane of the first two laws, a panel for each method, with one scale."""
    first, second = results.axes[:2]
    maps = {}
    for arm in results.arms:
        errors = results.by_law(arm, MAIN, results.horizons, [first.name, second.name])
        # a pair of values without episodes is empty
        maps[arm] = np.array(
            [[errors[x, y].mean if (x, y) in errors else np.nan for x in first.values] for y in second.values]
        )
    top, name = max(float(np.nanmax(plane)) for plane in maps.values()), f"{MAIN}_over_{first.name}_and_{second.name}"
    return [
        figures.over_two_laws(f"{name}_{number}", arm, measured(MAIN), (first, second), plane, top)
        for number, (arm, plane) in enumerate(maps.items(), start=1)
    ]


def ratio_bars(results: Results, region: str) -> Figure:
    """Errors at the last horizon divided by the baseline's."""
    base, last = results.baseline, results.horizons
    groups: dict[str, dict[str, Interval]] = {}
    stay: dict[str, float] = {}
    for metric in (metric for metric in results.comparable if metric in _BARS):
        own = results.mean(base, metric, [last], None, region)[last].mean
        short = METRICS[metric].label.removeprefix("cumulative ").removesuffix(" error")
        name = f"{short}\n{fixed(own, decimals_of(metric))} {unit(metric)}"
        groups[name] = {arm: results.ratio(arm, base, metric, [last], region)[last] for arm in results.arms}
        stay[name] = results.mean(base, metric, [last], "stay", region)[last].mean / own
    return figures.bars(f"relative_{region}", where(results, region), base, groups, stay)


def baseline_figures(results: Results) -> list[Figure]:
    """Each method's rollout with its baselines: constant position, constant velocity, the simulator, its probe."""
    dashes = {"stay": DASHED, "constant_velocity": DASH_DOT, "simulator": DOTTED, "one_step": SOLID, "true": SOLID}
    greys = {"stay": GREY, "constant_velocity": GREY, "simulator": INK, "one_step": "#E69F00", "true": "#b9bec5"}
    curves = {arm: results.curve(arm, MAIN) for arm in results.arms}
    baselines = {(arm, source): results.curve(arm, MAIN, source) for arm in results.arms for source in BASELINES}
    scale = figures.limits(*curves.values(), *(baselines[arm, s] for arm in results.arms for s in ("stay", "simulator")))
    drawn = []
    for number, (arm, curve) in enumerate(curves.items(), start=1):
        thin = {label: (_means(baselines[arm, s]), greys[s], dashes[s]) for s, label in BASELINES.items()}
        name = f"references_{number}"
        drawn.append(figures.by_horizon(name, arm, measured(MAIN), {arm: curve}, results.steps, thin, scale))
    return drawn


def with_strips(results: Results) -> list[tuple[str, Evaluation]]:
    """The first run with decoded rollouts of each method; the page's subject first."""
    order = sorted(results.arms, key=lambda arm: arm != results.subject)
    runs = ((arm, [run for run in results.evaluations(arm) if (run.folder / STRIPS).is_file()]) for arm in order)
    return [(arm, some[0]) for arm, some in runs if some]


def strip_figure(results: Results, arm: str, run: Evaluation) -> Figure:
    """Decoded rollouts of a run, below the true frames; an InputError if its file cannot be read."""
    path = run.checked(STRIPS)
    try:
        with np.load(path) as file:
            truth, decoded, horizon, law, inside = (file[n] for n in ("truth", "decoded", "horizon", "law", "inside"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} cannot be read as strips ({one_line(error, 80)})") from error
    notes = []
    for values, known in zip(law, inside, strict=True):
        by_name = dict(zip(results.law_names, np.atleast_1d(values).tolist(), strict=True))
        laws = [f"{axis.symbol} = {by_name[axis.name]:g} {axis.unit}" for axis in results.axes]
        notes.append("\n".join([*laws, f"{'in' if known else 'out of'} distribution"] if laws else ["truth, prediction"]))
    return figures.strips(f"strips_{results.arms.index(arm) + 1}", arm, truth, decoded, horizon.tolist(), notes)


def training_figures(results: Results) -> list[Figure]:
    """The prediction term, SIGReg and the rank of the latents, by update; a line for each training."""
    drawn = []
    for term, title in TERMS.items():
        several = {arm: points for arm in results.arms if (points := curves(results.evaluations(arm), term))}
        drawn += [figures.training(f"training_{term}", title, several, log=term != "rank")] if several else []
    return drawn
