"""The page of forecasts: imagined rollouts, their errors, and comparisons, with intervals."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from sgjepa.core import artifact
from sgjepa.core.stats import Interval
from sgjepa.evaluation.metrics import MAIN, METRICS
from sgjepa.laws import get_law
from sgjepa.report import figures
from sgjepa.report.blocks import Block, Cell, Code, Data, Group, Row, Section, Table, Text, captioned, labels_of
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
from sgjepa.report.forecast_tables import (
    all_errors,
    baseline_table,
    comparisons,
    counterfactual_records,
    coverage_table,
    difference_table,
    heads_of,
    horizon_records,
    law_records,
    line_rows,
    lines,
    marks_note,
    rise_table,
)
from sgjepa.report.page import Page, commit, this_page, write_page
from sgjepa.report.words import (
    FEW,
    capital,
    compare,
    count,
    join,
    measured,
    size_of,
    too_few,
    where,
)
from sgjepa.results.counterfactual import Counterfactual, counterfactuals
from sgjepa.results.evaluations import Evaluation
from sgjepa.results.selection import REGIONS
from sgjepa.results.table import Results
from sgjepa.results.training import MIN_POINTS, budget_words, cost, too_short

MADE_BY = "sgjepa report"
_LATENT = ("nmse", "excess_nmse")  # errors without a physical unit
_ALONG = ("along_l2", "across_l2")  # in the coordinates that the laws move, and in the others


def report(runs: Sequence[Path], out: Path, baseline: str | None = None, data: str | None = None) -> Path:
    """Write the report of evaluated runs to the folder `out`; returns the page."""
    artifact.require_free(out, MADE_BY)
    return write_page(forecast_page(Results.of_runs(runs, baseline, data)), out, MADE_BY)


def forecast_page(
    results: Results, note: str = "", question: str = "", answer: Sequence[str] = (), lead: Sequence[Section] = ()
) -> Page:
    """The page of runs that were evaluated on the same episodes.

    note: a remark on these runs. question, answer: of an experiment, instead of the default.
    lead: an experiment's own sections, which come first.
    """
    change = "changes" if len(results.axes) == 1 else "change"
    laws = join([axis.name for axis in results.axes]) if results.axes else "law"
    default_question = f"Does it stay right when {laws} {change}?" if results.axes else "Does it stay right for long?"
    narrow = f"trained on a narrow band of {laws}, " if results.axes else ""
    under = " under other laws" if results.axes else ""
    about = (
        f"The models were {narrow}given true frames of held-out episodes{under}, and then predict {results.horizons} steps "
        "on their own: a rollout. A probe reads the object's position from their latents."
    )
    own = Text(" ".join(answers(results))) if answer else None
    sections = [
        *lead,
        Section("Imagined rollouts", _imagined(results), name="pictures"),
        Section(capital(METRICS[MAIN].label), [own, *_main_tables(results, note)], name="numbers"),
        Section("Error along the law", _along(results), name="along"),
        Section("Error by horizon", _by_horizon(results), folded=True, name="horizon"),
        Section(f"Error by {laws}", _by_law(results), folded=True, name="law"),
        Section(f"Relative to {results.baseline}", _relative(results), folded=True, name="relative"),
        Section("Decoded rollouts", _strips(results, with_strips(results)[1:]), folded=True, name="strips"),
        Section(f"Counterfactual {laws}", _counterfactual(results), folded=True, name="counterfactual"),
        Section("Each method and its baselines", _baselines(results), folded=True, name="scale"),
        Section("Tables of all errors", all_errors(results), folded=True, name="tables"),
        Section("Training", _training(results), folded=True, name="training"),
    ]
    world = results.world.replace("_", " ")
    return Page(
        question or default_question, answer or answers(results), _facts(results), sections, _origin(results), about, world
    )


def answers(results: Results) -> list[str]:
    """A sentence on the error of the page's subject, then one per comparison."""
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


def _main_tables(results: Results, note: str) -> list[Block]:
    """The main table, the differences from the baseline, and notes on both."""
    rows: list[Row | Group] = []
    for region in judged_regions(results):
        measured_lines = [line for line in lines(results, MAIN, region) if line.kind != "paper"]
        rows += line_rows(results, capital(where(results, region)), measured_lines)
    caption = f"{measured(MAIN)} by horizon; lower is better. Small: 95 % intervals over episodes"
    caption += "" if _single_trainings(results) else " and trainings"
    blocks: list[Block] = [Table(heads_of(results), rows, f"{caption}. {marks_note(results)}")]
    if results.others:
        blocks.append(difference_table(results))
    notes = [*cautions(results), *([note] if note else [])]
    return [*blocks, Text(" ".join(notes))]


def _single_trainings(results: Results) -> bool:
    return max(len(results.seeds(arm)) for arm in results.arms) == 1


def cautions(results: Results) -> list[str]:
    """Notes on what the intervals do not cover."""
    seeds = {arm: len(results.seeds(arm)) for arm in results.arms}
    single = [arm for arm, number in seeds.items() if number == 1]
    cautions = []
    if single:
        who = "Each method was" if len(single) == len(seeds) else f"{join(single)} {'was' if len(single) == 1 else 'were'}"
        cautions.append(f"{who} trained once: the intervals cover the choice of episodes, not of the training seed.")
    if thin := [where(results, region) for region in results.regions if results.count(region) < FEW]:
        cautions.append(f"{capital(join(thin))}: intervals from fewer than {FEW} episodes cover the truth less often.")
    return [*cautions, "Intervals are for one comparison at a time; of twenty, about one misses."]


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
    over = "episodes" if _single_trainings(results) else "episodes and trainings"
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
    """The figures of all metrics except the main one, and the numbers of all curves."""
    drawn = [figure for metric in drawn_metrics(results) if metric != MAIN for figure in horizon_figures(results, metric)]
    caption = f"Lines are means over episodes and training seeds, bands 95 % bootstrap intervals. {_DASHES}"
    return [*captioned(caption, drawn), Data("by_horizon", horizon_records(results))]


def _along(results: Results) -> list[Block]:
    """The error in the coordinates that the laws move beside that in the others, by each law; nothing without such laws."""
    if _ALONG[0] not in results.comparable:
        return []
    moved = {name: get_law(name).moves for name in results.law_names}
    parts = [f"{name} moves {join(coordinates)}" for name, coordinates in moved.items() if coordinates]
    sentence = join(parts) if parts else "the law moves some coordinates"  # one that is not registered here
    caption = (
        f"{capital(sentence)}: there, knowing the law decides. In the other coordinates a model needs no law; one that is "
        f"given the law and errs more there than one that is not lets it leak. Error at h = {results.horizons}; "
        "bands are 95 % intervals over the episodes of one value."
    )
    metrics = [metric for metric in _ALONG if metric in results.comparable]
    return captioned(caption, [law_figure(results, metric, axis) for axis in results.axes for metric in metrics])


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
    fewest = min(
        interval.count for axis in axes for interval in results.by_law(results.baseline, MAIN, last, [axis.name]).values()
    )
    caption += (
        f" Some values have fewer than {FEW} episodes: their bands cover less often than 95 %." if fewest < FEW else ""
    )
    metrics = [metric for metric in drawn_metrics(results) if metric not in (MAIN, *_ALONG, *_LATENT)]
    drawn = [law_figure(results, metric, axis) for axis in axes for metric in [*metrics, "nmse"]]
    blocks: list[Block] = [Text(caption, quiet=True), *drawn]
    if len(axes) > 1:
        names = " and ".join(axis.name for axis in axes[:2])
        blocks += [Text(f"The plane of {names}. White frame: in distribution for both.", quiet=True), *law_maps(results)]
    if results.coverage:
        blocks.append(coverage_table(results))
    names_ = [[axis.name] for axis in axes] + ([list(results.law_names)] if len(axes) > 1 else [])
    files = [f"by_{axis.name}" for axis in axes] + (["by_laws"] if len(axes) > 1 else [])
    return [*blocks, *(Data(file, law_records(results, names)) for file, names in zip(files, names_, strict=True))]


# --- comparisons ---------------------------------------------------------------------------------------------------


def _relative(results: Results) -> list[Block]:
    """Every error at the last horizon relative to the baseline's, and all comparisons as numbers."""
    if not results.others:
        return []
    base, last = results.baseline, results.horizons
    table, compared = comparisons(results)
    about = (
        f"Error at h = {last} divided by that of {base}, whose error is below each group; lower is better. Whiskers: 95 % "
        "intervals of the ratio on the same episodes. Dashed: the object stays put."
    )
    drawn = [ratio_bars(results, region) for region in results.regions]
    return [Text(about, quiet=True), *drawn, table, Data("comparisons", compared)]


def _baselines(results: Results) -> list[Block]:
    """Each method's rollout with its baselines, and minus these."""
    caption = (
        f"{capital(METRICS[MAIN].label)} over all test episodes. One step at a time: every prediction starts from true "
        "latents. Probe on true frames: what the read-out alone gets wrong. Simulator and constant velocity start from the "
        "probed state."
    )
    return [Text(caption, quiet=True), *baseline_figures(results), baseline_table(results)]


def _counterfactual(results: Results) -> list[Block]:
    """Each method's error with a wrong law."""
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
        figures.counterfactual(f"counterfactual_{number}", entry.label, axes[entry.law], _curves(entry))
        for number, entry in enumerate(changed, start=1)
    ]
    tables = [rise_table(entry, axes[entry.law], results.decides(entry.label)) for entry in changed]
    return [Text(caption, quiet=True), *drawn, *tables, Data("counterfactual", counterfactual_records(changed))]


def _curves(entry: Counterfactual) -> dict[float, list[tuple[float, Interval]]]:
    return {true: [(value, entry.area[true, value]) for value in entry.fed(true)] for true in entry.true}


# --- pictures, training, origin ------------------------------------------------------------------------------------


def _training(results: Results) -> list[Block]:
    """Curves of the training, and whether the budgets were equal."""
    caption = (
        "Measured on the validation episodes, one line per training seed. The prediction terms of the two objectives are "
        "different quantities in latents of different scale: compare a curve with itself, not with another method's."
    )
    short = too_short(results)
    missing = [Text(f"Measured fewer than {MIN_POINTS} times, and not drawn: {join(short)}.")] if short else []
    costs = [cost(run) for arm in results.arms for run in results.evaluations(arm)]
    return [*captioned(caption, training_figures(results)), *missing, Text(budget_words(costs))]


def _origin(results: Results) -> list[Block]:
    """A line per run, then how they were evaluated and how the page was made."""
    arms, rows = labels_of(results.arms), list[Sequence[Cell]]()
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
