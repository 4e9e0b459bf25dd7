"""Which predictor, in which world? SG-JEPA with GRU, SSM and Transformer, LeWM and DINO-WM in every world of the paper.

Methods can only differ where there is room: the share of the constant-position error that the simulator, started from the
state that SG-JEPA's probe reads, avoids. Where there is little room, the comparison has no power.
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
SG_JEPA, BASELINE = "SG-JEPA (GRU)", "LeWM"
LEAST_ROOM = 0.3  # share of the constant-position error; with less the mini size cannot decide
LITTLE_ROOM = "little room"


def arms(size: str) -> list[Training]:
    """Every method in every world with laws and the size; the two of the paper's claim first."""
    declared = {name: env.env_spec for name, env in ENVS.items() if env.env_spec.nominal_law}
    worlds = [name for name, spec in declared.items() if spec.defaults and size in spec.defaults.sizes]
    runs = [recipe(f"{world}_{method}", size) for method in METHODS for world in worlds]
    # a decoder for the report's pictures, where latents are vectors
    return [Training(replace(run, train=replace(run.train, decoder=not run.name.endswith("_dino")))) for run in runs]


def summary(evidence: Evidence) -> Answer:
    """A table with a row per world, and records of every method, metric, region and source."""
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
        claims += _claims(results) if SG_JEPA in results.arms else ()
        stay, simulator = (results.mean(eyes, MAIN, [last], source)[last].mean for source in ("stay", "simulator"))
        errors = {arm: fixed(results.mean(arm, MAIN, [last])[last].mean, 3) for arm in results.arms}
        both = {SG_JEPA, BASELINE} <= set(results.arms)
        rows.append(
            (
                world.replace("_", " "),
                str(results.count("all")),
                str(results.trainings()),
                fixed(stay, 3),
                fixed(simulator, 3),
                f"{100 * room[world].mean:.0f} % ({100 * room[world].low:.0f} to {100 * room[world].high:.0f})",
                *(errors.get(label, "") for label in labels),
                results.ratio(SG_JEPA, BASELINE, MAIN, [last])[last] if both else "",
                "yes" if room[world].low > LEAST_ROOM else "no",
            )
        )
    decided = [world.replace("_", " ") for world, interval in room.items() if interval.low > LEAST_ROOM]
    which = f": {join(decided)}" if decided else ""
    words = [f"There is room for a difference at the last horizon in {count(len(decided), 'world')} of {len(rows)}{which}."]
    caption = (
        "Position error at the last horizon over all test episodes, and the room: the share of the error of an object that "
        "stays put that the simulator, started from the state that SG-JEPA's probe reads (without SG-JEPA, the first "
        "method's), avoids. Where there is little, the test has no power."
    )
    references = ("stays put (m)", "simulator (m)", "room")
    errors_of = (f"{label} (m)" for label in labels)
    columns = ("world", "episodes", "trainings", *references, *errors_of, f"{SG_JEPA} / {BASELINE}", "decides")
    about = Text("Position error at the last horizon over that of an object that stays put: below 1 is better.", True)
    return Answer(
        "Where can this size decide?",
        words,
        [about, _figure(evidence), main_table(columns, rows, caption), Data("worlds", records)],
        claims,
    )


def _eyes(results: Results) -> str:
    """The arm whose probe the simulator starts from."""
    return SG_JEPA if SG_JEPA in results.arms else results.arms[0]


def _figure(evidence: Evidence) -> Block | None:
    """A figure of every method in every world, and the simulator from the probed state."""
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
    """Claims on SG-JEPA's position error minus each baseline's, at the last horizon and over all, in every region.

    Without room an advantage does not count; a significant disadvantage does.
    """
    claims: Claims = ()
    for name, label in (("below_lewm", BASELINE), ("below_dino", "DINO-WM")):
        other = next((arm for arm in results.arms if arm.startswith(label)), None)
        if other is None:
            continue
        horizons: tuple[Horizon, ...] = (results.horizons, MEAN)
        for region, horizon in product(results.regions, horizons):
            gap = results.gap(SG_JEPA, other, MAIN, horizon, region)
            when = f"h = {horizon}" if horizon != MEAN else f"mean over h = 1..{results.horizons}"
            little = "" if _room(results, SG_JEPA, horizon, region).low > LEAST_ROOM else LITTLE_ROOM
            note, void = (little, "") if gap.low > 0 else ("", little)
            claims += measure(
                name,
                f"{results.world.replace('_', ' ')}, {region_words(region)}, {when}",
                f"position error minus that of {other}",
                gap,
                "below",
                results.trainings(SG_JEPA, other),
                unit="m",
                paper=_papers(results, label, horizon) if region == "all" else "",
                note=note,
                void=void,
            )
    return claims


def _papers(results: Results, label: str, horizon: Horizon) -> str:
    """The paper's difference in words; empty if it has none."""
    known = published(results.world)
    values = known.values.get(MAIN, {}) if known else {}
    a, b = (values.get(name, {}).get(horizon) for name in (SG_JEPA, label))
    return "" if a is None or b is None else f"{fixed(a - b, 4)} m"


def _records(results: Results, horizon: Horizon) -> list[dict[str, Any]]:
    """Records of all methods and baselines, metrics and regions at a horizon."""
    records = []
    sources = ("predicted", "stay", "simulator", "true")
    for arm, metric, region, source in product(results.arms, results.comparable, results.regions, sources):
        mean = results.mean(arm, metric, [horizon], source, region)[horizon]
        if mean.mean == mean.mean:
            head = {"method": arm, "source": source, "metric": metric, "region": region}
            records.append({**head, **mean.numbers, "episodes": mean.count, "seeds": len(results.seeds(arm))})
    return records


def _over_stay(results: Results, arm: str, source: str, horizon: Horizon, region: str = "all") -> Interval:
    """The ratio of an error to that of an object that stays put."""
    error, stay = (at(results.values(arm, MAIN, name, region), [horizon]) for name in (source, "stay"))
    return bootstrap_ratio(error, stay)[0]


def _room(results: Results, arm: str, horizon: Horizon, region: str = "all") -> Interval:
    """The room: 1 - simulator / stay."""
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
