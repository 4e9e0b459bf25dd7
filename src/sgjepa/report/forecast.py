"""The page of forecasts: what models imagine, how far off it is, and how they compare, in tables with intervals."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sgjepa.core import artifact
from sgjepa.core.stats import Interval
from sgjepa.evaluation.metrics import METRICS
from sgjepa.report import figures
from sgjepa.report.blocks import Block, Cell, Code, Data, Group, Named, Number, Row, Section, Table, Text, captioned, named
from sgjepa.report.forecast_figures import (
    baseline_figures,
    drawn_metrics,
    horizon_figures,
    judged_regions,
    law_figure,
    law_maps,
    ratio_bars,
    strip_figure,
    training_figures,
    with_strips,
)
from sgjepa.report.page import Page, commit, this_page, write_page
from sgjepa.report.words import (
    FEW,
    capital,
    compare,
    count,
    decimals_of,
    few,
    join,
    measured,
    size_of,
    too_few,
    unit,
    where,
)
from sgjepa.results.claims import BETTER, UNDECIDED, WORSE, verdict
from sgjepa.results.counterfactual import Counterfactual, counterfactuals
from sgjepa.results.evaluations import Evaluation
from sgjepa.results.paper_numbers import published
from sgjepa.results.table import BASELINES, MAIN, MEAN, REGIONS, Axis, Horizon, Results
from sgjepa.results.training import LEAST, budget_words, cost, too_short

MADE_BY = "sgjepa report"
Record = dict[str, Any]
_LATENT = ("nmse", "excess_nmse")  # errors without a physical unit


def report(runs: Sequence[Path], out: Path, baseline: str | None = None, data: str | None = None) -> Path:
    """Write the report of evaluated runs to the folder `out`; returns the page."""
    artifact.require_free(out, MADE_BY)
    return write_page(forecast_page(Results.of_runs(runs, baseline, data)), out, MADE_BY)


def forecast_page(
    results: Results, note: str = "", question: str = "", answer: Sequence[str] = (), lead: Sequence[Section] = ()
) -> Page:
    """The page of runs that were evaluated on the same episodes.

    note: what a reader must know about these runs. question, answer: of an experiment, instead of the usual ones.
    lead: an experiment's own sections, which come first.
    """
    change = "changes" if len(results.axes) == 1 else "change"
    laws = join([axis.name for axis in results.axes]) if results.axes else "law"
    usual = f"Does it stay right when {laws} {change}?" if results.axes else "Does it stay right for long?"
    narrow = f"trained on a narrow band of {laws}, " if results.axes else ""
    under = " under other laws" if results.axes else ""
    about = (
        f"The models were {narrow}given true frames of held-out episodes{under}, and then predict {results.horizons} steps "
        "on their own: a rollout. A probe reads the object's position from their latents."
    )
    own = Text(" ".join(answers(results))) if answer else None
    sections = [
        *lead,
        Section("What it imagines", _imagined(results), name="pictures"),
        Section(capital(METRICS[MAIN].label), [own, *_main_tables(results, note)], name="numbers"),
        Section("Error by horizon", _by_horizon(results), folded=True, name="horizon"),
        Section(f"Error by {laws}", _by_law(results), folded=True, name="law"),
        Section(f"Relative to {results.baseline}", _relative(results), folded=True, name="relative"),
        Section("Decoded rollouts", _strips(results, with_strips(results)[1:]), folded=True, name="strips"),
        Section(f"Counterfactual {laws}", _counterfactual(results), folded=True, name="counterfactual"),
        Section("Each method beside its baselines", _baselines(results), folded=True, name="scale"),
        Section("Tables of all errors", _all_errors(results), folded=True, name="tables"),
        Section("Training", _training(results), folded=True, name="training"),
    ]
    world = results.world.replace("_", " ")
    return Page(question or usual, answer or answers(results), _facts(results), sections, _origin(results), about, world)


def answers(results: Results) -> list[str]:
    """How well SG-JEPA, or what the page is about in its place, predicts; then a sentence per comparison."""
    subject, last, wanted = results.subject, results.horizons, judged_regions(results)
    errors = {region: results.mean(subject, MAIN, [last], None, region)[last] for region in wanted}
    parts = [
        f"{size_of(error, MAIN)} on {count(results.count(region), 'held-out episode')}"
        + (f" {REGIONS[region]}" if region != "all" else "")
        for region, error in errors.items()
    ]
    ahead = count(last, "step")
    sentences = [f"{subject} predicts where the object is {ahead} ahead with a mean error of {', and '.join(parts)}."]
    sentences += [too_few(results)] if too_few(results) else []
    for arm in results.others:
        for region in wanted:
            gap = results.gap(arm, results.baseline, MAIN, last, region)
            sentence = compare(arm, results.baseline, gap, MAIN, results.decides(arm, results.baseline))
            sentences.append(f"{capital(REGIONS[region])}: {sentence}." if region != "all" else f"{sentence}.")
    return sentences


def _facts(results: Results) -> list[str]:
    laws = []
    for axis in results.axes:
        low, high = axis.values[0], axis.values[-1]
        tested = f"tested at {len(axis.values)} {axis.several}, {low:g} to {high:g}".replace("-", "\N{MINUS SIGN}")
        laws += [f"trained at {axis.trained}", tested]
    seeds = sorted({len(results.seeds(arm)) for arm in results.arms})
    numbers = "–".join(str(number) for number in sorted({seeds[0], seeds[-1]}))
    return [
        f"world: {results.world.replace('_', ' ')}",
        *laws,
        count(results.count("all"), "test episode"),
        f"{results.horizons} steps predicted",
        f"{numbers} training {'seed' if seeds[-1] == 1 else 'seeds'} per method",
        f"dataset {_first(results).folder.name}",
    ]


def _first(results: Results) -> Evaluation:
    return results.evaluations(results.baseline)[0]


def _arms(results: Results) -> dict[str, Named]:
    """Arms as they stand in tables, with the number of their trainings."""
    return named(results.arms, lambda arm: count(len(results.seeds(arm)), "seed"))


# --- tables of errors ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """An arm, a baseline or a method of the paper in one table. kind: "method", "reference" or "paper"."""

    label: str
    kind: str
    seeds: int
    cells: dict[Horizon, Number]


def lines(results: Results, metric: str, region: str) -> list[Line]:
    """One metric in one region: the arms, what learns no dynamics, and the paper's numbers, which are over all laws."""
    columns, decimals = results.columns, decimals_of(metric)
    marks = {h: results.marks(metric, h, region) for h in columns} if results.decides() else {}
    rows = []
    for arm in results.arms:
        means = results.mean(arm, metric, columns, None, region)
        cells = {h: Number(one, decimals, marks[h][arm] if marks else "") for h, one in means.items()}
        rows.append(Line(arm, "method", len(results.seeds(arm)), cells))
    baselines = [(BASELINES["stay"], "stay", results.baseline)]
    baselines += [(f"simulator from {arm}'s probe", "simulator", arm) for arm in results.arms]
    for label, source, arm in baselines:
        means = results.mean(arm, metric, columns, source, region)
        if np.isfinite(means[MEAN].mean):
            rows.append(Line(label, "reference", 0, {h: Number(one, decimals) for h, one in means.items()}))
    paper = published(results.world) if region == "all" else None
    for label, values in (paper.values.get(metric, {}) if paper else {}).items():
        cells = {h: Number(figures.alone(values[h]), decimals) for h in columns if h in values}
        rows += [Line(f"paper: {label}", "paper", 1, cells)] if cells else []
    return rows


def _rows(results: Results, title: str, several: Sequence[Line]) -> list[Row | Group]:
    arms = _arms(results)
    names = arms | {line.label: Named(line.label, note="at paper size") for line in several if line.kind == "paper"}
    cells = [[names.get(line.label, line.label), *map(line.cells.get, results.columns)] for line in several]
    return [Group(title), *(Row(row, line.kind) for row, line in zip(cells, several, strict=True))]


def _heads(results: Results) -> list[str]:
    return ["Method", *("mean" if h == MEAN else f"h = {h}" for h in results.columns)]


def _marks_note(results: Results) -> str:
    return too_few(results) or (
        "Bold: the lowest error, and every method that does not differ from it significantly; underlined: the next."
    )


def _main_tables(results: Results, note: str) -> list[Block]:
    """The table that answers, the differences from the baseline, and what a reader must know about both."""
    rows: list[Row | Group] = []
    for region in judged_regions(results):
        mine = [line for line in lines(results, MAIN, region) if line.kind != "paper"]
        rows += _rows(results, capital(where(results, region)), mine)
    caption = f"{measured(MAIN)} by horizon; lower is better. Small: 95 % intervals over episodes"
    caption += "" if _once(results) else " and trainings"
    blocks: list[Block] = [Table(_heads(results), rows, f"{caption}. {_marks_note(results)}")]
    if results.others:
        blocks.append(_differences(results))
    notes = [*cautions(results), *([note] if note else [])]
    return [*blocks, Text(" ".join(notes))]


def _differences(results: Results) -> Table:
    """Every other arm minus the baseline in the main metric."""
    rows: list[Row | Group] = []
    arms = _arms(results)
    for region in judged_regions(results):
        rows.append(Group(capital(where(results, region))))
        for arm in results.others:
            gaps = results.difference(arm, results.baseline, MAIN, None, region)
            decided = results.decides(arm, results.baseline)
            cells = [Number(gap, 3, verdict=verdict(gap) if decided else "", signed=True) for gap in gaps.values()]
            rows.append(Row([arms[arm], *cells]))
    caption = (
        f"Difference from {results.baseline} on the same episodes in {unit(MAIN)}, below zero where a method errs less."
    )
    judged = too_few(results) or "Better or worse: the 95 % interval excludes zero."
    return Table(_heads(results), rows, f"{caption} {judged}")


def _once(results: Results) -> bool:
    return max(len(results.seeds(arm)) for arm in results.arms) == 1


def cautions(results: Results) -> list[str]:
    """What the intervals do not cover."""
    seeds = {arm: len(results.seeds(arm)) for arm in results.arms}
    once = [arm for arm, number in seeds.items() if number == 1]
    cautions = []
    if once:
        who = "Each method was" if len(once) == len(seeds) else f"{join(once)} {'was' if len(once) == 1 else 'were'}"
        cautions.append(f"{who} trained once: the intervals cover the choice of episodes, not of the training seed.")
    if thin := [where(results, region) for region in results.regions if results.count(region) < FEW]:
        cautions.append(f"{capital(join(thin))}: intervals from fewer than {FEW} episodes cover the truth less often.")
    return [*cautions, "Intervals are for one comparison at a time; of twenty, about one misses."]


def _all_errors(results: Results) -> list[Block]:
    paper = published(results.world)
    note = "Mean error over episodes, 95 % interval below; the last column is the mean over all horizons."
    note += f" {_marks_note(results)}"
    if paper:
        note += f" Lines in italics are the paper's own numbers, not ours ({paper.source}); no intervals are given."
    blocks: list[Block] = [Text(note, quiet=True)]
    records: list[Record] = []
    for region in results.regions:
        rows: list[Row | Group] = []
        for metric in results.comparable:
            several = lines(results, metric, region)
            rows += _rows(results, measured(metric), several)
            for line in several:
                head = {"region": region, "metric": metric, "method": line.label, "kind": line.kind}
                for h, cell in line.cells.items():
                    ends = _columns(cell.interval)
                    records.append({**head, "horizon": h, **ends, "seeds": line.seeds, "mark": cell.mark})
        caption = f"Errors {where(results, region)}; lower is better.{few(results.count(region))}"
        blocks.append(Table(_heads(results), rows, caption))
    return [*blocks, Data("errors", records)]


def _columns(one: Interval, name: str = "mean") -> Record:
    """An interval as columns of a CSV file."""
    low, high = ("low", "high") if name == "mean" else (f"{name}_low", f"{name}_high")
    return {name: one.mean, low: one.low, high: one.high, "episodes": one.count}


# --- errors as figures ---------------------------------------------------------------------------------------------


def _strips(results: Results, runs: Sequence[tuple[str, Evaluation]]) -> list[Block]:
    """Decoded rollouts, each followed by the command that opens its run in the viewer."""
    blocks: list[Block] = []
    for arm, run in runs:
        command = f"sgjepa view {shlex.quote(str(run.run))}"
        blocks += [strip_figure(results, arm, run), Text("Change the law yourself:", quiet=True, code=command)]
    return captioned("Above the true frames, below the latents of a rollout, decoded to pictures.", blocks)


def _imagined(results: Results) -> list[Block]:
    """Decoded rollouts of the subject, and the main error by law and by horizon."""
    over = "episodes" if _once(results) else "episodes and trainings"
    law = f" Yellow: how densely the training {results.axes[0].several} lie." if len(results.axes) == 1 else ""
    return [
        *_strips(results, with_strips(results)[:1]),
        Text(f"Lines are means, bands 95 % bootstrap intervals over {over}.{law} {_DASHES}", quiet=True),
        *(law_figure(results, MAIN, axis) for axis in results.axes),
        *horizon_figures(results, MAIN),
    ]


_DASHES = (
    "Dashed: the object stays where it was last seen. Dotted, in a method's colour: the simulator from the state that its "
    "probe reads, which is what perfect dynamics would reach."
)


def _by_horizon(results: Results) -> list[Block]:
    """Every metric but the main one, whose figures stand at the top, and the numbers of all curves."""
    drawn = [figure for metric in drawn_metrics(results) if metric != MAIN for figure in horizon_figures(results, metric)]
    caption = f"Lines are means over episodes and training seeds, bands 95 % bootstrap intervals. {_DASHES}"
    records = [
        {**head, "source": source, "region": region, "horizon": h, **_columns(one)}
        for arm in results.arms
        for metric in results.comparable
        for head in [_head(results, arm, metric)]
        for source in ("predicted", *BASELINES)
        for region in results.regions
        for h, one in enumerate(results.curve(arm, metric, source, region), start=1)
        if np.isfinite(one.mean)
    ]
    return [*captioned(caption, drawn), Data("by_horizon", records)]


def _head(results: Results, arm: str, metric: str) -> Record:
    return {"method": arm, "seeds": len(results.seeds(arm)), "metric": metric}


def _by_law(results: Results) -> list[Block]:
    """The other physical errors at the last horizon, by each law and over two of them, and the numbers of all."""
    if not results.axes:
        return []
    axes, last = results.axes, results.horizons
    laws = axes[0].several if len(axes) == 1 else "laws"
    each = axes[0].name if len(axes) == 1 else "value of a law, over all values of the others"
    caption = (
        f"Error at h = {last} for each {each}. Yellow: the density of the training {laws}; between the dotted lines counts "
        "as in distribution. Bands are 95 % intervals over the episodes of one value."
    )
    least = min(one.count for axis in axes for one in results.by_law(results.baseline, MAIN, last, [axis.name]).values())
    caption += f" Some values have fewer than {FEW} episodes: their bands cover less often than 95 %." if least < FEW else ""
    metrics = [metric for metric in drawn_metrics(results) if metric not in (MAIN, *_LATENT)]
    drawn = [law_figure(results, metric, axis) for axis in axes for metric in [*metrics, "nmse"]]
    blocks: list[Block] = [Text(caption, quiet=True), *drawn]
    if len(axes) > 1:
        names = " and ".join(axis.name for axis in axes[:2])
        blocks += [Text(f"The plane of {names}. White frame: in distribution for both.", quiet=True), *law_maps(results)]
    if results.coverage:
        blocks.append(_coverage(results))
    names_ = [[axis.name] for axis in axes] + ([list(results.law_names)] if len(axes) > 1 else [])
    files = [f"by_{axis.name}" for axis in axes] + (["by_laws"] if len(axes) > 1 else [])
    return [*blocks, *(Data(file, _law_records(results, names)) for file, names in zip(files, names_, strict=True))]


def _coverage(results: Results) -> Table:
    """How well the distance from the training laws tells the error, before any training."""
    caption = (
        "Coverage L_law says how far outside the training laws an episode lies, before any training: its rank correlation "
        f"with the {METRICS[MAIN].label} at h = {results.horizons} over the test laws."
    )
    ranks = {arm: results.coverage_correlation(arm, MAIN) for arm in results.arms}
    rows = [(_arms(results)[arm], Number(rank, 2, note=""), rank.count) for arm, rank in ranks.items()]
    return Table(["Method", "Rank correlation", "Laws"], rows, caption)


def _law_records(results: Results, names: Sequence[str]) -> list[Record]:
    """Every metric at the last horizon, for each combination of these laws' values; L_law where these are all laws."""
    last, complete = results.horizons, tuple(names) == results.law_names
    return [
        {
            **_head(results, arm, metric),
            **{f"law.{name}": value for name, value in zip(names, values, strict=True)},
            "L_law": results.coverage.get(values, float("nan")) if complete else float("nan"),
            "horizon": last,
            **_columns(one),
        }
        for arm in results.arms
        for metric in results.comparable
        for values, one in results.by_law(arm, metric, last, names).items()
    ]


# --- comparisons ---------------------------------------------------------------------------------------------------


def _relative(results: Results) -> list[Block]:
    """Every error at the last horizon relative to the baseline's, and all comparisons as numbers."""
    if not results.others:
        return []
    base, last = results.baseline, results.horizons
    compared: list[Record] = []
    cells: dict[tuple[str, str, str], Number] = {}
    for arm in results.others:
        decided = results.decides(arm, base)
        for metric in results.comparable:
            for region in results.regions:
                gaps, ratios = (ask(arm, base, metric, None, region) for ask in (results.difference, results.ratio))
                for h, gap in gaps.items():
                    word = verdict(gap) if decided else ""
                    head = {"method": arm, "baseline": base, "metric": metric, "region": region, "horizon": h}
                    ends = _columns(gap, "difference") | _columns(ratios[h], "ratio")
                    compared.append({**head, **ends, "verdict": word})
                    if h == last:
                        cells[arm, metric, region] = Number(ratios[h], change=True, verdict=word)
    arms, rows = _arms(results), list[Row | Group]()
    for metric in results.comparable:
        rows.append(Group(measured(metric)))
        rows += [Row([arms[arm], *(cells[arm, metric, region] for region in results.regions)]) for arm in results.others]
    caption = f"Change of the error at h = {last} against {base}, 95 % interval below. " + (
        too_few(results) or "Better or worse: the interval of the paired difference excludes zero."
    )
    about = (
        f"Error at h = {last} divided by that of {base}, whose own stands below each group; lower is better. Whiskers: 95 % "
        "intervals of the ratio on the same episodes. Dashed: the object stays put."
    )
    drawn = [ratio_bars(results, region) for region in results.regions]
    heads = ["Method", *(capital(REGIONS[region]) for region in results.regions)]
    return [Text(about, quiet=True), *drawn, Table(heads, rows, caption), Data("comparisons", compared)]


def _baselines(results: Results) -> list[Block]:
    """Each method's rollout among what puts it in scale, and minus its own baselines."""
    caption = (
        f"{capital(METRICS[MAIN].label)} over all test episodes. One step at a time: every prediction starts from true "
        "latents. Probe on true frames: what the read-out alone gets wrong. Simulator and constant velocity start from the "
        "probed state."
    )
    return [Text(caption, quiet=True), *baseline_figures(results), _against_baselines(results)]


def _against_baselines(results: Results) -> Table:
    """Each rollout minus staying put, and minus the simulator from what the probe reads."""
    arms, rows = _arms(results), list[Row | Group]()
    for region in results.regions:
        rows.append(Group(capital(where(results, region))))
        for arm in results.arms:
            gaps = [results.against(arm, source, MAIN, region)[-1] for source in ("stay", "simulator")]
            cells = [Number(gap, 3, verdict=verdict(gap) if results.decides(arm) else "", signed=True) for gap in gaps]
            rows.append(Row([arms[arm], *cells]))
    caption = (
        f"{measured(MAIN)} of each rollout at h = {results.horizons} minus that of its own baselines on the same episodes, "
        f"below zero where the rollout errs less. {too_few(results)}"
    )
    return Table(["Method", f"minus {BASELINES['stay']}", f"minus {BASELINES['simulator']}"], rows, caption.strip())


def _counterfactual(results: Results) -> list[Block]:
    """What a wrong law does to each method's error."""
    changed = counterfactuals(results)
    if not changed:
        return []
    laws = " or ".join(axis.name for axis in results.axes)
    caption = (
        f"The same episodes, with another {laws} given to the model. A model that uses it errs least at the ring, the true "
        "value. NMSE averaged over horizons by the trapezoidal rule "
        f"(h = {', '.join(str(h) for h in changed[0].horizons)}), with 95 % intervals."
    )
    axes = {axis.name: axis for axis in results.axes}
    drawn = [
        figures.counterfactual(f"counterfactual_{number}", one.label, axes[one.law], _curves(one))
        for number, one in enumerate(changed, start=1)
    ]
    records = [
        {
            "method": one.label,
            "law": one.law,
            "law.true": true,
            "law.given": given,
            **_columns(one.area[true, given], "area"),
            **_columns(one.rise[true, given], "rise"),
            "seeds": one.seeds,
            "verdict": verdict(one.rise[true, given]) if given != true else "",
        }
        for one in changed
        for true, given in sorted(one.area)
    ]
    tables = [_rises(one, axes[one.law], results.decides(one.label)) for one in changed]
    return [Text(caption, quiet=True), *drawn, *tables, Data("counterfactual", records)]


def _curves(one: Counterfactual) -> dict[float, list[tuple[float, Interval]]]:
    return {true: [(given, one.area[true, given]) for given in one.given(true)] for true in one.true}


def _rises(one: Counterfactual, law: Axis, decides: bool) -> Table:
    """What each value that is given to a method adds to its error with the true one."""
    chips = {BETTER: "larger", WORSE: "smaller", UNDECIDED: "not significant"} if decides else {}
    given = sorted({value for _, value in one.area})
    rows: list[Row] = []
    for true in one.true:
        rises = {value: one.rise.get((true, value)) for value in given if value != true}
        cells = [
            Number(rise, verdict=chips.get(verdict(rise, 1), ""), signed=True) if (rise := rises.get(value)) else None
            for value in given
        ]
        rows.append(Row([f"true {law.symbol} = {true:g}", *cells]))
    n = next(iter(one.area.values())).count
    caption = (
        f"{one.label}: NMSE with the {law.name} given minus NMSE with the true one; {count(n, 'episode')} each, "
        f"{count(one.seeds, 'seed')}.{few(n)}"
    )
    return Table(["Episodes", *(f"{law.symbol} = {value:g} given" for value in given)], rows, caption)


# --- pictures, training, origin ------------------------------------------------------------------------------------


def _training(results: Results) -> list[Block]:
    """Curves of the training, and whether the budgets were equal."""
    caption = (
        "Measured on the validation episodes, one line per training seed. The prediction terms of the two objectives are "
        "different quantities in latents of different scale: compare a curve with itself, not with another method's."
    )
    short = too_short(results)
    missing = [Text(f"Measured fewer than {LEAST} times, and not drawn: {join(short)}.")] if short else []
    costs = [cost(run) for arm in results.arms for run in results.evaluations(arm)]
    return [*captioned(caption, training_figures(results)), *missing, Text(budget_words(costs))]


def _origin(results: Results) -> list[Block]:
    """A line per run, then how they were evaluated and how the page was made."""
    arms, rows = named(results.arms), list[Sequence[Cell]]()
    for arm in results.arms:
        for run in results.evaluations(arm):
            spent, scores = cost(run), run.about.scores
            rank, probe = scores.effective_rank, scores.probe["validation_nmse"]
            by = [Code(commit(spent.provenance)), Code(str(spent.provenance["command"]))]
            numbers: list[Cell] = [run.about.seed, spent.steps, f"{spent.seconds:,.0f} s", f"{rank:.1f}", f"{probe:.4f}"]
            rows.append([arms[arm], str(run.about.run), *numbers, *by])
    heads = ["Method", "Run", "Seed", "Updates", "Training", "Effective rank", "Probe NMSE", "Commit", "Command"]
    caption = "The runs. Training: wall time with validation. Probe NMSE: on validation episodes, from true latents."
    first = _first(results)
    made = first.about.provenance
    libraries = ", ".join(f"{name} {version}" for name, version in made["libraries"].items())
    return [
        Table(heads, rows, caption, text=(1, 7, 8)),
        Text(f"Evaluation {first.folder.name}, dataset {first.dataset}, digest {first.about.settings.data}."),
        Text(f"Evaluated with: {made['command']}, commit {commit(made)}, sgjepa {made['sgjepa']}."),
        Text(f"Python {made['python']}, {libraries}; {made['platform']}."),
        *this_page("figures/ (the same pictures as PNG and SVG) and tables/ (all numbers as CSV)"),
    ]
