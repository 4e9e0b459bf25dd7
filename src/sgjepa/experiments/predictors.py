"""Which predictor, in which world? SG-JEPA with GRU, SSM and Transformer, LeWM and DINO-WM in every world of the paper.

Before methods are compared: could anybody do better than an object that stays put? The room is what lies between it and
the simulator, started from the state that SG-JEPA's probe sees. Where there is next to none, no method can show anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from sgjepa.core.stats import Interval, bootstrap, bootstrap_ratio
from sgjepa.core.tables import to_csv
from sgjepa.envs import ENVS
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import Experiment
from sgjepa.recipes.training import recipe
from sgjepa.report.content import Finding
from sgjepa.report.panels import Picture
from sgjepa.report.sweep_figures import against_setting
from sgjepa.report.words import REGIONS, count, fixed, join
from sgjepa.results.claims import Claims, measure
from sgjepa.results.compare import MEAN, Horizon, Method, at, paired, verdict
from sgjepa.results.gather import MAIN, Results
from sgjepa.training.config import Run

METHODS = ("gru", "lewm", "ssm", "transformer", "dino")
OURS, THEIRS = "SG-JEPA (GRU)", "LeWM"
LEAST_ROOM = 0.3  # of the error of an object that stays put: with less, the mini size cannot decide
LITTLE_ROOM = "little room"
TABLE = "tables/worlds.csv"


def arms(size: str) -> list[Training]:
    """Every method in every world under laws that has the size; the two that the paper's claim is about first."""
    declared = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.nominal_law}
    worlds = [name for name, world in declared.items() if world.defaults and size in world.defaults.sizes]
    return [Training(_decoded(recipe(f"{world}_{method}", size))) for method in METHODS for world in worlds]


def _decoded(run: Run) -> Run:
    """With a decoder for the report's pictures, where latents are vectors."""
    return replace(run, train=replace(run.train, decoder=not run.name.endswith("_dino")))


def summary(by_world: Mapping[str, Results]) -> Finding:
    """A line per world, method and horizon in a table beside it; the section has the last horizon."""
    records: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    decided: list[str] = []
    undecided: list[str] = []
    claims: Claims = ()
    for world, results in by_world.items():
        found = {method.label: method for method in results.methods}
        for horizon in (results.last, MEAN):
            records += [{"world": world, "horizon": horizon, **record} for record in _records(results, horizon)]
        ours, theirs = found.get(OURS), found.get(THEIRS)
        eyes = ours or results.methods[0]
        room = _room(eyes, results.last)
        has_room = room.low > LEAST_ROOM
        claims += _claims(results, ours) if ours is not None else ()
        (decided if has_room else undecided).append(world)
        last = {label: method.at(MAIN, [results.last])[results.last].mean for label, method in found.items()}
        stay, simulator = (eyes.at(MAIN, [results.last], source)[results.last].mean for source in ("stay", "simulator"))
        rows.append(
            (
                world.replace("_", " "),
                str(results.episodes("all")),
                str(min(len(method.seeds) for method in results.methods)),
                fixed(stay, 3),
                fixed(simulator, 3),
                f"{100 * room.mean:.0f} % ({100 * room.low:.0f} to {100 * room.high:.0f})",
                *(fixed(last[label], 3) if label in last else "" for label in _labels(by_world)),
                _ratio(ours, theirs, results.last) if ours and theirs else "",
                "yes" if has_room else "no",
            )
        )
    where = f": {_named(decided)}" if decided else ""
    words = [f"There is room to show something at the last horizon in {count(len(decided), 'world')} of {len(rows)}{where}."]
    if undecided:
        words.append(
            f"In {_named(undecided)} the simulator from the probed state is hardly better than an object that stays put: "
            "nobody could tell there which dynamics are right."
        )
    caption = (
        "Position error at the last horizon over all test episodes, and the room: the share of the error of an object that "
        "stays put that the simulator, started from what SG-JEPA's probe sees (without SG-JEPA, the first method's), does "
        "away with."
    )
    errors = (f"{label} (m)" for label in _labels(by_world))
    references = ("stays put (m)", "simulator (m)", "room")
    head = ("world", "episodes", "trainings", *references, *errors, f"{OURS} / {THEIRS}", "decides")
    drawn = tuple(_pictures(by_world))
    shown = (
        "Position error at the last horizon over that of an object that stays put, with 95 % intervals: below 1 is better."
    )
    title, more = "Where can this size decide?", {TABLE: to_csv(records)}
    return Finding(title, tuple(words), caption, head, tuple(rows), more, drawn, shown, claims)


def _pictures(by_world: Mapping[str, Results]) -> list[Picture]:
    """Every method in every world, and the simulator from what a probe sees."""
    names, curves = {}, dict[str, list[tuple[float, Interval]]]()
    for place, (world, results) in enumerate(by_world.items()):
        names[float(place)] = world.replace("_", "\n")
        eyes = next((method for method in results.methods if method.label == OURS), results.methods[0])
        for method in results.methods:
            curves.setdefault(method.label, []).append((float(place), _over_stay(method, "predicted", results.last)))
            if method is eyes:
                perfect = (float(place), _over_stay(method, "simulator", results.last))
                curves.setdefault("simulator from the probed state", []).append(perfect)
    measured = "error over that of staying put"
    return against_setting("predictors_worlds", "At the last horizon", "", measured, curves, names=names)


def _claims(results: Results, ours: Method) -> Claims:
    """Our position error minus each baseline's, at the last horizon and over all, in every region.

    Without room an advantage is none; a certain disadvantage stays one.
    """
    claims: Claims = ()
    for name, label in (("below_lewm", THEIRS), ("below_dino", "DINO-WM")):
        other = next((method for method in results.methods if method.label.startswith(label)), None)
        if other is None:
            continue
        horizons: tuple[Horizon, ...] = (results.last, MEAN)
        for region, horizon in product(results.regions, horizons):
            found = paired(ours, other, MAIN, [horizon], region)[horizon]
            when = f"h = {horizon}" if horizon != MEAN else f"mean over h = 1..{results.last}"
            where = f"{results.world.replace('_', ' ')}, {REGIONS[region]}, {when}"
            what = f"position error minus that of {other.label}"
            seeds = min(len(ours.seeds), len(other.seeds))
            says = _papers(results, label, horizon) if region == "all" else ""
            little = "" if _room(ours, horizon, region).low > LEAST_ROOM else LITTLE_ROOM
            note, void = (little, "") if found.low > 0 else ("", little)
            claims += measure(name, where, what, found, "below", seeds, unit="m", paper=says, note=note, void=void)
    return claims


def _papers(results: Results, label: str, horizon: Horizon) -> str:
    """The paper's difference; empty where it has none."""
    values = results.published.values.get(MAIN, {}) if results.published else {}
    says = [values.get(name, {}).get(horizon) for name in (OURS, label)]
    return "" if says[0] is None or says[1] is None else f"{fixed(says[0] - says[1], 4)} m"


def _named(worlds: list[str]) -> str:
    return join([world.replace("_", " ") for world in worlds])


def _labels(by_world: Mapping[str, Results]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(method.label for results in by_world.values() for method in results.methods))


def _records(results: Results, horizon: int | str) -> list[dict[str, Any]]:
    """All methods and references, metrics and regions at a horizon."""
    found = []
    for method in results.methods:
        for metric in results.metrics:
            for region in results.regions:
                for source in ("predicted", "stay", "simulator", "true"):
                    one = method.at(metric, [horizon], source, region)[horizon]
                    if one.mean == one.mean:
                        head = {"method": method.label, "source": source, "metric": metric, "region": region}
                        numbers = {**one.numbers, "episodes": one.count}
                        found.append({**head, **numbers, "seeds": len(method.seeds)})
    return found


def _over_stay(method: Method, source: str, horizon: Horizon, region: str = "all") -> Interval:
    """An error over that of an object that stays put."""
    error, stay = (at(method.stack(MAIN, one, region), [horizon]) for one in (source, "stay"))
    return bootstrap_ratio(error, stay)[0]


def _room(method: Method, horizon: Horizon, region: str = "all") -> Interval:
    """1 - simulator / stay."""
    ratio = _over_stay(method, "simulator", horizon, region)
    return Interval(1 - ratio.mean, 1 - ratio.high, 1 - ratio.low, ratio.count)


def _ratio(ours: Method, theirs: Method, horizon: int) -> str:
    mine, other = (at(method.stack(MAIN), [horizon]) for method in (ours, theirs))
    one = bootstrap_ratio(mine, other)[0]
    said = verdict(bootstrap(mine - other)[0]) if len(mine) == len(other) else ""
    return f"{one.mean:.2f} ({one.low:.2f} to {one.high:.2f}) {said}".strip()


EXPERIMENT = Experiment(
    name="predictors",
    question="Which predictor, in which world?",
    claim="SG-JEPA stays closer to the truth than LeWM and DINO-WM in every world, with a GRU as with a state space.",
    arms=arms,
    analyse=lambda done: summary(done.by_world),
    worlds=True,
)
