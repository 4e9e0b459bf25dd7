"""The tables about policies, as records for CSV files and as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from itertools import combinations
from typing import Any

from sgjepa.core.stats import Interval
from sgjepa.envs import find
from sgjepa.envs.spec import Measure
from sgjepa.report import parts
from sgjepa.report.control_figures import colours
from sgjepa.report.words import DAGGER, difference_of, fixed
from sgjepa.results.control import WILSON, Estimate, Played, Player
from sgjepa.results.success import REGIONS


@dataclass(frozen=True)
class Column:
    """A measure, or the share of it among the episodes in which another happened."""

    measure: Measure
    given: bool = False

    @property
    def title(self) -> str:
        name = self.measure.name.replace("_", " ")
        unit = {"": "%", "1": ""}.get(self.measure.unit, self.measure.unit)
        return (f"{name} given {self.measure.condition}" if self.given else name) + (f" ({unit})" if unit else "")

    @property
    def about(self) -> str:
        if self.given:
            return f"of the episodes with {self.measure.condition.replace('_', ' ')}"
        return self.measure.about

    def of(self, player: Player, chosen: Any) -> Estimate:
        return player.given(self.measure, chosen) if self.given else player.estimate(self.measure, chosen)


def columns(played: Played) -> list[Column]:
    """All measures of the task, each followed by its share given another, if it has one."""
    found = []
    for measure in played.about.measures:
        found += [Column(measure), *([Column(measure, given=True)] if measure.condition else [])]
    return found


def measures(played: Played) -> list[dict[str, Any]]:
    """A record for every policy, region and measure."""
    found = []
    for region in played.regions:
        for player in played.players:
            for column in columns(played):
                one = column.of(player, played.region(region))
                head = {"policy": player.label, "region": region, "measure": column.measure.name}
                given = column.measure.condition if column.given else ""
                unit = column.measure.unit or "share"
                found.append({**head, "given": given, "unit": unit, **asdict(one.interval), "interval": one.how})
    return found


def by_law(played: Played, law: str, values: tuple[float, ...]) -> list[dict[str, Any]]:
    """Success at every value of a law."""
    found = []
    for player in played.players:
        for value in values:
            one = player.estimate(played.about.measures[0], played.at(law, value))
            found.append({"policy": player.label, law: value, **asdict(one.interval), "interval": one.how})
    return found


def by_plan(played: Played) -> list[dict[str, Any]]:
    """Success in the cases of episodes that were made for the same thing; nothing where they are all alike."""
    found = []
    for player in played.players:
        for plan, chosen in played.plans.items():
            one = player.estimate(played.about.measures[0], chosen)
            found.append({"policy": player.label, "plan": plan, **asdict(one.interval), "interval": one.how})
    return found


def by_plan_html(played: Played) -> str:
    """A line per policy, a column per plan."""
    if not played.plans:
        return ""
    success, rows = played.about.measures[0], []
    for player in played.players:
        cells = (_cell(player.estimate(success, chosen), success) for chosen in played.plans.values())
        rows.append(f"<tr><td>{dot(played, player)}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    head = "".join(f"<th>{escape(plan)} ({int(chosen.sum())})</th>" for plan, chosen in played.plans.items())
    caption = (
        "Success in per cent, by what the episode was made for that a case is taken from, with the number of cases: a goal "
        f"that chance comes near to decides little. {DAGGER} Wilson's interval."
    )
    return parts.table(caption, f"<tr><th>Policy</th>{head}</tr>", f"<tbody>{''.join(rows)}</tbody>")


def pairs(played: Played) -> Iterator[tuple[Player, Player]]:
    """Trained policies with each other and with those that learn nothing; the latter alone if there are no others."""
    learned = [player for player in played.players if not player.reference]
    for one, other in combinations(played.players, 2):
        if not learned or not (one.reference and other.reference):
            yield (other, one) if one.reference and not other.reference else (one, other)


def differences(played: Played) -> list[dict[str, Any]]:
    """Of success and of counts, on the same episodes."""
    return [
        {
            "policy": one.label,
            "minus": other.label,
            "region": region,
            "measure": measure.name,
            **asdict(played.difference(one, other, measure.name, played.region(region))),
        }
        for measure in played.compared
        for one, other in pairs(played)
        for region in played.regions
    ]


def outcomes(played: Played) -> list[dict[str, Any]]:
    """What the episodes came to, as the world names it."""
    label = find(played.world).env_spec.outcome_label
    return [
        {"policy": player.label, label: word, "share": share}
        for player in played.players
        for word, share in player.outcomes(label, played.region("all")).items()
    ]


def latencies(played: Played) -> list[dict[str, Any]]:
    """What a plan takes, of the policies that plan."""
    found = [(player, player.latency) for player in played.players]
    return [
        {"policy": player.label, "median_s": one.median, "p95_s": one.most, "plans": one.plans, **player.how}
        for player, one in found
        if one is not None
    ]


def latencies_html(played: Played) -> str:
    """A line per policy that plans; nothing if there is none."""
    rows = []
    for player in played.players:
        one, how = player.latency, player.how
        if one is None:
            continue
        searched = f"{how['candidates']} × {how['iterations']}, {how['elites']} elites, {how['search'].upper()}"
        plan = f"{how['horizon']} controls, {how['execute']} carried out; {how['price']}"
        cells = [f"{fixed(one.median, 3)}", f"{fixed(one.most, 3)}", f"{one.plans:,}"]
        texts = "".join(f'<td class="text">{escape(text)}</td>' for text in (searched, plan))
        rows.append(f"<tr><td>{dot(played, player)}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}{texts}</tr>")
    if not rows:
        return ""
    titles = "<th>Median (s)</th><th>95th percentile (s)</th><th>Plans</th>"
    head = f'<tr><th>Policy</th>{titles}<th class="text">Candidates × iterations</th><th class="text">A plan</th></tr>'
    caption = "What one plan of one episode takes by the clock, on the machine that made the trial."
    return parts.table(caption, head, f"<tbody>{''.join(rows)}</tbody>")


def dot(played: Played, player: Player) -> str:
    """A policy's colour and its name."""
    return f'<span class="dot" style="--colour: {colours(played)[player.label]}"></span>{escape(player.label)}'


def meanings_html(played: Played) -> str:
    """What each measure counts."""
    said = (f"<b>{escape(one.title)}</b>: {escape(one.about)}" for one in columns(played))
    return f'<p class="quiet">{"; ".join(said)}.</p>'


def measures_html(played: Played, region: str) -> str:
    """A line per policy, a column per measure."""
    shown, rows, wilson = columns(played), [], False
    chosen = played.region(region)
    for player in played.players:
        cells = []
        for column in shown:
            one = column.of(player, chosen)
            wilson |= one.how == WILSON and one.interval.count > 0
            cells.append(f"<td>{_cell(one, column.measure)}</td>")
        kind = ' class="reference"' if player.reference else ""
        rows.append(f"<tr{kind}><td>{dot(played, player)}</td>{''.join(cells)}</tr>")
    head = "".join(f'<th title="{escape(column.about)}">{escape(column.title)}</th>' for column in shown)
    where = "All episodes" if region == "all" else f"Episodes {REGIONS[region]}"
    caption = f"{where}: {int(chosen.sum())}. Means with 95 % intervals, from bootstraps"
    few = f"; {DAGGER} Wilson's: all values are equal, or episodes, successes or failures are few."
    caption += few if wilson else "."
    return parts.table(caption, f"<tr><th>Policy</th>{head}</tr>", f"<tbody>{''.join(rows)}</tbody>")


def _cell(one: Estimate, measure: Measure) -> str:
    found, scale, decimals = one.interval, 1.0 if measure.unit else 100.0, 2 if measure.unit else 1
    if not found.count:
        return "–"
    mean, low, high = (fixed(scale * value, decimals) for value in (found.mean, found.low, found.high))
    if found.low != found.low:
        return f"{mean}<small>one episode</small>"
    return f"{mean}<small>{low} to {high}{f' {DAGGER}' if one.how == WILSON else ''}</small>"


def differences_html(played: Played) -> str:
    """A table per measure, with a line per pair and a column per region."""
    return "".join(_differences_in(measure, played) for measure in played.compared)


def _differences_in(measure: Measure, played: Played) -> str:
    rows = []
    for one, other in pairs(played):
        found = (played.difference(one, other, measure.name, played.region(region)) for region in played.regions)
        name = f"{dot(played, one)} minus {escape(other.label)}"
        rows.append(f"<tr><td>{name}</td>{''.join(f'<td>{_difference(gap, measure)}</td>' for gap in found)}</tr>")
    if not rows:
        return ""
    head = "".join(f"<th>{escape(REGIONS[region])}</th>" for region in played.regions)
    unit = "" if measure.unit else " in percentage points"
    name = measure.name.replace("_", " ")
    caption = f"Difference of {name}{unit} on the same episodes, with 95 % intervals."
    return parts.table(caption, f"<tr><th>Policies</th>{head}</tr>", f"<tbody>{''.join(rows)}</tbody>")


def points(one: Interval) -> tuple[str, str, str]:
    """A difference of shares in percentage points: mean with its sign, and the ends of its interval."""
    return difference_of(one.percent(), 1)


def verdict(one: Interval, better: int = 1) -> str:
    """Of a success, or a count, minus another: "better", "worse", or "undecided" where the interval holds zero."""
    if not (one.low > 0 or one.high < 0):
        return "undecided"
    return "better" if better * one.mean > 0 else "worse"


def _difference(one: Interval, measure: Measure) -> str:
    mean, low, high = difference_of(one, 2) if measure.unit else points(one)
    return f"{parts.chip(verdict(one, measure.better))}{mean}<small>{low} to {high}</small>"


def outcomes_html(played: Played) -> str:
    """A line per policy, a column per word."""
    label = find(played.world).env_spec.outcome_label
    shares = {player.label: player.outcomes(label, played.region("all")) for player in played.players}
    words = [word for word in find(played.world).env_spec.labels[label] if any(word in found for found in shares.values())]
    rows = [
        f"<tr><td>{dot(played, player)}</td>"
        + "".join(f"<td>{fixed(100 * shares[player.label].get(word, 0.0), 1)}</td>" for word in words)
        + "</tr>"
        for player in played.players
    ]
    head = "".join(f"<th>{escape(word.replace('_', ' '))}</th>" for word in words)
    caption = f"What all {len(played.first.episodes)} episodes came to ({label}), in per cent, over all tries."
    return parts.table(caption, f"<tr><th>Policy</th>{head}</tr>", f"<tbody>{''.join(rows)}</tbody>")
