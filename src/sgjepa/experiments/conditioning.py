"""Is the Transformer's conditioning the bottleneck? Five ways to condition it, and the GRU, all of one size.

AdaLN in every block with a gate of 0, 0.1 or 1 at first, the condition joined to the latent once before the first block, or
in both halves of every block; the MLPs' widths keep the number of parameters (recipes `transformer_*`). Everything else is
SG-JEPA's recipe; the square at paper size, Approach Ball at mini size.

The measure is the excess NMSE, averaged over all horizons: the rollout's error minus that of the probe on true latents. The
share of the gap is the part of the difference between the default Transformer (gate 0) and the GRU that another way closes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sgjepa.core.stats import bootstrap, bootstrap_ratio
from sgjepa.evaluation.metrics import MAIN
from sgjepa.experiments import sweep
from sgjepa.experiments.answer import Evidence
from sgjepa.experiments.engine import WORLDS
from sgjepa.experiments.sweep import Column, Measured, Setting
from sgjepa.recipes.training import recipe
from sgjepa.report.blocks import Block, Data
from sgjepa.report.figures import by_horizon
from sgjepa.report.words import compare, fixed
from sgjepa.report.words import measured as named
from sgjepa.results.claims import WORSE, Claims, verdict
from sgjepa.training.profile import outline, parameters

WAYS = {
    "gru": "GRU",
    "transformer": "AdaLN, gate 0",
    "transformer_adaln_0.1": "AdaLN, gate 0.1",
    "transformer_adaln_1": "AdaLN, gate 1",
    "transformer_input_concat": "joined once",
    "transformer_block_concat": "joined in every block",
}
EXCESS = "excess_nmse"  # at the last horizon: the mean over all of them


def settings(size: str) -> list[Setting]:
    """The GRU's recipe, and the Transformer's with each conditioning."""
    runs = {label: recipe(f"{WORLDS[size]}_{way}", size) for way, label in WAYS.items()}
    return [
        Setting(run, label=way if way == "GRU" else f"Transformer, {way}", values=(way,), x=float(x))
        for x, (way, run) in enumerate(runs.items())
    ]


def millions(evidence: Evidence, arm: str) -> np.ndarray:
    """The predictor's number of parameters, in millions."""
    (run,) = (arm_.run for arm_ in evidence.arms if isinstance(arm_, Setting) and arm_.name == evidence.results.name(arm))
    return np.array([parameters(outline(run))["predictor"] / 1e6])


def columns(evidence: Evidence) -> list[Column]:
    """Predictor size, excess NMSE, and position error of rollouts."""
    last = evidence.results.horizons
    return [
        Column("parameters (M)", millions, 2),
        Column("excess NMSE over all horizons", sweep.error(EXCESS, last), judged=True),
        Column(f"position error at h = {last} (m)", sweep.error(MAIN, last)),
    ]


def closed(evidence: Evidence, measured: Measured) -> tuple[Sequence[str], Sequence[Block | None], Claims]:
    """The share of the gap to the GRU that the best conditioning closes, and every Transformer minus the GRU by law."""
    results, last = evidence.results, evidence.results.horizons
    arms = {setting.values[0]: arm for arm, (setting, _) in measured.items()}
    curves = {arm: results.curve(arm, EXCESS) for arm in results.arms}
    blocks: list[Block | None] = [by_horizon("conditioning_excess", "Excess", named(EXCESS), curves, results.steps)]
    gru, baseline = arms.get("GRU"), arms.get("AdaLN, gate 0")
    if gru is None or baseline is None:
        return ("The GRU and the default Transformer are both needed for an answer.",), blocks, ()
    others = [arm for arm in arms.values() if arm != gru]
    best = min(others, key=lambda arm: results.mean(arm, EXCESS, [last])[last].mean)
    gap = results.gap(baseline, gru, EXCESS)
    decides = results.decides(baseline, gru)
    words = [f"{compare(baseline, gru, gap, EXCESS, decides)}."]
    if verdict(gap) != WORSE:
        words += ["There is no significant gap between the default Transformer and the GRU to close."] if decides else []
    elif best != baseline and len({len(results.seeds(arm)) for arm in (best, baseline, gru)}) == 1:
        best_values, baseline_values, gru_values = (
            results.values(arm, EXCESS)[:, :, [last - 1]] for arm in (best, baseline, gru)
        )
        share = bootstrap_ratio(baseline_values - best_values, baseline_values - gru_values)[0].percent()
        ends = f"{fixed(share.low, 0)} to {fixed(share.high, 0)}"
        words.append(f"{best}, the best on these episodes, closes {fixed(share.mean, 0)} % of the gap ({ends}).")
    return words, [*blocks, Data("conditioning_by_law", by_law(evidence, gru, others))], ()


def by_law(evidence: Evidence, gru: str, others: Sequence[str]) -> list[dict[str, str | float]]:
    """Records of every Transformer minus the GRU at each value of the first law."""
    results = evidence.results
    records: list[dict[str, str | float]] = []
    for law in results.axes[:1]:
        for arm in (arm for arm in others if len(results.seeds(arm)) == len(results.seeds(gru))):
            decides = results.decides(arm, gru)
            gaps = (results.values(arm, EXCESS) - results.values(gru, EXCESS))[:, :, -1:]
            for value in law.values:
                difference = bootstrap(gaps[:, results.where(**{law.name: value})])[0]
                numbers = {
                    "difference": difference.mean,
                    "low": difference.low,
                    "high": difference.high,
                    "episodes": difference.count,
                }
                records.append(
                    {"predictor": arm, law.name: value, **numbers, "verdict": verdict(difference) if decides else ""}
                )
    return records


EXPERIMENT = sweep.sweep(
    name="conditioning",
    question="Is the Transformer's conditioning the bottleneck?",
    claim="No way of conditioning the Transformer closes the gap to the GRU.",
    settings=settings,
    heads=("predictor",),
    columns=columns,
    caption="Predictors of one size with SG-JEPA's loss.",
    more=closed,
    seeds=sweep.THRICE,
)
