"""Is the gain the encoder's or the predictor's? Encoders of joint GRU and Transformer trainings, fresh predictors on each.

Four cells: (GRU's or Transformer's encoder, frozen) x (fresh GRU or fresh Transformer), beside the two joint trainings. The
endpoint is the paper's: NMSE of the rollout minus that of the probe on true frames, averaged over all horizons, so that a
representation that is hard to read is not taken for bad dynamics. A main effect is the mean difference between the levels
of one factor over those of the other, on the same episodes and seeds. That the gain follows the encoder is claimed of each
fresh predictor by itself: a mean of two could hide that one of them says the opposite.

Latent errors stand in the table for completeness: latents of two encoders have no common unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from sgjepa.core.stats import Interval, bootstrap
from sgjepa.core.tables import to_csv
from sgjepa.data.probe_targets import METRICS
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Done, Experiment
from sgjepa.experiments.frozen_encoder import PREDICTORS, fresh, joint, label_of, name_of
from sgjepa.report.content import Finding
from sgjepa.report.panels import Picture, axis_name
from sgjepa.report.sweep_figures import by_horizon
from sgjepa.report.words import fixed, signed, with_interval
from sgjepa.results.claims import measure
from sgjepa.results.compare import MEAN, Horizon, Method, at, verdict
from sgjepa.results.gather import unit
from sgjepa.results.paper_numbers import ablation, of_the_square

ENDPOINT = "excess_nmse"  # at the last horizon: the mean over all of them
TABLE = "tables/crossover.csv"
PAIRS = tuple(product(PREDICTORS, PREDICTORS))  # predictor, encoder


def arms(size: str) -> list[Training]:
    """Two joint trainings, and four fresh predictors."""
    return [*(joint(source, size) for source in PREDICTORS), *(fresh(*pair, size) for pair in PAIRS)]


def effects(done: Done, metric: str = ENDPOINT, horizon: Horizon | None = None, region: str = "all") -> dict[str, Interval]:
    """GRU minus Transformer, as what trained the encoder and as the fresh predictor, and how the two interact."""
    horizons = [done.results.last if horizon is None else horizon]
    return {name: found[0] for name, found in effects_at(done, metric, horizons, region).items()}


def effects_at(done: Done, metric: str, horizons: Sequence[Horizon], region: str = "all") -> dict[str, list[Interval]]:
    """The same at several horizons."""
    x = {pair: at(_method(done, *pair).stack(metric, region=region), horizons) for pair in PAIRS}
    gru, tf = PREDICTORS
    found = {
        "encoder": (x[gru, gru] + x[tf, gru] - x[gru, tf] - x[tf, tf]) / 2,
        "predictor": (x[gru, gru] + x[gru, tf] - x[tf, gru] - x[tf, tf]) / 2,
        "interaction": x[gru, gru] - x[gru, tf] - x[tf, gru] + x[tf, tf],
        **{f"encoder, {predictor}": x[predictor, gru] - x[predictor, tf] for predictor in PREDICTORS},
    }
    return {name: bootstrap(values) for name, values in found.items()}


def _method(done: Done, predictor: str, source: str) -> Method:
    return done.method(name_of(done.results.world, predictor, source))


def answer(done: Done) -> Finding:
    """The report's section: a line for each cell and effect, and which effect there is."""
    results = done.results
    shown: list[tuple[str, Horizon]] = [(ENDPOINT, results.last), ("latent_mse", MEAN)]
    shown += [(metric, results.last) for metric in ("position_l2", "velocity_l2", "angle_deg") if metric in results.metrics]
    paper = ablation("crossover")
    rows, records = [], list[dict[str, Any]]()

    def add(label: str, found: list[Interval], key: str = "") -> None:
        says = [paper[metric].get(key) for metric, _ in shown]
        rows.append((label, *(_cell(one, said) for one, said in zip(found, says, strict=True))))
        for (metric, horizon), one, said in zip(shown, found, says, strict=True):
            numbers = {**one.numbers, "paper": "" if said is None else said}
            records.append({"what": label, "metric": metric, "horizon": horizon, **numbers})

    def measured(name: str) -> list[Interval]:
        return [done.method(name).at(metric, [horizon])[horizon] for metric, horizon in shown]

    for source, label in PREDICTORS.items():
        add(f"{label}, joint", measured(f"{results.world}_{source}"))
    for source, predictor in product(PREDICTORS, PREDICTORS):
        named = name_of(results.world, predictor, source)
        add(label_of(predictor, source), measured(named), f"{predictor} on {source}")
    for effect, label in _EFFECTS.items():
        add(label, [effects(done, metric, horizon)[effect] for metric, horizon in shown])
    words = _said(done)
    caption = (
        f"Excess NMSE over h = 1..{results.last}, latent error over the same, physical errors at h = {results.last}, with "
        "95 % intervals; in brackets the paper's, of the square at its size. Effects: GRU minus Transformer, below zero is "
        "better."
    )
    head = ("encoder and predictor", *(_title(metric) for metric, _ in shown))
    found_ = effects(done)
    claims = sum(
        (
            measure(
                "encoder",
                f"{results.world.replace('_', ' ')}, fresh {label}, h = 1..{results.last}",
                "excess NMSE on the GRU's encoder minus on the Transformer's",
                found_[f"encoder, {predictor}"],
                "below",
                done.seeds,
                paper=of_the_square(
                    fixed(paper[ENDPOINT][f"{predictor} on gru"] - paper[ENDPOINT][f"{predictor} on transformer"], 3),
                    results.world,
                ),
            )
            for predictor, label in PREDICTORS.items()
        ),
        (),
    )
    shown_ = "The mean excess NMSE over h = 1 up to each horizon, and the two effects on it, with 95 % intervals at each."
    more = {TABLE: to_csv(records)}
    return Finding("Encoder or predictor?", words, caption, head, tuple(rows), more, tuple(_pictures(done)), shown_, claims)


def _pictures(done: Done) -> list[Picture]:
    """Excess error by horizon of the four cells, and both effects."""
    horizons: list[Horizon] = list(range(1, done.results.last + 1))
    ticks = done.results.horizons
    cells_ = {f"{PREDICTORS[p]} on {PREDICTORS[e]}'s": _method(done, p, e).by_horizon(ENDPOINT) for p, e in PAIRS}
    title = "A fresh predictor on a frozen encoder"
    found = by_horizon("crossover_by_horizon", title, axis_name(ENDPOINT), cells_, ticks)
    both = {name: one for name, one in effects_at(done, ENDPOINT, horizons).items() if name in ("encoder", "predictor")}
    named = {_EFFECTS[name].replace(" (", "\n("): one for name, one in both.items()}
    return found + by_horizon("crossover_effects", "GRU minus Transformer", axis_name(ENDPOINT), named, ticks)


_EFFECTS = {
    "encoder": "effect of the encoder (GRU's minus Transformer's)",
    "predictor": "effect of the predictor (GRU minus Transformer)",
    "interaction": "interaction of the two",
    **{f"encoder, {predictor}": f"effect of the encoder with a fresh {label}" for predictor, label in PREDICTORS.items()},
}


def _said(done: Done) -> tuple[str, ...]:
    found = effects(done)
    whose = {name: verdict(found[name]) != "undecided" for name in ("encoder", "predictor")}
    with_each = {verdict(found[f"encoder, {predictor}"]) for predictor in PREDICTORS}
    whichever = ", whichever predictor is fitted to it" if with_each in ({"better"}, {"worse"}) else " on average"
    answer_ = {
        (True, True): "Both matter",
        (True, False): f"The difference follows the encoder{whichever}",
        (False, True): "The difference follows the predictor, whichever encoder it sees",
        (False, False): "These runs cannot tell whether encoder or predictor makes a difference",
    }[whose["encoder"], whose["predictor"]]
    sentences = []
    for name, one, other in (
        ("encoder", "the encoder that was trained with the GRU", "the one trained with the Transformer"),
        ("predictor", "a fresh GRU", "a fresh Transformer"),
    ):
        said = {"better": "errs less than", "worse": "errs more than", "undecided": "cannot be told from"}
        sentence = f"{one} {said[verdict(found[name])]} {other} ({signed(found[name], ENDPOINT)})"
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
    return f"{answer_}, in the excess NMSE over h = 1..{done.results.last}.", *sentences


def _title(metric: str) -> str:
    name = "latent error" if metric == "latent_mse" else METRICS[metric]
    return f"{name} ({unit(metric)})" if metric != "latent_mse" and unit(metric) else name


def _cell(one: Interval, said: float | None) -> str:
    paper = "" if said is None else f" [{fixed(said, 3)}]"
    return with_interval(one) + paper


EXPERIMENT = Experiment(
    name="crossover",
    question="Is the gain the encoder's or the predictor's?",
    claim="The advantage follows the representation that was learned with the GRU, whichever predictor is fitted to it.",
    arms=arms,
    needs=lambda size: [[name_of(WORLDS[size], *pair) for pair in PAIRS]],
    analyse=answer,
)
