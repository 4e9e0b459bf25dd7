"""The page of policies and planners in closed loop: success rates by law, and comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sgjepa.core.methods import GREY, styles
from sgjepa.core.stats import Interval, bootstrap
from sgjepa.envs.spec import EnvSpec, Measure
from sgjepa.evaluation.latent_errors import LatentErrors
from sgjepa.policies.files import SIMULATOR, SPLIT
from sgjepa.report import figures
from sgjepa.report.blocks import Block, Cell, Code, Data, Figure, Film, Label, Number, Row, Section, Table, Text, captioned
from sgjepa.report.figures import DASHED, Thin
from sgjepa.report.page import Page, commit, this_page
from sgjepa.report.words import DAGGER, capital, count, fixed, join
from sgjepa.results.claims import MIN_TRAININGS, verdict
from sgjepa.results.paper_numbers import published_plans
from sgjepa.results.selection import REGIONS, Axis
from sgjepa.results.statistics import WILSON, Estimate
from sgjepa.results.table import Results

Record = dict[str, Any]
Latents = Mapping[str, LatentErrors]  # by the digest of a run's weights
_DASHES = {"expert": "--", SIMULATOR: "--", "random": "-.", "still": ":"}  # of policies without training
_CEILINGS = {
    "expert": "The demonstrator acts on the true state from launches where it succeeds: it is the upper bound.",
    SIMULATOR: "The planner in the true simulator knows state and dynamics: the upper bound, up to its search.",
}
_OTHERWISE = {  # other definitions of success
    "reacher": "Here the finger has to reach within 25 mm of the goal's position; stable-worldmodel, the usual benchmark, "
    "requires both joints within 0.05 rad of the goal's, and the paper gives no definition."
}


def closed_loop_page(
    results: Results, spec: EnvSpec, films: Mapping[str, tuple[bytes, str]], latents: Latents | None = None
) -> Page:
    """The page of trials on the same episodes.

    films: WebP and words, by arm (report/films.py). latents: of runs that plan, their errors on held-out clips.
    """
    law = join([axis.name for axis in results.axes]) if results.axes else ""
    sections = [
        Section("Success", _success(results), name="says"),
        Section(f"Success by {law}", _by_law(results), name="law"),
        Section("All measures", _measures(results), name="measures"),
        Section("Success by the expert's plan", [by_plan(results)], name="plans"),
        Section("Paired differences", differences(results), name="pairs"),
        Section("Planning time", [_latency(results)], name="latency"),
        Section("Comparison with the paper", [_paper_comparison(results, latents or {})], name="paper"),
        Section("Outcomes", _outcomes(results, spec), name="outcomes"),
        Section("Films", _films(results, films), name="films"),
    ]
    title = f"Does it still do its task when {law} changes?" if law else "Does it do its task?"
    cases = results.driven(results.arms[0]).first.about.settings.cases
    how = f"from a frame of a {_kind(results)} episode towards its state some frames later"
    about = (
        f"Policies control the robot in the simulator, {how if cases else 'from the first frame to the last'}. Success: "
        f"{results.about.measures[0].about}, by the events of the simulation."
    )
    learned = [arm for arm in results.arms if not results.driven(arm).baseline]
    answer = [success_sentence(results, arm) for arm in (learned or results.arms)]
    return Page(title, answer, _facts(results), sections, _origin(results), about, results.world.replace("_", " "))


def success_sentence(results: Results, arm: str) -> str:
    """A sentence on an arm's success rate by region and its planning time."""
    parts = []
    for region in results.regions:
        rate = results.estimate(arm, results.about.measures[0], region).interval.percent()
        ends = f"{fixed(rate.low, 1)} to {fixed(rate.high, 1)}"
        where = "of all episodes" if region == "all" else REGIONS[region]
        parts.append(f"{fixed(rate.mean, 1)} % {where} ({ends}, {count(rate.count, 'episode')})")
    latency = results.driven(arm).latency
    seconds = f" A plan takes {fixed(latency.median, 2)} s (median)." if latency else ""
    return f"{arm} succeeds in {', '.join(parts)}.{seconds}"


def _kind(results: Results) -> str:
    return "test" if results.about.split == SPLIT else "held-out training"


def _facts(results: Results) -> list[str]:
    laws = []
    for axis in results.axes:
        tried = f"tried at {len(axis.values)} {axis.several}, {axis.values[0]:g} to {axis.values[-1]:g}"
        laws += [f"trained at {axis.trained}", tried.replace("-", "\N{MINUS SIGN}")]
    cases = results.driven(results.arms[0]).first.about.settings.cases
    return [
        f"world: {results.world.replace('_', ' ')}",
        *laws,
        count(results.count("all"), "planning case" if cases else f"{_kind(results)} episode"),
        *([f"a goal {cases.offset} frames on, {cases.budget} controls to reach it"] if cases else []),
        f"dataset {results.about.dataset}",
    ]


def policies(results: Results) -> dict[str, Label]:
    """Labels of arms in tables, grey for policies without training."""
    look = styles([arm for arm in results.arms if not results.driven(arm).baseline])
    return {arm: Label(arm, look[arm][0] if arm in look else GREY) for arm in results.arms}


def _row(results: Results, arm: str, cells: Sequence[Any]) -> Row:
    return Row([policies(results)[arm], *cells], "reference" if results.driven(arm).baseline else "")


# --- measures ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A measure, or its share among the episodes in which its condition happened."""

    measure: Measure
    conditional: bool = False

    @property
    def title(self) -> str:
        """The measure's name and unit."""
        name = self.measure.name.replace("_", " ")
        unit = {"": "%", "1": ""}.get(self.measure.unit, self.measure.unit)
        return (f"{name} given {self.measure.condition}" if self.conditional else name) + (f" ({unit})" if unit else "")

    @property
    def about(self) -> str:
        """The measure's description."""
        return f"of the episodes with {self.measure.condition.replace('_', ' ')}" if self.conditional else self.measure.about


def columns(results: Results) -> list[Column]:
    """All measures of the task, each followed by its conditional share, if it has one."""
    return [
        column
        for measure in results.about.measures
        for column in (Column(measure), *([Column(measure, conditional=True)] if measure.condition else []))
    ]


def _number(estimate: Estimate, measure: Measure) -> Number:
    scale, decimals = (1.0, 2) if measure.unit else (100.0, 1)
    return Number(estimate.interval, decimals, scale=scale, note=DAGGER if estimate.how == WILSON else "")


_WILSON = f"{DAGGER} Wilson's interval, where all values are equal, or episodes, successes or failures are few."


def _success(results: Results) -> list[Block]:
    """The table of success by region, with trainings and repeats."""
    success = results.about.measures[0]
    rows = []
    for arm in results.arms:
        driven = results.driven(arm)
        tries = max(len(tries) for tries in driven.trainings)
        cells = [_number(results.estimate(arm, success, region), success) for region in results.regions]
        rows.append(_row(results, arm, [*cells, None if driven.baseline else len(driven.trainings), tries]))
    heads = [f"{capital(REGIONS[region])} ({results.count(region)})" for region in results.regions]
    notes = [note for name, note in _CEILINGS.items() if any(results.driven(arm).baseline == name for arm in results.arms)]
    if any(len(results.seeds(arm)) == 1 and not results.driven(arm).baseline for arm in results.arms):
        notes.append("Where a policy was trained once, intervals cover the choice of episodes, not of the training.")
    notes.append("Intervals are for one comparison at a time; of twenty, about one misses.")
    caption = f"Success in per cent, 95 % interval below. {_WILSON}"
    return [Table(["Policy", *heads, "Trainings", "Repeats per episode"], rows, caption), Text(" ".join(notes))]


def _by_law(results: Results) -> list[Block]:
    if results.about.split != SPLIT:  # laws of training episodes are all different, so there is no average by law
        return []
    caption = (
        "Yellow: the density of the training laws; between the dotted lines counts as in distribution. Bands are 95 % "
        "intervals over the episodes of one value and, if there are several, trainings. Grey: policies without training."
    )
    blocks: list[Block] = [Text(caption, quiet=True)] if results.axes else []
    for axis in results.axes:
        shares = {
            arm: [results.estimate(arm, results.about.measures[0], results.where(**{axis.name: v})) for v in axis.values]
            for arm in results.arms
        }
        records = [
            {"policy": arm, axis.name: value, **asdict(estimate.interval), "interval": estimate.how}
            for arm, estimates in shares.items()
            for value, estimate in zip(axis.values, estimates, strict=True)
        ]
        blocks += [success_figure(results, axis, shares), Data(f"by_{axis.name}", records)]
    return blocks


def success_figure(results: Results, axis: Axis, shares: Mapping[str, Sequence[Estimate]]) -> Figure:
    """Success by a law, over all values of the other laws; policies without training are thin lines."""
    curves: dict[str, list[Interval]] = {}
    thin: dict[str, Thin] = {}
    for arm, estimates in shares.items():
        percent = [rate.interval.percent() for rate in estimates]
        if baseline := results.driven(arm).baseline:
            thin[arm] = ([rate.mean for rate in percent], GREY, _DASHES.get(baseline, DASHED))
        else:
            curves[arm] = percent
    return figures.by_law(f"success_by_{axis.name}", "Success", "episodes (%)", axis, curves, thin, (-2, 104))


def measure_records(results: Results) -> list[Record]:
    """A record for every policy, region and measure."""
    return [
        {
            "policy": arm,
            "region": region,
            "measure": column.measure.name,
            "given": column.measure.condition if column.conditional else "",
            "unit": column.measure.unit or "share",
            **asdict(estimate.interval),
            "interval": estimate.how,
        }
        for region in results.regions
        for arm in results.arms
        for column in columns(results)
        for estimate in [results.estimate(arm, column.measure, region, column.conditional)]
    ]


def _measures(results: Results) -> list[Block]:
    measures = columns(results)
    meanings = "; ".join(f"{column.title}: {column.about}" for column in measures)
    blocks: list[Block] = [Text(f"{meanings}.", quiet=True)]
    for region in results.regions:
        rows = [
            _row(
                results, arm, [_number(results.estimate(arm, c.measure, region, c.conditional), c.measure) for c in measures]
            )
            for arm in results.arms
        ]
        caption = (
            f"{capital(REGIONS[region])}: {count(results.count(region), 'episode')}. Means with 95 % intervals. {_WILSON}"
        )
        blocks.append(Table(["Policy", *(column.title for column in measures)], rows, caption))
    return [*blocks, Data("measures", measure_records(results))]


def by_plan(results: Results) -> Table | None:
    """Success by the expert's plan in the case's episode; None if there is only one plan."""
    if not results.plans:
        return None
    success = results.about.measures[0]
    shares = {
        arm: {plan: results.estimate(arm, success, by_plan_) for plan, by_plan_ in results.plans.items()}
        for arm in results.arms
    }
    rows = [
        _row(results, arm, [_number(estimate, success) for estimate in by_plan_.values()])
        for arm, by_plan_ in shares.items()
    ]
    records = [
        {"policy": arm, "plan": plan, **asdict(estimate.interval), "interval": estimate.how}
        for arm, by_plan_ in shares.items()
        for plan, estimate in by_plan_.items()
    ]
    caption = (
        "Success in per cent, by the expert's plan in the episode that a case is taken from, with the number of cases: a "
        f"goal that random actions reach decides little. {_WILSON}"
    )
    heads = ["Policy", *(f"{plan} ({int(by_plan_.sum())})" for plan, by_plan_ in results.plans.items())]
    return Table(heads, rows, caption, "by_plan", records)


# --- comparisons ---------------------------------------------------------------------------------------------------


def pairs(results: Results) -> Iterator[tuple[str, str]]:
    """Pairs of arms to compare: trained policies with all others; policies without training only if there are no others."""
    baselines = {arm for arm in results.arms if results.driven(arm).baseline}
    for first, second in combinations(results.arms, 2):
        if len(baselines) == len(results.arms) or not {first, second} <= baselines:
            yield (second, first) if first in baselines and second not in baselines else (first, second)


def decides(results: Results, *arms: str) -> bool:
    """Whether the trained policies among the arms have enough trainings for a verdict."""
    return all(results.driven(arm).baseline or len(results.seeds(arm)) >= MIN_TRAININGS for arm in arms)


def difference_records(results: Results) -> list[Record]:
    """Records of differences of success and of counts, on the same episodes."""
    return [
        {
            "policy": first,
            "minus": second,
            "region": region,
            "measure": measure.name,
            **asdict(results.gap(first, second, measure.name, region=region)),
        }
        for measure in results.compared
        for first, second in pairs(results)
        for region in results.regions
    ]


def differences(results: Results) -> list[Block]:
    """A table for each measure by which policies are compared, and records of all differences."""
    blocks: list[Block] = []
    for measure in results.compared:
        rows: list[Sequence[Cell]] = []
        for first, second in pairs(results):
            cells = []
            for region in results.regions:
                gap = results.gap(first, second, measure.name, region=region)
                word = verdict(gap, measure.better) if decides(results, first, second) else ""
                scale, decimals = (1.0, 2) if measure.unit else (100.0, 1)
                cells.append(Number(gap, decimals, verdict=word, scale=scale, signed=True))
            rows.append([Label(f"{first} minus {second}", policies(results)[first].colour), *cells])
        unit = "" if measure.unit else " in percentage points"
        seldom = [arm for arm in results.arms if not decides(results, arm)]
        caption = f"Difference of {measure.name.replace('_', ' ')}{unit} on the same episodes, with 95 % intervals."
        caption += f" Fewer than {MIN_TRAININGS} trainings of {join(seldom)}: no verdict there." if seldom else ""
        blocks.append(Table(["Policies", *(capital(REGIONS[region]) for region in results.regions)], rows, caption))
    return [*blocks, Data("differences", difference_records(results))]


def _outcomes(results: Results, spec: EnvSpec) -> list[Block]:
    """The table of outcomes, in the world's words."""
    label = spec.outcome_label
    shares = {arm: results.driven(arm).outcomes(label, results.region("all")) for arm in results.arms}
    words = [word for word in spec.labels[label] if any(word in some for some in shares.values())]
    rows = [_row(results, arm, [fixed(100 * some.get(word, 0.0), 1) for word in words]) for arm, some in shares.items()]
    records = [{"policy": arm, label: word, "share": share} for arm, some in shares.items() for word, share in some.items()]
    caption = f"Outcomes of all {results.count('all')} episodes ({label}), in per cent, over all repeats."
    return [Table(["Policy", *(word.replace("_", " ") for word in words)], rows, caption, "outcomes", records)]


def _latency(results: Results) -> Table:
    """The table of planning times, a row per policy that plans."""
    rows, records = [], []
    for arm in results.arms:
        driven = results.driven(arm)
        latency, how = driven.latency, driven.how
        if latency is None:
            continue
        searched = f"{how['candidates']} × {how['iterations']}, {how['elites']} elites, {how['search'].upper()}"
        plan = f"{how['horizon']} controls, {how['execute']} executed; {how['price']}"
        rows.append(_row(results, arm, [fixed(latency.median, 3), fixed(latency.most, 3), latency.plans, searched, plan]))
        records.append({"policy": arm, "median_s": latency.median, "p95_s": latency.most, "plans": latency.plans, **how})
    caption = "Wall-clock time of one plan of one episode, on the machine of the trial."
    heads = ["Policy", "Median (s)", "95th percentile (s)", "Plans", "Candidates × iterations", "A plan"]
    return Table(heads, rows, caption, "latency", records, text=(4, 5))


# --- beside the paper ----------------------------------------------------------------------------------------------


def paper_comparison(results: Results, latents: Latents) -> list[Record]:
    """A record for every run that plans, each followed by the paper's for the same predictor, if it has one."""
    records: list[Record] = []
    paper = published_plans(results.world)
    for arm in results.arms if paper else ():
        driven = results.driven(arm)
        if driven.latency is None or driven.baseline:
            continue
        success = results.estimate(arm, results.about.measures[0]).interval
        measured = {"success": success, **latent_errors(results, arm, latents)}
        records.append(_record(arm, "here", measured, driven.latency.median))
        if plans := paper.get(method_of(arm)):
            share = Interval(plans.success / 100, plans.low / 100, plans.high / 100, 50)
            published = {
                "success": share,
                "k_last": figures.without_interval(plans.k5),
                "k_mean": figures.without_interval(plans.mean),
            }
            records.append(_record(arm, "paper", published | {"k_share": figures.without_interval(np.nan)}, plans.seconds))
    return records


def method_of(arm: str) -> str:
    """The method in an arm's label, without planner and encoder."""
    return arm.partition(",")[0]


def known_latents(results: Results, arm: str, latents: Latents) -> list[LatentErrors]:
    """The latent errors of an arm's trainings, where they were measured."""
    weights = (tries[0].driver.weights for tries in results.driven(arm).trainings)
    return [latents[digest] for digest in weights if digest in latents]


def latent_errors(results: Results, arm: str, latents: Latents) -> dict[str, Interval]:
    """The latent error of the last prediction, the mean over all predictions, and the former as a share of the variance."""
    known = known_latents(results, arm, latents)
    if not known:
        return dict.fromkeys(("k_last", "k_mean", "k_share"), figures.without_interval(np.nan))
    errors = np.stack([errors_of.errors for errors_of in known])  # (trainings, E, K)
    shares = np.stack([errors_of.errors[:, -1:] / errors_of.variance for errors_of in known])  # (trainings, E, 1)
    means = {"k_last": errors[..., -1:], "k_mean": errors.mean(axis=-1, keepdims=True), "k_share": shares}
    return {name: bootstrap(values)[0] for name, values in means.items()}


def _record(arm: str, of: str, ends: Mapping[str, Interval], seconds: float) -> Record:
    record: Record = {"policy": arm, "of": of}
    for key, interval in ends.items():
        record |= {key: interval.mean, f"{key}_low": interval.low, f"{key}_high": interval.high}
    return record | {"seconds": seconds}


def _paper_comparison(results: Results, latents: Latents) -> Table:
    records, rows = paper_comparison(results, latents), []
    for record in records:
        is_measured, arm = record["of"] == "here", record["policy"]
        cells = [
            Number(Interval(record[key], record[f"{key}_low"], record[f"{key}_high"], 0), decimals, scale=scale)
            for key, scale, decimals in (("success", 100, 1), ("k_last", 1, 5), ("k_mean", 1, 5), ("k_share", 100, 1))
        ]
        name = policies(results)[arm] if is_measured else f"paper: {method_of(arm)}"
        rows.append(Row([name, *cells, fixed(record["seconds"], 3)], "" if is_measured else "paper"))
    steps = next(iter(latents.values())).steps if latents else 5
    errors = (f"Latent MSE after {steps}", f"Latent MSE, mean of 1 to {steps}", f"After {steps}, of the variance (%)")
    caption = (
        "In italics the paper's numbers, at its size and on its machine: 50 cases. Its search settings are unknown, and "
        f"latents of two models have different scales. {_OTHERWISE.get(results.world, '')}"
    )
    return Table(["Policy", "Success (%)", *errors, "A plan takes (s)"], rows, caption.strip(), "paper", records)


# --- films, origin -------------------------------------------------------------------------------------------------


def _films(results: Results, films: Mapping[str, tuple[bytes, str]]) -> list[Block]:
    cases = results.driven(results.arms[0]).first.about.settings.cases
    caption = ("To the right of each its goal. " if cases else "") + (
        "Two episodes drawn by chance, the same for every policy, its two best and two worst by the measures. "
        "Replayed from the recorded controls; a film stops when its outcome is decided."
    )
    blocks = [Film(arm, f"Episodes of {arm}: {about}", webp, arm) for arm, (webp, about) in films.items()]
    return captioned(caption, blocks)


def _origin(results: Results) -> list[Block]:
    rows = []
    for arm in results.arms:
        for trial in results.driven(arm).all:
            about, driver = trial.about, trial.driver
            how = ", ".join(f"{key} {value}" for key, value in about.settings.how.items())
            seeds = ["–" if driver.seed is None else driver.seed, about.settings.sampling]
            made = [Code(commit(about.provenance)), Code(str(about.provenance["command"]))]
            rows.append([policies(results)[arm], driver.name, *seeds, how, f"{about.seconds:,.0f} s", *made])
    heads = ["Policy", "Folder", "Training seed", "Sampling seed", "How", "Took", "Commit", "Command"]
    settings = results.driven(results.arms[0]).first.about.settings
    return [
        Table(heads, rows, "The trials.", text=(1, 4, 6, 7)),
        Text(f"Dataset {results.about.dataset}, {results.about.split} split, digest {settings.data}."),
        *this_page("figures/ (PNG and SVG), films/ (WebP) and tables/ (all numbers as CSV)"),
    ]
