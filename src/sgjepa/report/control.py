"""From trials of policies to a folder: index.html, figures/, tables/ and films/, swapped in whole."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from sgjepa.core import artifact
from sgjepa.core.tables import to_csv
from sgjepa.policies.files import SIMULATOR, SPLIT
from sgjepa.report import control_tables as tables
from sgjepa.report import parts
from sgjepa.report.blocks import plain
from sgjepa.report.control_figures import Film, colours, film, success_by_law
from sgjepa.report.page import FIGURES, FILMS, PAGE, TABLES, document
from sgjepa.report.panels import Picture
from sgjepa.report.paper_plans import Latents, beside, beside_html
from sgjepa.report.sections import Section
from sgjepa.report.words import capital, count, fixed, join
from sgjepa.results.control import SUCCESS, Played, Player
from sgjepa.results.success import REGIONS


def write_control(
    played: Played, out: Path, made_by: str, known: Sequence[str] = (), latents: Latents | None = None
) -> Path:
    """Write the page of these trials to the folder `out`; returns the page.

    known: what else of ours may be there. latents: of runs that plan, their errors on held-out clips.
    """
    artifact.check_output(out, made_by, known)
    # laws of training episodes are all different: nothing to average
    axes = played.axes if played.about.settings.split == SPLIT else ()
    drawn = [picture for axis in axes for picture in success_by_law(played, axis)]
    films = [film(played, player) for player in played.players]
    records = {
        "measures": tables.measures(played),
        **{f"by_{axis.name}": tables.by_law(played, axis.name, axis.values) for axis in axes},
        "by_plan": tables.by_plan(played),
        "differences": tables.differences(played),
        "outcomes": tables.outcomes(played),
        "latency": tables.latencies(played),
        "paper": beside(played, latents or {}),
    }
    written = {
        PAGE: _page(played, drawn, films, latents or {}).encode(),
        **{f"{TABLES}/{plain(name)}.csv": to_csv(rows).encode() for name, rows in records.items() if rows},
        **{f"{FIGURES}/{plain(one.name)}.{kind}": getattr(one, kind) for one in drawn for kind in ("svg", "png")},
        **{f"{FILMS}/{plain(one.label)}.webp": one.webp for one in films},
    }
    with artifact.output_folder(out, made_by, PAGE, known) as staged:
        for name, content in written.items():
            (staged / name).parent.mkdir(exist_ok=True)
            artifact.write_bytes(staged / name, content)
    return out / PAGE


def sentences(played: Played, player: Player) -> list[str]:
    """What the numbers say of a policy: its success by region."""
    found = []
    for region in played.regions:
        one = player.estimate(played.about.measures[0], played.region(region))
        low, high = (fixed(100 * end, 1) for end in (one.interval.low, one.interval.high))
        where = f"{REGIONS[region]} ({one.interval.count})"
        share = f"{fixed(100 * one.interval.mean, 1)} % success"
        found.append(f"{capital(where)}: {share}, 95 % interval {low} to {high} ({one.how}).")
    if player.latency is not None:
        median, most = fixed(player.latency.median, 2), fixed(player.latency.most, 2)
        found.append(f"A plan takes {median} s (median), 95 of 100 at most {most} s.")
    return found


def _page(played: Played, drawn: Sequence[Picture], films: Sequence[Film], latents: Latents) -> str:
    law = " and ".join(axis.name for axis in played.axes)
    heading = f"Does it still do its task when {law} changes?" if law else "Does it do its task?"
    sections = [
        Section("says", "What the numbers say", _says(played)),
        Section("law", f"Success by {law}", _law(played, drawn)),
        Section("measures", "All measures", _measures(played)),
        Section("plans", "Success by what the episode was made for", tables.by_plan_html(played)),
        Section("pairs", "On the same episodes", tables.differences_html(played)),
        Section("latency", "How long a plan takes", tables.latencies_html(played)),
        Section("paper", "Beside the paper", beside_html(played, latents)),
        Section("outcomes", "What became of the episodes", tables.outcomes_html(played)),
        Section("films", "Films", _films(played, films)),
    ]
    return document(f"{heading} {played.world.replace('_', ' ')}", heading, _facts(played), sections, _origin(played))


def _facts(played: Played) -> str:
    laws, cases = [], played.about.settings.cases
    kind = "test" if played.about.settings.split == SPLIT else "held-out training"
    for axis in played.axes:
        tried = f"tried at {len(axis.values)} {axis.several}, {axis.values[0]:g} to {axis.values[-1]:g}"
        laws += [f"trained at {axis.trained}", tried.replace("-", "\N{MINUS SIGN}")]
    facts = [
        f"world: {played.world.replace('_', ' ')}",
        *laws,
        count(len(played.first.episodes), "planning case" if cases else f"{kind} episode"),
        *([f"a goal {cases.offset} frames on, {cases.budget} controls to reach it"] if cases else []),
        f"dataset {played.about.dataset}",
    ]
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    meaning = f"Success: {played.about.measures[0].about}, by the events of the simulation."
    how = (
        f"from a frame of a {kind} episode towards its state some frames later"
        if cases
        else "from the first frame to the last"
    )
    text = f"Policies drive the robot in the simulator, {how}. {meaning}"
    return f'<p>{escape(text)}</p><ul class="facts">{items}</ul>'


def _says(played: Played) -> str:
    cards = []
    for player in played.players:
        tries = [len(trials) for trials in player.trainings]
        lines = [parts.text(sentence) for sentence in sentences(played, player)]
        for one, other in tables.pairs(played):
            if one is player:
                found = played.difference(one, other, SUCCESS, played.region("all"))
                mean, low, high = tables.points(found)
                words = f"{mean} points against {other.label}, 95 % interval {low} to {high}."
                lines.append(parts.chip(tables.verdict(found)) + parts.text(words))
        made = [] if player.reference else [count(len(tries), "training")]
        made.append(f"{count(max(tries), 'try') if max(tries) == 1 else f'{max(tries)} tries'} per episode")
        cards.append(parts.card(f"{player.label}: {join(made)}", lines, colours(played)[player.label]))
    ceilings = {
        "expert": "The demonstrator is told the true state and launched to succeed: it is the ceiling.",
        SIMULATOR: "The planner in the true simulator knows state and dynamics: the ceiling, as far as its search goes.",
    }
    notes = [
        *(note for name, note in ceilings.items() if any(player.reference == name for player in played.players)),
        "Intervals are for one comparison at a time; of twenty, about one misses.",
    ]
    if any(len(player.trainings) == 1 for player in played.players if not player.reference):
        notes.insert(-1, "Where a policy was trained once, intervals cover the choice of episodes, not of the training.")
    return f'<div class="cards">{"".join(cards)}</div><p>{" ".join(parts.text(note) for note in notes)}</p>'


def _law(played: Played, drawn: Sequence[Picture]) -> str:
    if not drawn:
        return ""
    caption = (
        "Yellow: the density of the training laws; between the dotted lines counts as in distribution. Bands are 95 % "
        "intervals over the episodes of one value and, if there are several, trainings. Grey: policies that learn nothing."
    )
    return parts.figures(drawn, caption)


def _measures(played: Played) -> str:
    return tables.meanings_html(played) + "".join(tables.measures_html(played, region) for region in played.regions)


def _films(played: Played, films: Sequence[Film]) -> str:
    shown = []
    for one in films:
        source = f"data:image/webp;base64,{base64.b64encode(one.webp).decode()}"
        shown.append(
            f'<h3>{escape(one.label)}</h3><figure class="wide"><img src="{source}" alt="{escape(one.alt)}"></figure>'
        )
    cases = "To the right of each its goal. " if played.about.settings.cases else ""
    start = cases + (
        "Two episodes drawn by chance, the same for every policy, its two best and two worst by the measures. "
        "Played again from the recorded controls; a film stands still when its outcome is decided."
    )
    return f'<p class="quiet">{escape(start)}</p>{"".join(shown)}'


def _origin(played: Played) -> str:
    rows = []
    for player in played.players:
        for trials in player.trainings:
            for trial in trials:
                about = trial.about
                how = ", ".join(f"{key} {value}" for key, value in about.settings.how.items())
                cells = [
                    f'<td class="text">{tables.dot(played, player)}</td>',
                    f'<td class="text">{escape(trial.driver.name)}</td>',
                    f"<td>{'–' if trial.driver.seed is None else trial.driver.seed}</td>",
                    f"<td>{about.settings.sampling}</td>",
                    f'<td class="text">{escape(how)}</td>',
                    f"<td>{about.seconds:,.0f} s</td>",
                    f'<td class="text"><code>{escape(parts.commit(about.provenance))}</code></td>',
                    f'<td class="text"><code>{escape(str(about.provenance["command"]))}</code></td>',
                ]
                rows.append(f"<tr>{''.join(cells)}</tr>")
    titles = ("Policy", "Folder", "Training seed", "Sampling seed", "How", "Took", "Commit", "Command")
    texts = {"Policy", "Folder", "How", "Commit", "Command"}
    head = "".join(f'<th class="text">{t}</th>' if t in texts else f"<th>{t}</th>" for t in titles)
    made = artifact.provenance()
    lines = [
        f"Dataset {played.about.dataset}, {played.about.settings.split} split, digest {played.about.settings.data}.",
        f"This page: {made['command']}, commit {parts.commit(made)}, {made['made']}.",
        "Beside it: figures/ (PNG and SVG), films/ (WebP) and tables/ (all numbers as CSV).",
    ]
    table = parts.table("The trials.", f"<tr>{head}</tr>", f"<tbody>{''.join(rows)}</tbody>")
    return f"<h2>Where this comes from</h2>{table}{''.join(f'<p>{escape(line)}</p>' for line in lines)}"
