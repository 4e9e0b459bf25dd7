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
from sgjepa.evaluation.metrics import METRICS
from sgjepa.experiments.answer import Answer, Evidence, main_table
from sgjepa.experiments.arms import Training
from sgjepa.experiments.engine import WORLDS, Experiment
from sgjepa.experiments.frozen_encoder import PREDICTORS, fresh, joint, label_of, name_of
from sgjepa.report.blocks import Block, Cell, Data, Number, Text
from sgjepa.report.figures import by_horizon
from sgjepa.report.words import fixed, signed, unit
from sgjepa.report.words import measured as named
from sgjepa.results.claims import BETTER, UNDECIDED, WORSE, Claims, measure, verdict
from sgjepa.results.paper_numbers import ablation, of_the_square
from sgjepa.results.selection import MEAN, Horizon, at

ENDPOINT = "excess_nmse"  # at the last horizon: the mean over all of them
PAIRS = tuple(product(PREDICTORS, PREDICTORS))  # predictor, encoder
EFFECTS = {
    "encoder": "effect of the encoder (GRU's minus Transformer's)",
    "predictor": "effect of the predictor (GRU minus Transformer)",
    "interaction": "interaction of the two",
    **{f"encoder, {predictor}": f"effect of the encoder with a fresh {label}" for predictor, label in PREDICTORS.items()},
}


def arms(size: str) -> list[Training]:
    """Two joint trainings, and four fresh predictors."""
    return [*(joint(source, size) for source in PREDICTORS), *(fresh(*pair, size) for pair in PAIRS)]


def effects(
    evidence: Evidence, metric: str = ENDPOINT, horizons: Sequence[Horizon] = (), region: str = "all"
) -> dict[str, list[Interval]]:
    """Effects of GRU minus Transformer, as the encoder's training and as the fresh predictor, and their interaction.

    horizons: default the last.
    """
    results = evidence.results
    x = {
        pair: at(evidence.values(name_of(results.world, *pair), metric, region=region), horizons or [results.horizons])
        for pair in PAIRS
    }
    gru, tf = PREDICTORS
    contrasts = {
        "encoder": (x[gru, gru] + x[tf, gru] - x[gru, tf] - x[tf, tf]) / 2,
        "predictor": (x[gru, gru] + x[gru, tf] - x[tf, gru] - x[tf, tf]) / 2,
        "interaction": x[gru, gru] - x[gru, tf] - x[tf, gru] + x[tf, tf],
        **{f"encoder, {predictor}": x[predictor, gru] - x[predictor, tf] for predictor in PREDICTORS},
    }
    return {name: bootstrap(values) for name, values in contrasts.items()}


def answer(evidence: Evidence) -> Answer:
    """A row for each cell and effect, and a sentence on the effects."""
    results, paper = evidence.results, ablation("crossover")
    world, last = results.world, results.horizons
    metrics: list[tuple[str, Horizon]] = [(ENDPOINT, last), ("latent_mse", MEAN)]
    metrics += [(metric, last) for metric in ("position_l2", "velocity_l2", "angle_deg") if metric in results.metrics]
    rows, records = list[tuple[Cell, ...]](), list[dict[str, Any]]()

    def add(label: str, contrasts: list[Interval], key: str = "") -> None:
        says = [paper[metric].get(key) for metric, _ in metrics]
        notes = ["" if value is None else f"[{fixed(value, 3)}]" for value in says]
        rows.append((label, *(Number(contrast, note=note) for contrast, note in zip(contrasts, notes, strict=True))))
        for (metric, horizon), contrast, value in zip(metrics, contrasts, says, strict=True):
            numbers = {**contrast.numbers, "paper": "" if value is None else value}
            records.append({"what": label, "metric": metric, "horizon": horizon, **numbers})

    def measured(name: str) -> list[Interval]:
        return [results.mean(results.arm(name), metric, [horizon])[horizon] for metric, horizon in metrics]

    for source, label in PREDICTORS.items():
        add(f"{label}, joint", measured(f"{world}_{source}"))
    for source, predictor in product(PREDICTORS, PREDICTORS):
        add(label_of(predictor, source), measured(name_of(world, predictor, source)), f"{predictor} on {source}")
    of_metric = [effects(evidence, metric, [horizon]) for metric, horizon in metrics]
    for effect, label in EFFECTS.items():
        add(label, [contrasts[effect][0] for contrasts in of_metric])
    caption = (
        f"Excess NMSE over h = 1..{last}, latent error over the same, physical errors at h = {last}; in square brackets the "
        "paper's, of the square at its size. Effects: GRU minus Transformer, below zero is better."
    )
    heads = ("encoder and predictor", *(_title(metric) for metric, _ in metrics))
    curves = {
        f"{PREDICTORS[p]} on {PREDICTORS[e]}'s": results.curve(results.arm(name_of(world, p, e)), ENDPOINT) for p, e in PAIRS
    }
    both = effects(evidence, horizons=range(1, last + 1))
    named_effects = {EFFECTS[name].replace(" (", "\n("): both[name] for name in ("encoder", "predictor")}
    cells_figure, effects_figure = (
        by_horizon(file, title, named(ENDPOINT), lines, results.steps)
        for file, title, lines in (
            ("crossover_by_horizon", "A fresh predictor on a frozen encoder", curves),
            ("crossover_effects", "GRU minus Transformer", named_effects),
        )
    )
    about = Text("The mean excess NMSE over h = 1 up to each horizon, and the two effects on it.", quiet=True)
    endpoint = {name: contrasts[0] for name, contrasts in effects(evidence).items()}
    blocks: list[Block | None] = [
        about,
        cells_figure,
        effects_figure,
        main_table(heads, rows, caption),
        Data("crossover", records),
    ]
    return Answer("Encoder or predictor?", _sentences(endpoint, last), blocks, _claims(evidence, endpoint))


def _claims(evidence: Evidence, contrasts: dict[str, Interval]) -> Claims:
    claims: Claims = ()
    paper, world = ablation("crossover")[ENDPOINT], evidence.results.world
    for predictor, label in PREDICTORS.items():
        published = fixed(paper[f"{predictor} on gru"] - paper[f"{predictor} on transformer"], 3)
        claims += measure(
            "encoder",
            f"{world.replace('_', ' ')}, fresh {label}, h = 1..{evidence.results.horizons}",
            "excess NMSE on the GRU's encoder minus on the Transformer's",
            contrasts[f"encoder, {predictor}"],
            "below",
            evidence.results.trainings(),
            paper=of_the_square(published, world),
        )
    return claims


def _sentences(contrasts: dict[str, Interval], last: int) -> list[str]:
    """A sentence that attributes the difference, with both effects."""
    with_each = {verdict(contrasts[f"encoder, {predictor}"]) for predictor in PREDICTORS}
    whichever = ", whichever predictor is fitted to it" if with_each in ({BETTER}, {WORSE}) else " on average"
    whose = {
        (True, True): "Both matter",
        (True, False): f"The difference follows the encoder{whichever}",
        (False, True): "The difference follows the predictor, whichever encoder it sees",
        (False, False): "Neither encoder nor predictor makes a significant difference",
    }[verdict(contrasts["encoder"]) != UNDECIDED, verdict(contrasts["predictor"]) != UNDECIDED]
    both = " and ".join(f"{name} {signed(contrasts[name], ENDPOINT)}" for name in ("encoder", "predictor"))
    return [f"{whose}, in the excess NMSE over h = 1..{last} (GRU's minus Transformer's: {both})."]


def _title(metric: str) -> str:
    return METRICS[metric].label + (f" ({unit(metric)})" if unit(metric) else "")


EXPERIMENT = Experiment(
    name="crossover",
    question="Is the gain the encoder's or the predictor's?",
    claim="The advantage follows the representation that was learned with the GRU, whichever predictor is fitted to it.",
    arms=arms,
    needs=lambda size: [[name_of(WORLDS[size], *pair) for pair in PAIRS]],
    analyse=answer,
)
