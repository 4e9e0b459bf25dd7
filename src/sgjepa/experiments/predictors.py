"""Which predictor, in which world? SG-JEPA with GRU, SSM and Transformer, LeWM and DINO-WM in every world of the paper.

Before methods are compared: could anybody do better than an object that stays put? The room is what lies between it and
the simulator, started from the state that SG-JEPA's probe sees. Where there is next to none, no method can show anything.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from sgjepa.core.stats import Interval, bootstrap_ratio
from sgjepa.envs import ENVS
from sgjepa.evaluation.metrics import MAIN
from sgjepa.experiments.answer import Answer, Evidence, main_table, region_words
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import Experiment
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Block, Cell, Data, Text
from sgjepa.report.figures import against_setting
from sgjepa.report.words import count, fixed, join
from sgjepa.results.claims import Claims, measure
from sgjepa.results.paper_numbers import published
from sgjepa.results.selection import MEAN, Horizon, at
from sgjepa.results.table import Results

METHODS = ("gru", "lewm", "ssm", "transformer", "dino")
OURS, THEIRS = "SG-JEPA (GRU)", "LeWM"
LEAST_ROOM = 0.3  # of the error of an object that stays put: with less, the mini size cannot decide
LITTLE_ROOM = "little room"


def arms(size: str) -> list[Training]:
    """Every method in every world under laws that has the size; the two that the paper's claim is about first."""
    declared = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.nominal_law}
    worlds = [name for name, spec in declared.items() if spec.defaults and size in spec.defaults.sizes]
    runs = [recipe(f"{world}_{method}", size) for method in METHODS for world in worlds]
    # a decoder for the report's pictures, where latents are vectors
    return [Training(replace(run, train=replace(run.train, decoder=not run.name.endswith("_dino")))) for run in runs]


def summary(evidence: Evidence) -> Answer:
    """A line per world in the table; every method, metric, region and source in a file beside it."""
    by_world = evidence.by_world
    labels = tuple(dict.fromkeys(arm for results in by_world.values() for arm in results.arms))
    records: list[dict[str, Any]] = []
    rows: list[tuple[Cell, ...]] = []
    claims: Claims = ()
    room = {world: _room(results, _eyes(results), results.horizons) for world, results in by_world.items()}
    for world, results in by_world.items():
        last, eyes = results.horizons, _eyes(results)
        for horizon in (last, MEAN):
            records += [{"world": world, "horizon": horizon, **record} for record in _records(results, horizon)]
        claims += _claims(results) if OURS in results.arms else ()
        stay, simulator = (results.mean(eyes, MAIN, [last], source)[last].mean for source in ("stay", "simulator"))
        errors = {arm: fixed(results.mean(arm, MAIN, [last])[last].mean, 3) for arm in results.arms}
        both = {OURS, THEIRS} <= set(results.arms)
        rows.append(
            (
                world.replace("_", " "),
                str(results.count("all")),
                str(results.trainings()),
                fixed(stay, 3),
                fixed(simulator, 3),
                f"{100 * room[world].mean:.0f} % ({100 * room[world].low:.0f} to {100 * room[world].high:.0f})",
                *(errors.get(label, "") for label in labels),
                results.ratio(OURS, THEIRS, MAIN, [last])[last] if both else "",
                "yes" if room[world].low > LEAST_ROOM else "no",
            )
        )
    decided = [world.replace("_", " ") for world, one in room.items() if one.low > LEAST_ROOM]
    which = f": {join(decided)}" if decided else ""
    words = [f"There is room to show something at the last horizon in {count(len(decided), 'world')} of {len(rows)}{which}."]
    caption = (
        "Position error at the last horizon over all test episodes, and the room: the share of the error of an object that "
        "stays put that the simulator, started from what SG-JEPA's probe sees (without SG-JEPA, the first method's), does "
        "away with. Where there is little, nobody could tell which dynamics are right."
    )
    references = ("stays put (m)", "simulator (m)", "room")
    errors_of = (f"{label} (m)" for label in labels)
    columns = ("world", "episodes", "trainings", *references, *errors_of, f"{OURS} / {THEIRS}", "decides")
    about = Text("Position error at the last horizon over that of an object that stays put: below 1 is better.", True)
    return Answer(
        "Where can this size decide?",
        words,
        [about, _figure(evidence), main_table(columns, rows, caption), Data("worlds", records)],
        claims,
    )


def _eyes(results: Results) -> str:
    """The arm whose probe the simulator starts from."""
    return OURS if OURS in results.arms else results.arms[0]


def _figure(evidence: Evidence) -> Block | None:
    """Every method in every world, and the simulator from what a probe sees."""
    curves: dict[str, list[tuple[float, Interval]]] = {}
    names = {float(x): world.replace("_", "\n") for x, world in enumerate(evidence.by_world)}
    for x, results in zip(names, evidence.by_world.values(), strict=True):
        for arm in results.arms:
            curves.setdefault(arm, []).append((x, _over_stay(results, arm, "predicted", results.horizons)))
        perfect = (x, _over_stay(results, _eyes(results), "simulator", results.horizons))
        curves.setdefault("simulator from the probed state", []).append(perfect)
    measured = "error over that of staying put"
    return against_setting("predictors_worlds", "At the last horizon", "", measured, curves, names=names)


def _claims(results: Results) -> Claims:
    """Our position error minus each baseline's, at the last horizon and over all, in every region.

    Without room an advantage is none; a certain disadvantage stays one.
    """
    claims: Claims = ()
    for name, label in (("below_lewm", THEIRS), ("below_dino", "DINO-WM")):
        other = next((arm for arm in results.arms if arm.startswith(label)), None)
        if other is None:
            continue
        horizons: tuple[Horizon, ...] = (results.horizons, MEAN)
        for region, horizon in product(results.regions, horizons):
            gap = results.gap(OURS, other, MAIN, horizon, region)
            when = f"h = {horizon}" if horizon != MEAN else f"mean over h = 1..{results.horizons}"
            little = "" if _room(results, OURS, horizon, region).low > LEAST_ROOM else LITTLE_ROOM
            note, void = (little, "") if gap.low > 0 else ("", little)
            claims += measure(
                name,
                f"{results.world.replace('_', ' ')}, {region_words(region)}, {when}",
                f"position error minus that of {other}",
                gap,
                "below",
                results.trainings(OURS, other),
                unit="m",
                paper=_papers(results, label, horizon) if region == "all" else "",
                note=note,
                void=void,
            )
    return claims


def _papers(results: Results, label: str, horizon: Horizon) -> str:
    """The paper's difference; empty where it has none."""
    known = published(results.world)
    values = known.values.get(MAIN, {}) if known else {}
    ours, theirs = (values.get(name, {}).get(horizon) for name in (OURS, label))
    return "" if ours is None or theirs is None else f"{fixed(ours - theirs, 4)} m"


def _records(results: Results, horizon: Horizon) -> list[dict[str, Any]]:
    """All methods and baselines, metrics and regions at a horizon."""
    records = []
    sources = ("predicted", "stay", "simulator", "true")
    for arm, metric, region, source in product(results.arms, results.comparable, results.regions, sources):
        one = results.mean(arm, metric, [horizon], source, region)[horizon]
        if one.mean == one.mean:
            head = {"method": arm, "source": source, "metric": metric, "region": region}
            records.append({**head, **one.numbers, "episodes": one.count, "seeds": len(results.seeds(arm))})
    return records


def _over_stay(results: Results, arm: str, source: str, horizon: Horizon, region: str = "all") -> Interval:
    """An error over that of an object that stays put."""
    error, stay = (at(results.values(arm, MAIN, one, region), [horizon]) for one in (source, "stay"))
    return bootstrap_ratio(error, stay)[0]


def _room(results: Results, arm: str, horizon: Horizon, region: str = "all") -> Interval:
    """1 - simulator / stay."""
    ratio = _over_stay(results, arm, "simulator", horizon, region)
    return Interval(1 - ratio.mean, 1 - ratio.high, 1 - ratio.low, ratio.count)


EXPERIMENT = Experiment(
    name="predictors",
    question="Which predictor, in which world?",
    claim="SG-JEPA stays closer to the truth than LeWM and DINO-WM in every world, with a GRU as with a state space.",
    arms=arms,
    analyse=summary,
    worlds=True,
)
