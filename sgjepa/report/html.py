"""The page: one HTML file with its style and pictures inside, so that it opens from disk and can be sent to somebody."""

from __future__ import annotations

from html import escape
from pathlib import Path

from sgjepa.report import parts, words
from sgjepa.report.content import Content, Finding
from sgjepa.report.panels import styles
from sgjepa.report.tables import Group, Line
from sgjepa.report.words import against_baseline, answer, cautions, count, fixed, in_scale, place
from sgjepa.results.compare import Method, paired, verdict
from sgjepa.results.gather import MAIN, METRICS, Results
from sgjepa.results.training import budget_words

_STYLE = Path(__file__).with_name("page.css")


def page(content: Content) -> str:
    """The whole page."""
    sections = [
        ("says", "What the numbers say", _says(content)),
        ("finding", content.finding.title if content.finding else "", _finding(content.finding)),
        ("horizon", "Error by horizon", _horizon(content)),
        ("law", f"Error by {content.results.changed}", _law(content)),
        ("relative", f"Relative to {content.results.baseline.label}", _relative(content)),
        ("strips", "Decoded rollouts", _strips(content)),
        ("counterfactual", f"Counterfactual {content.results.changed}", _counterfactual(content)),
        ("scale", "Each method in scale", _scale(content)),
        ("tables", "Tables", _tables(content)),
        ("training", "Training", _training(content)),
    ]
    sections = [(name, title, text) for name, title, text in sections if text]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections)
    body = "".join(f'<section id="{name}"><h2>{escape(title)}</h2>{text}</section>\n' for name, title, text in sections)
    results = content.results
    change = "changes" if len(results.axes) == 1 else "change"
    question = f"Does it stay right when {results.changed} {change}?" if results.axes else "Does it stay right for long?"
    title = f"{question} {results.world.replace('_', ' ')}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{_STYLE.read_text()}</style>
</head>
<body>
<header>
<h1>{escape(question)}</h1>
{_facts(content)}
<nav aria-label="Sections">{links}<a href="#origin">Where this comes from</a></nav>
</header>
<main>
{body}</main>
<footer id="origin">
{_origin(content)}
</footer>
</body>
</html>
"""


def _facts(content: Content) -> str:
    results = content.results
    laws = []
    for axis in results.axes:
        low, high = axis.values[0], axis.values[-1]
        tested = f"tested at {len(axis.values)} {axis.several}, {low:g} to {high:g}".replace("-", "\N{MINUS SIGN}")
        laws += [f"trained at {axis.trained}", tested]
    seeds = sorted({len(method.seeds) for method in results.methods})
    seed_word = "seed" if seeds[-1] == 1 else "seeds"
    facts = [
        f"world: {results.world.replace('_', ' ')}",
        *laws,
        count(results.episodes("all"), "test episode"),
        f"{results.last} steps predicted",
        f"{'–'.join(str(n) for n in sorted({seeds[0], seeds[-1]}))} training {seed_word} per method",
        f"dataset {results.baseline.first.folder.name}",
    ]
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    narrow = f"trained on a narrow band of {results.changed}, " if results.axes else ""
    under = " under other laws" if results.axes else ""
    text = (
        f"World models were {narrow}shown true frames of episodes{under}, and left to predict {results.last} steps on "
        "their own. A probe reads where the object is from their latents."
    )
    return f'<p>{escape(text)}</p><ul class="facts">{items}</ul>'


def _says(content: Content) -> str:
    results = content.results
    look = styles([method.label for method in results.methods])
    cards = []
    for method in results.others:
        found = []
        for region, sentence in zip(results.regions, against_baseline(results, method), strict=True):
            found.append(parts.chip(verdict(paired(method, results.baseline, MAIN, region)[-1])) + parts.text(sentence))
        title = f"{method.label} against {results.baseline.label}"
        cards.append(parts.card(title, found, look[method.label][0]))
    compared = f'<div class="cards">{"".join(cards)}</div>' if cards else ""
    scale = "".join(
        parts.card(f"{method.label} in scale", [parts.text(s) for s in in_scale(results, method)], look[method.label][0])
        for method in results.methods
    )
    notes = [*cautions(results), budget_words(content.costs), *([content.note] if content.note else [])]
    start = f"Position error at h = {results.last}, where differences have had time to grow. Computed from the intervals."
    return (
        f'<p class="answer">{parts.text(" ".join(answer(results)))}</p><p class="quiet">{escape(start)}</p>'
        f'{compared}<div class="cards">{scale}</div>'
        f"<p>{' '.join(parts.text(note) for note in notes)}</p>"
    )


def _finding(found: Finding | None) -> str:
    if found is None:
        return ""
    words = "".join(f"<p>{parts.text(sentence)}</p>" for sentence in found.words)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in found.rows)
    head = "".join(f"<th>{escape(title)}</th>" for title in found.head)
    return words + parts.table(found.caption, f"<tr>{head}</tr>", f"<tbody>{lines}</tbody>")


def _horizon(content: Content) -> str:
    caption = (
        "Lines are means over episodes and training seeds, bands 95 % bootstrap intervals. Dashed: the object stays "
        "where it was last seen. Dotted, in the method's colour: the simulator started from the state that the "
        "method's probe sees there, which is what perfect dynamics would reach from the same representation."
    )
    return parts.figures(content.pictures.get("horizon", []), caption)


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
    if results.coverage:
        found = [(method.label, *results.follows_coverage(method, MAIN)) for method in results.methods]
        ranks = ", ".join(f"{label} {fixed(rank, 2)}" for label, rank, _ in found)
        caption += (
            f" Coverage L_law says how far outside the training {laws} an episode lies, before any training. Its rank "
            f"correlation with the {METRICS[MAIN]} over {found[0][2]} {laws if alone else 'combinations'}: {ranks}."
        )
    shown = parts.figures(content.pictures.get("law", []), caption)
    if maps := content.pictures.get("map"):
        names = " and ".join(axis.name for axis in results.axes[:2])
        shown += parts.figures(maps, f"The same over the plane of {names}. White frame: in distribution for both.")
    return shown


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
                cells.append(f"<td>{parts.chip(one.verdict)}{parts.percent(one.ratio)}</td>")
            lines.append(f"<tr><td>{_dot(results, method)}{escape(method.label)}</td>{''.join(cells)}</tr>")
        rows.append(f"<tbody>{parts.span(metric, len(results.regions) + 1)}{''.join(lines)}</tbody>")
    caption = (
        f"Change of the error at h = {results.last} against {results.baseline.label}, 95 % interval below. "
        "Better or worse: the interval of the paired difference excludes zero."
    )
    return parts.table(caption, f"<tr><th>Method</th>{head}</tr>", "".join(rows))


def _strips(content: Content) -> str:
    pictures = content.pictures.get("strips", [])
    caption = "Latents of the rollout, decoded to pictures; the decoder was trained on true latents and sees nothing else."
    return f'<p class="quiet">{escape(caption)}</p>' + "".join(parts.figure(one) for one in pictures) if pictures else ""


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
        about = f"{one.label}: AUC with the value fed in minus AUC with the true one; {number}."
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
        "Mean error, 95 % interval below. Bold: the lowest error, and every method whose difference from it on the "
        "same episodes is not certain; underlined: the next, by the same rule. "
    )
    paper = results.published
    if paper:
        note += f"Lines in italics are the paper's own numbers, not ours ({paper.source}); one training each, no intervals."
    found = [f'<p class="quiet">{escape(note)}</p>']
    for region, groups in content.tables.items():
        head = "".join(f"<th>h = {h}</th>" for h in results.horizons)
        body = "".join(
            "<tbody>"
            + parts.span(group.metric, len(results.horizons) + 1)
            + "".join(_row(results, group, line) for line in group.lines)
            + "</tbody>"
            for group in groups
        )
        where = place(results, region)
        found.append(f"<h3>{escape(_region_name(region))}</h3>")
        found.append(parts.table(f"Errors {where}; lower is better.", f"<tr><th>Method</th>{head}</tr>", body))
    return "".join(found)


def _row(results: Results, group: Group, line: Line) -> str:
    cells = "".join(parts.cell(line.cells.get(h), group.metric) for h in results.horizons)
    dot, seeds = "", ""
    if line.kind == "method":
        method = next(method for method in results.methods if method.label == line.label)
        dot, seeds = _dot(results, method), f"<small>{count(line.seeds, 'seed')}</small>"
    if line.kind == "paper":
        seeds = "<small>at paper size</small>"
    return f'<tr class="{line.kind}"><td>{dot}{escape(line.label)}{seeds}</td>{cells}</tr>'


def _training(content: Content) -> str:
    caption = (
        "Measured on the validation episodes, one line per training seed. The prediction terms of the two objectives "
        "are different quantities in latents of different scale: compare a curve with itself, not with another "
        "method's."
    )
    return parts.figures(content.pictures.get("training", []), caption) if content.pictures.get("training") else ""


def _origin(content: Content) -> str:
    results = content.results
    rows = []
    for method in results.methods:
        for one in method.seeds:
            cost = next(c for c in content.costs if c.folder == one.run)
            scores = one.about.scores
            cells = [
                f'<td class="text">{_dot(results, method)}{escape(method.label)}</td>',
                f'<td class="text">{escape(str(one.about.run))}</td>',
                f"<td>{one.about.seed}</td><td>{cost.steps:,}</td><td>{cost.seconds:,.0f} s</td>",
                f"<td>{scores.effective_rank:.1f}</td>",
                f"<td>{scores.probe['validation_nmse']:.4f}</td>",
                f'<td class="text"><code>{escape(parts.commit(cost.provenance))}</code></td>',
                f'<td class="text"><code>{escape(str(cost.provenance["command"]))}</code></td>',
            ]
            rows.append(f"<tr>{''.join(cells)}</tr>")
    titles = ("Method", "Run", "Seed", "Updates", "Training", "Effective rank", "Probe NMSE", "Commit", "Command")
    texts = {"Method", "Run", "Commit", "Command"}
    head = "".join(f'<th class="text">{t}</th>' if t in texts else f"<th>{t}</th>" for t in titles)
    caption = "The runs. Training: wall time with validation. Probe NMSE: on validation episodes, from true latents."
    first = results.baseline.first
    evaluated = first.about.provenance
    libraries = ", ".join(f"{name} {version}" for name, version in evaluated["libraries"].items())
    settings = first.about.settings
    lines = [
        f"Dataset {first.folder.name}, digest {settings.data}.",
        f"Evaluated with: {evaluated['command']}, commit {parts.commit(evaluated)}, sgjepa {evaluated['sgjepa']}.",
        f"Python {evaluated['python']}, {libraries}; {evaluated['platform']}.",
        f"This page: {content.made['command']}, commit {parts.commit(content.made)}, {content.made['made']}.",
        "Beside it: figures/ (the same pictures as PNG and SVG) and tables/ (all numbers as CSV).",
    ]
    text = "".join(f"<p>{escape(line)}</p>" for line in lines)
    runs = parts.table(caption, f"<tr>{head}</tr>", f"<tbody>{''.join(rows)}</tbody>")
    return f"<h2>Where this comes from</h2>{runs}{text}"


def _dot(results: Results, method: Method) -> str:
    colour = styles([one.label for one in results.methods])[method.label][0]
    return f'<span class="dot" style="--colour: {colour}"></span>'


def _region_name(region: str) -> str:
    return {"all": "All episodes", "in": "In distribution", "out": "Out of distribution"}[region]
