"""The sections of the page, in its order. Each takes what is shown and returns HTML, nothing if it has nothing to show."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from html import escape
from pathlib import Path

from sgjepa.core.methods import styles
from sgjepa.core.run_folder import STRIPS
from sgjepa.core.stats import Interval
from sgjepa.data.probe_targets import METRICS
from sgjepa.report import claims, parts, words
from sgjepa.report.content import Content, Finding
from sgjepa.report.panels import Picture
from sgjepa.report.tables import Group, Line
from sgjepa.report.words import against_baseline, breaks, cautions, count, few, fixed, in_scale, join, place, too_few
from sgjepa.results.compare import MEAN, Method, decides, paired, verdict
from sgjepa.results.gather import MAIN, Results, unit
from sgjepa.results.training import LEAST, budget_words, too_short


@dataclass(frozen=True)
class Section:
    """name: where links to it lead. title: plain text. body: HTML."""

    name: str
    title: str
    body: str
    folded: bool = False  # shown when somebody opens it


def sections(content: Content) -> list[Section]:
    """All of them: what it looks like, the main numbers, and folded everything else that was measured."""
    results = content.results
    return [
        *([Section("finding", content.finding.title, finding(content.finding))] if content.finding else []),
        Section("pictures", "What it imagines", _pictures(content)),
        Section("numbers", "Position error", _numbers(content)),
        Section("says", "Method by method", _says(content), folded=True),
        Section("horizon", "Error by horizon", _horizon(content), folded=True),
        Section("law", f"Error by {results.changed}", _law(content), folded=True),
        Section("relative", f"Relative to {results.baseline.label}", _relative(content), folded=True),
        Section("strips", "Decoded rollouts", _strips(content), folded=True),
        Section("counterfactual", f"Counterfactual {results.changed}", _counterfactual(content), folded=True),
        Section("scale", "Each method beside its references", _scale(content), folded=True),
        Section("tables", "Tables of all errors", _tables(content), folded=True),
        Section("training", "Training", _training(content), folded=True),
    ]


def _leading(content: Content, section: str) -> list[Picture]:
    """Of a section's pictures, those that stand on top of the page: of the subject, or of the main error."""
    found = content.pictures.get(section, [])
    if section == "strips":
        names = {f"strips_{content.results.methods.index(content.results.subject) + 1}"}
        return [one for one in found if one.name in names] or found[:1]
    return [one for one in found if one.name.startswith(f"{MAIN}_by_")]


def _rest(content: Content, section: str) -> list[Picture]:
    """The others, which are folded."""
    leading = [one.name for one in _leading(content, section)]
    return [one for one in content.pictures.get(section, []) if one.name not in leading]


def _pictures(content: Content) -> str:
    """The film of the subject, and the main error by law and by horizon."""
    results = content.results
    film, drawn = _leading(content, "strips"), [*_leading(content, "law"), *_leading(content, "horizon")]
    caption = (
        "Above the true frames, below what the model imagines on its own: latents of its rollout, decoded to pictures. "
        "The decoder was trained on true latents and sees nothing else."
    )
    shown = f'<p class="quiet">{escape(caption)}</p>' if film else ""
    runs = _runs_of_strips(results)
    shown += "".join(parts.figure(one) + _to_the_viewer(runs.get(one.name)) for one in film)
    bands = "Lines are means, bands 95 % bootstrap intervals over episodes"
    bands += "." if results.most == 1 else " and trainings."
    law = f" Yellow: how densely the training {results.axes[0].several} lie." if len(results.axes) == 1 else ""
    dashes = " Dashed: the object stays where it was last seen. Dotted: the simulator, from the state that the probe sees."
    return shown + parts.figures(drawn, f"{bands}{law}{dashes}")


def _numbers(content: Content) -> str:
    """The one table that answers, and what a reader must know about it."""
    results = content.results
    few = too_few(results.methods)
    asked = [region for region in reversed(results.regions) if region != "all"] or ["all"]
    body = ""
    for region in asked:
        group = next(group for group in content.tables[region] if group.metric == MAIN)
        lines = [line for line in group.lines if line.kind != "paper"]
        title = f'<tr><th colspan="{len(results.columns) + 1}">{escape(_capital(place(results, region)))}</th></tr>'
        body += f"<tbody>{title}{''.join(_row(results, group, line) for line in lines)}</tbody>"
    caption = f"Position error in {unit(MAIN)} by horizon; lower is better. Small: 95 % intervals over episodes"
    caption += ". " if results.most == 1 else " and trainings. "
    caption += few or "Bold: the lowest error, and every method that cannot be told apart from it; underlined: the next."
    notes = [*cautions(results), *([content.note] if content.note else [])]
    head = f"<tr><th>Method</th>{_horizons(results)}</tr>"
    said = parts.answer(words.answer(results)) if content.finding else ""
    return said + parts.table(caption, head, body) + f"<p>{' '.join(parts.text(note) for note in notes)}</p>"


def _horizons(results: Results) -> str:
    return "".join(f"<th>{'mean' if h == MEAN else f'h = {h}'}</th>" for h in results.columns)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _says(content: Content) -> str:
    results = content.results
    look = styles([method.label for method in results.methods])
    cards = []
    for method in results.others:
        found, decided = [], decides(method, results.baseline)
        for region, sentence in zip(results.regions, against_baseline(results, method), strict=True):
            gap = paired(method, results.baseline, MAIN, [results.last], region)[results.last]
            found.append((parts.chip(verdict(gap)) if decided else "") + parts.text(sentence))
        title = f"{method.label} against {results.baseline.label}"
        cards.append(parts.card(title, found, look[method.label][0]))
    compared = f'<div class="cards">{"".join(cards)}</div>' if cards else ""
    scale = "".join(
        parts.card(f"{method.label} in scale", [parts.text(s) for s in in_scale(results, method)], look[method.label][0])
        for method in results.methods
    )
    start = f"Position error at h = {results.last}, where differences have had time to grow. {too_few(results.methods)}"
    return (
        f'<p class="quiet">{parts.text(start.strip())}</p>{compared}<div class="cards">{scale}</div>'
        f"<p>{parts.text(budget_words(content.costs))}</p>"
    )


def finding(found: Finding) -> str:
    """What a study says: its sentences, pictures and table, and the claims of the paper that it measures."""
    said = "".join(f"<p>{parts.text(sentence)}</p>" for sentence in found.words)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in found.rows)
    head = "".join(f"<th>{escape(title)}</th>" for title in found.head)
    drawn = parts.figures(found.pictures, found.shown) if found.pictures else ""
    table = parts.table(found.caption, f"<tr>{head}</tr>", f"<tbody>{lines}</tbody>")
    return said + drawn + table + claims.section(found.claims)


def _horizon(content: Content) -> str:
    caption = (
        "Lines are means over episodes and training seeds, bands 95 % bootstrap intervals. Dashed: the object stays "
        "where it was last seen. Dotted, in the method's colour: the simulator started from the state that the "
        "method's probe sees there, which is what perfect dynamics would reach from the same representation."
    )
    rest = _rest(content, "horizon")
    return parts.figures(rest, caption) if rest else ""


def _law(content: Content) -> str:
    results = content.results
    if not results.axes:
        return ""
    alone = len(results.axes) == 1
    laws = results.axes[0].several if alone else "laws"
    each = results.axes[0].name if alone else "value of a law, over all values of the others"
    caption = (
        f"Error at h = {results.last} for each {each}. Yellow: the density of the training {laws}; between the dotted "
        "lines counts as in distribution. Bands are 95 % intervals over the episodes of one value."
    )
    if few(min(one.count for axis in results.axes for one in _by_value(results, axis.name))):
        caption += f" Some values have fewer than {words.FEW} episodes: their bands cover less often than 95 %."
    if results.coverage:
        found = [(method.label, *results.follows_coverage(method, MAIN)) for method in results.methods]
        ranks = ", ".join(f"{label} {fixed(rank, 2)}" for label, rank, _ in found)
        caption += (
            f" Coverage L_law says how far outside the training {laws} an episode lies, before any training. Its rank "
            f"correlation with the {METRICS[MAIN]} over {found[0][2]} {laws if alone else 'combinations'}: {ranks}."
        )
    said = [breaks(results, method, axis) for axis in results.axes for method in results.methods if "in" in results.regions]
    shown = "".join(f"<p>{parts.text(sentence)}</p>" for sentence in said)
    rest = _rest(content, "law")
    shown += parts.figures(rest, caption) if rest else ""
    if maps := content.pictures.get("map"):
        names = " and ".join(axis.name for axis in results.axes[:2])
        shown += parts.figures(maps, f"The same over the plane of {names}. White frame: in distribution for both.")
    return shown


def _by_value(results: Results, law: str) -> list[Interval]:
    return list(results.baseline.by_law(MAIN, results.last, [law]).values())


def _relative(content: Content) -> str:
    results = content.results
    if not results.others:
        return ""
    caption = (
        f"Error at h = {results.last} divided by that of {results.baseline.label}, whose own stands below each group;"
        " lower is better. Whiskers: 95 % intervals of the ratio on the same episodes. Dashed: the object stays put."
    )
    return parts.figures(content.pictures.get("relative", []), caption) + _verdicts(content)


def _verdicts(content: Content) -> str:
    """Change against the baseline in per cent, with the verdict of the paired difference."""
    results = content.results
    head = "".join(f"<th>{escape(_region_name(region))}</th>" for region in results.regions)
    rows = []
    for metric in results.metrics:
        lines = []
        for method in results.others:
            cells = []
            for region in results.regions:
                asked = (method.label, metric, region, results.last)
                one = next(c for c in content.comparisons if (c.method, c.metric, c.region, c.horizon) == asked)
                chip = parts.chip(one.verdict) if one.verdict else ""
                cells.append(f"<td>{chip}{parts.percent(one.ratio)}</td>")
            lines.append(f"<tr><td>{parts.dot(results, method)}{escape(method.label)}</td>{''.join(cells)}</tr>")
        rows.append(f"<tbody>{parts.span(metric, len(results.regions) + 1)}{''.join(lines)}</tbody>")
    caption = f"Change of the error at h = {results.last} against {results.baseline.label}, 95 % interval below. " + (
        too_few(results.methods) or "Better or worse: the interval of the paired difference excludes zero."
    )
    caption += few(min(results.episodes(region) for region in results.regions))
    return parts.table(caption, f"<tr><th>Method</th>{head}</tr>", "".join(rows))


def _strips(content: Content) -> str:
    pictures, runs = _rest(content, "strips"), _runs_of_strips(content.results)
    caption = "Above the true frames, below the latents of a rollout, decoded to pictures."
    if not pictures:
        return ""
    shown = "".join(parts.figure(one) + _to_the_viewer(runs.get(one.name)) for one in pictures)
    return f'<p class="quiet">{escape(caption)}</p>{shown}'


def _runs_of_strips(results: Results) -> dict[str, Path]:
    """By the name of their picture."""
    return {f"strips_{number}": run for number, run in enumerate(map(_with_strips, results.methods), start=1) if run}


def _with_strips(method: Method) -> Path | None:
    """The run whose strips are shown: of the first seed that has them."""
    return next((one.run for one in method.seeds if (one.folder / STRIPS).is_file()), None)


def _to_the_viewer(run: Path | None) -> str:
    if run is None:
        return ""
    command = f"sgjepa view {shlex.quote(str(run))}"
    return f'<p class="quiet">Move the law yourself: <code>{escape(command)}</code></p>'


def _counterfactual(content: Content) -> str:
    if not content.counterfactuals:
        return ""
    results = content.results
    said = "".join(f"<p>{escape(words.counterfactual(one))}</p>" for one in content.counterfactuals)
    horizons = ", ".join(str(h) for h in content.counterfactuals[0].horizons)
    caption = (
        f"The same episodes, with another {' or '.join(axis.name for axis in results.axes)} fed to the model. A model that "
        "uses it errs least at the ring, the true value. NMSE averaged over horizons by the trapezoidal rule "
        f"(h = {horizons}), with 95 % intervals."
    )
    rows = []
    for one in content.counterfactuals:
        symbol = next(axis.symbol for axis in results.axes if axis.name == one.law)
        given = sorted({g for _, g in one.area})
        lines = []
        for true in one.true:
            cells = [
                f"<td>{parts.rise(one.rise[true, g])}</td>" if (true, g) in one.rise and g != true else "<td>0</td>"
                for g in given
            ]
            lines.append(f"<tr><td>true {escape(symbol)} = {true:g}</td>{''.join(cells)}</tr>")
        head = "".join(f"<th>{escape(symbol)} = {g:g} fed in</th>" for g in given)
        n = next(iter(one.area.values())).count
        number = f"{count(n, 'episode')} each, {count(one.seeds, 'seed')}"
        about = f"{one.label}: AUC with the value fed in minus AUC with the true one; {number}.{few(n)}"
        rows.append(parts.table(about, f"<tr><th>Episodes</th>{head}</tr>", f"<tbody>{''.join(lines)}</tbody>"))
    return said + parts.figures(content.pictures.get("counterfactual", []), caption) + "".join(rows)


def _scale(content: Content) -> str:
    caption = (
        "Position error over all test episodes. One step at a time: every prediction starts from true latents. Probe"
        " on true frames: what the read-out alone gets wrong. Simulator and constant velocity start from the probed "
        "state."
    )
    return parts.figures(content.pictures.get("scale", []), caption)


def _tables(content: Content) -> str:
    results = content.results
    note = (
        "Mean error over episodes, 95 % interval below; the last column is the mean over all horizons. "
        + (
            too_few(results.methods)
            or "Bold: the lowest error, and every method whose difference from it on the same episodes is not "
            "significant; underlined: the next, by the same rule."
        )
        + " "
    )
    paper = results.published
    if paper:
        note += f"Lines in italics are the paper's own numbers, not ours ({paper.source}); no intervals are given."
    found = [f'<p class="quiet">{escape(note)}</p>']
    for region, groups in content.tables.items():
        head = _horizons(results)
        body = "".join(
            "<tbody>"
            + parts.span(group.metric, len(results.columns) + 1)
            + "".join(_row(results, group, line) for line in group.lines)
            + "</tbody>"
            for group in groups
        )
        caption = f"Errors {place(results, region)}; lower is better.{few(results.episodes(region))}"
        found.append(f"<h3>{escape(_region_name(region))}</h3>")
        found.append(parts.table(caption, f"<tr><th>Method</th>{head}</tr>", body))
    return "".join(found)


def _row(results: Results, group: Group, line: Line) -> str:
    cells = "".join(parts.cell(line.cells.get(h), group.metric) for h in results.columns)
    dot, seeds = "", ""
    if line.kind == "method":
        method = next(method for method in results.methods if method.label == line.label)
        dot, seeds = parts.dot(results, method), f"<small>{count(line.seeds, 'seed')}</small>"
    if line.kind == "paper":
        seeds = "<small>at paper size</small>"
    return f'<tr class="{line.kind}"><td>{dot}{escape(line.label)}{seeds}</td>{cells}</tr>'


def _training(content: Content) -> str:
    caption = (
        "Measured on the validation episodes, one line per training seed. The prediction terms of the two objectives "
        "are different quantities in latents of different scale: compare a curve with itself, not with another "
        "method's."
    )
    drawn = content.pictures.get("training")
    found = parts.figures(drawn, caption) if drawn else ""
    if short := too_short(content.results.methods):
        found += f"<p>{escape(f'Measured fewer than {LEAST} times, and not drawn: {join(short)}.')}</p>"
    return found


def _region_name(region: str) -> str:
    return {"all": "All episodes", "in": "In distribution", "out": "Out of distribution"}[region]
