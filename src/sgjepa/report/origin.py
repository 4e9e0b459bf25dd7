"""The foot of the page: which runs, from which code, data and commands, and what the training cost."""

from __future__ import annotations

from html import escape

from sgjepa.report import parts
from sgjepa.report.content import Content


def origin(content: Content) -> str:
    """A line per run, then how they were evaluated and how the page was made."""
    results = content.results
    rows = []
    for method in results.methods:
        for one in method.seeds:
            cost = next(c for c in content.costs if c.folder == one.run)
            scores = one.about.scores
            cells = [
                f'<td class="text">{parts.dot(results, method)}{escape(method.label)}</td>',
                f'<td class="text">{escape(one.about.run)}</td>',
                f"<td>{parts.number(one.about.seed)}</td>",
                f"<td>{parts.number(cost.steps, ',')}</td>",
                f"<td>{parts.number(cost.seconds, ',.0f')} s</td>",
                f"<td>{parts.number(scores.effective_rank, '.1f')}</td>",
                f"<td>{parts.number(scores.probe['validation_nmse'], '.4f')}</td>",
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
        f"Evaluation {first.folder.name}, dataset {first.dataset}, digest {settings.data}.",
        f"Evaluated with: {evaluated['command']}, commit {parts.commit(evaluated)}, sgjepa {evaluated['sgjepa']}.",
        f"Python {evaluated['python']}, {libraries}; {evaluated['platform']}.",
        f"This page: {content.made['command']}, commit {parts.commit(content.made)}, {content.made['made']}.",
        "Beside it: figures/ (the same pictures as PNG and SVG) and tables/ (all numbers as CSV).",
    ]
    text = "".join(f"<p>{escape(line)}</p>" for line in lines)
    runs = parts.table(caption, f"<tr>{head}</tr>", f"<tbody>{''.join(rows)}</tbody>")
    return f"<h2>Where this comes from</h2>{runs}{text}"
